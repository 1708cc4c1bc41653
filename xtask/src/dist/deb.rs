//! The Debian package: the binary, its pages, the service and the user that it runs as.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::commands::{self, Mode};
use super::release::{ExtraKind, Release, Source};
use super::{LICENCE_FILES, SUMMARY};

const MAINTAINER: &str = "The Haft authors <haft@invalid>";

/// Files that an upgrade must not overwrite where an admin has changed them.
const CONFFILES: &str = "/etc/haft/haft.toml\n";

const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];

pub(super) fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let tree = release.work.join("deb");
    commands::emptied(&tree)?;
    put_files(release, &tree)?;
    let depends = release.linkage.debian_packages()?;
    let control = control(&release.version, &depends, installed_kilobytes(&tree)?);
    let about = tree.join("DEBIAN");
    commands::put(&about.join("control"), control, Mode::Data)?;
    commands::put(&about.join("conffiles"), CONFFILES, Mode::Data)?;
    for name in SCRIPTS {
        let script = release.text(&format!("dist/deb/{name}"))?;
        commands::put(&about.join(name), script, Mode::Program)?;
    }
    let out = release.out.join(format!("haft_{}_amd64.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    // xz makes a release a fifth smaller than gzip, and takes six times as long.
    let compression = match release.source {
        Source::Built => ["-Zxz", "-z6"],
        Source::Given => ["-Zgzip", "-z6"],
    };
    build.arg("--root-owner-group").args(compression).arg("--build").arg(&tree).arg(&out);
    commands::run(build.env("SOURCE_DATE_EPOCH", release.epoch.to_string()))?;
    Ok(out)
}

fn put_files(release: &Release, tree: &Path) -> anyhow::Result<()> {
    let file = |path: &str, text: String| commands::put(&tree.join(path), text, Mode::Data);
    commands::copy(&release.binary, &tree.join("usr/bin/haft"), Mode::Program)?;
    file("usr/lib/systemd/system/haft.service", release.text("dist/haft.service")?)?;
    file("etc/haft/haft.toml", release.text("dist/haft.toml")?)?;
    file("usr/share/doc/haft/copyright", copyright(release)?)?;
    file("usr/share/doc/haft/README.md", release.text("README.md")?)?;
    file("usr/share/doc/haft/examples/compose.yaml", release.text("dist/compose.yaml")?)?;
    file("usr/share/doc/haft/examples/Caddyfile", release.text("dist/Caddyfile")?)?;
    for extra in release.extras()? {
        let place = tree.join("usr/share").join(extra.kind.below_share("zsh/vendor-completions"));
        let copy = place.join(extra.kind.name(&extra.file));
        commands::copy(&extra.file, &copy, Mode::Data)?;
        if extra.kind == ExtraKind::ManPage {
            commands::run(Command::new("gzip").args(["-n", "-9"]).arg(&copy))?;
        }
    }
    Ok(())
}

fn control(version: &str, depends: &[String], kilobytes: u64) -> String {
    let depends = depends.join(", ");
    format!(
        "Package: haft\nVersion: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kilobytes}\nDepends: {depends}, adduser\n\
         Recommends: ca-certificates, git\nSuggests: postgresql\nSection: net\n\
         Priority: optional\nDescription: {}\n \
         Haft validates the calls of agents, asks a person where a rule says so, runs\n \
         them in a sandbox, records them, and resumes after a crash without losing or\n \
         repeating any.\n",
        // A synopsis has no full stop.
        SUMMARY.trim_end_matches('.')
    )
}

fn copyright(release: &Release) -> anyhow::Result<String> {
    let mut text = "Haft is licensed under MIT or Apache-2.0, at your choice.\n".to_owned();
    for name in LICENCE_FILES {
        text.push_str(&format!("\n\n--- {name} ---\n\n{}", release.text(name)?));
    }
    Ok(text)
}

fn installed_kilobytes(directory: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory).context("listing the package's files")? {
        let entry = entry?;
        let found = entry.metadata()?;
        sum += match found.is_dir() {
            true => installed_kilobytes(&entry.path())?,
            false => found.len().div_ceil(1024),
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_its_fields_and_ends_with_a_line() {
        let control = control("1.2.3", &["libc6 (>= 2.17)".to_owned()], 7);
        for field in ["Version: 1.2.3", "Depends: libc6 (>= 2.17), adduser", "Installed-Size: 7"] {
            assert!(control.lines().any(|line| line == field), "{field}: {control}");
        }
        let (_, description) = control.split_once("\nDescription: ").unwrap();
        assert!(description.lines().skip(1).all(|line| line.starts_with(' ')), "{control}");
        assert!(!description.lines().next().unwrap().ends_with('.'), "{control}");
        assert!(control.ends_with('\n'));
    }
}
