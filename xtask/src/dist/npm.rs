//! The npm packages: `haft`, a launcher without dependencies with the package of `sdk/typescript`
//! beside it, and the binary for one platform.
//!
//! npm installs only those of the `optionalDependencies` that fit the system, so nothing has to
//! be fetched by a script after the installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::commands::{self, Mode};
use super::release::Release;
use super::{LICENCE, LICENCE_FILES, SUMMARY};

const PLATFORM: &str = "@haft/linux-x64";

/// Returns the launcher's package and the platform's.
pub(super) fn make(release: &Release) -> anyhow::Result<Vec<PathBuf>> {
    let (launcher, platform) = (release.work.join("npm/haft"), release.work.join("npm/linux-x64"));
    let version = &release.version;
    commands::emptied(&release.work.join("npm"))?;
    commands::copy(
        &release.root.join("dist/npm/haft.js"),
        &launcher.join("bin/haft.js"),
        Mode::Program,
    )?;
    put_modules(release, &launcher)?;
    commands::put(&launcher.join("README.md"), release.text("README.md")?, Mode::Data)?;
    commands::copy(&release.binary, &platform.join("bin/haft"), Mode::Program)?;
    let readme = format!("The program of the package `haft` for Linux on x86-64.\n\n{SUMMARY}\n");
    commands::put(&platform.join("README.md"), readme, Mode::Data)?;
    let packages = [(launcher, launcher_manifest(version)), (platform, platform_manifest(version))];
    packages.iter().map(|(tree, manifest)| pack(release, tree, manifest)).collect()
}

/// Where the modules of the package are.
const MODULES: &str = "sdk/typescript/src";

/// Puts the modules beside the launcher, which is no module itself.
fn put_modules(release: &Release, launcher: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(release.root.join(MODULES)).context("listing the npm package")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let text = release.text(&format!("{MODULES}/{name}"))?;
        commands::put(&launcher.join("sdk").join(name), text, Mode::Data)?;
    }
    let kind = json!({ "type": "module" });
    commands::put(&launcher.join("sdk/package.json"), format!("{kind:#}\n"), Mode::Data)
}

fn pack(release: &Release, tree: &Path, manifest: &Value) -> anyhow::Result<PathBuf> {
    for name in LICENCE_FILES {
        commands::put(&tree.join(name), release.text(name)?, Mode::Data)?;
    }
    commands::put(&tree.join("package.json"), format!("{manifest:#}\n"), Mode::Data)?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"]).arg(&release.out).current_dir(tree);
    let name = commands::output(&mut pack)?;
    Ok(release.out.join(name.trim()))
}

fn launcher_manifest(version: &str) -> Value {
    json!({
        "name": "haft",
        "version": version,
        "description": SUMMARY,
        "license": LICENCE,
        "bin": { "haft": "bin/haft.js" },
        "exports": {
            ".": { "types": "./sdk/index.d.ts", "default": "./sdk/index.js" },
            "./client": { "types": "./sdk/index.d.ts", "default": "./sdk/client.js" },
        },
        "types": "sdk/index.d.ts",
        "files": ["bin", "sdk"],
        "engines": { "node": ">=20" },
        "optionalDependencies": { PLATFORM: version },
    })
}

fn platform_manifest(version: &str) -> Value {
    json!({
        "name": PLATFORM,
        "version": version,
        "description": "The program of the package `haft` for Linux on x86-64.",
        "license": LICENCE,
        "files": ["bin"],
        "os": ["linux"],
        "cpu": ["x64"],
        "libc": ["glibc"],
        "preferUnplugged": true,
        "publishConfig": { "access": "public" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_takes_the_platform_package_of_its_own_version() {
        let (launcher, platform) = (launcher_manifest("1.2.3"), platform_manifest("1.2.3"));
        let name = platform["name"].as_str().unwrap();
        assert_eq!(launcher["optionalDependencies"][name], platform["version"]);
        assert!(launcher.get("scripts").is_none(), "nothing runs at installation");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let exported = launcher["exports"]["."]["default"].as_str().unwrap();
        let module = root.join(exported.replacen("./sdk", MODULES, 1));
        assert!(module.exists(), "{}", module.display());
        let script = include_str!("../../../dist/npm/haft.js");
        assert!(script.contains(&format!("\"{name}\"")), "the launcher looks for the package");
    }
}
