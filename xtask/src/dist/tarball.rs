//! The tarball: a tree to unpack below `/usr/local` or `~/.local`.

use std::path::PathBuf;

use super::LICENCE_FILES;
use super::commands::{self, Mode};
use super::release::Release;

pub(super) fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let name = format!("haft-{}-x86_64-linux", release.version);
    let (above, out) = (release.work.join("tarball"), release.out.join(format!("{name}.tar.gz")));
    commands::emptied(&above)?;
    let tree = above.join(&name);
    commands::copy(&release.binary, &tree.join("bin/haft"), Mode::Program)?;
    for extra in release.extras()? {
        let place = tree.join("share").join(extra.kind.below_share("zsh/site-functions"));
        commands::copy(&extra.file, &place.join(extra.kind.name(&extra.file)), Mode::Data)?;
    }
    let documents = tree.join("share/doc/haft");
    for name in LICENCE_FILES.iter().chain(&["README.md", "CHANGELOG.md"]) {
        commands::put(&documents.join(name), release.text(name)?, Mode::Data)?;
    }
    for name in ["haft.toml", "compose.yaml", "Caddyfile"] {
        let text = release.text(&format!("dist/{name}"))?;
        commands::put(&documents.join("examples").join(name), text, Mode::Data)?;
    }
    let unit = release.text("dist/haft.service")?.replace("/usr/bin/haft", "/usr/local/bin/haft");
    commands::put(&tree.join("lib/systemd/system/haft.service"), unit, Mode::Data)?;
    let compressed = "--use-compress-program=gzip -n";
    commands::run(commands::tar(release.epoch, &above, &out).arg(compressed).arg(&name))?;
    Ok(out)
}
