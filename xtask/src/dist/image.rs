//! The container image: a minimal Debian with the binary, for a user without privileges.
//!
//! Agents run commands in it, so it has bash, coreutils and git. Extending it with a Dockerfile
//! works as with any Debian image, for it has apt.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::commands::{self, Mode};
use super::release::Release;
use super::{LICENCE, LICENCE_FILES, SUMMARY, root};

/// The user and group that the server runs as. Kubernetes wants a number.
const USER: u32 = 10001;
const HOME: &str = "/var/lib/haft";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What nobody reads in a container, and is a fifth of its size.
const PAGES: [&str; 3] = ["usr/share/info", "usr/share/locale", "usr/share/man"];

/// An empty container, on a machine that can make one.
pub(super) struct Workshop {
    buildah: Buildah,
    container: Container,
}

/// Returns nothing, and prints why, where buildah cannot run, such as for want of privileges.
pub(super) fn start(release: &Release) -> anyhow::Result<Option<Workshop>> {
    let buildah = Buildah::new(release.work.join("image"))?;
    match buildah.start("scratch") {
        Ok(container) => Ok(Some(Workshop { buildah, container })),
        Err(error) => {
            println!("dist: buildah cannot run here: {error:#}");
            Ok(None)
        }
    }
}

impl Workshop {
    pub(super) fn make(self, release: &Release) -> anyhow::Result<PathBuf> {
        let Workshop { buildah, container } = self;
        let name = &container.name;
        commands::run(buildah.command("add").arg(name).arg(root::archive(release)?).arg("/"))?;
        fill(release, &container.root)?;
        commands::run(&mut configure(release, &buildah, name))?;
        let file = release.out.join(format!("haft-{}-x86_64-image.tar", release.version));
        let mut commit = buildah.command("commit");
        commit.args(["--quiet", "--format=oci", "--disable-compression=false"]);
        commit.arg(format!("--timestamp={}", release.epoch)).arg(name);
        let layout = buildah.storage.join("layout");
        commit.arg(format!("oci:{}:haft:{}", layout.display(), release.version));
        commands::run(&mut commit)?;
        let members = ["blobs", "index.json", "oci-layout"];
        commands::run(commands::tar(release.epoch, &layout, &file).args(members))?;
        buildah.clear()?;
        Ok(file)
    }
}

fn fill(release: &Release, root: &Path) -> anyhow::Result<()> {
    for pages in PAGES {
        fs::remove_dir_all(root.join(pages)).with_context(|| format!("removing {pages}"))?;
    }
    commands::copy(&release.binary, &root.join("usr/bin/haft"), Mode::Program)?;
    for name in LICENCE_FILES {
        let place = root.join("usr/share/doc/haft").join(name);
        commands::put(&place, release.text(name)?, Mode::Data)?;
    }
    append(&root.join("etc/passwd"), &format!("haft:x:{USER}:{USER}:Haft:{HOME}:/bin/bash\n"))?;
    append(&root.join("etc/group"), &format!("haft:x:{USER}:\n"))?;
    let home = root.join(HOME.trim_start_matches('/'));
    fs::create_dir_all(&home).context("making the data directory")?;
    // A new volume takes over who owns the directory that it covers.
    chown(&home, Some(USER), Some(USER)).context("giving the data directory to its user")
}

fn append(file: &Path, line: &str) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(file)
        .with_context(|| format!("opening `{}`", file.display()))?;
    file.write_all(line.as_bytes()).context("adding the user")
}

fn configure(release: &Release, buildah: &Buildah, container: &str) -> Command {
    let mut config = buildah.command("config");
    config.args(["--os=linux", "--arch=amd64", "--port=7800/tcp", "--stop-signal=SIGTERM"]);
    config.arg(format!("--user={USER}:{USER}")).arg(format!("--workingdir={HOME}"));
    config.arg(format!("--volume={HOME}")).arg(format!("--env=HAFT_DATA={HOME}"));
    config.arg(format!("--env={PATH}"));
    config.args(["--entrypoint", "[\"haft\"]", "--cmd", "serve --listen 0.0.0.0:7800"]);
    for (name, value) in [
        ("title", "haft"),
        ("description", SUMMARY),
        ("licenses", LICENCE),
        ("version", &release.version),
    ] {
        config.arg(format!("--label=org.opencontainers.image.{name}={value}"));
    }
    config.arg(container);
    config
}

/// buildah with a storage of its own, so that nobody's images are touched.
pub(super) struct Buildah {
    storage: PathBuf,
}

/// A container that is not running, and where its files are.
pub(super) struct Container {
    pub(super) name: String,
    pub(super) root: PathBuf,
}

impl Buildah {
    pub(super) fn new(storage: PathBuf) -> anyhow::Result<Self> {
        commands::emptied(&storage)?;
        Ok(Self { storage })
    }

    fn command(&self, verb: &str) -> Command {
        let mut buildah = Command::new("buildah");
        // The only driver that works on every file system.
        buildah.args(["--storage-driver=vfs", "--root"]).arg(self.storage.join("root"));
        buildah.arg("--runroot").arg(self.storage.join("run")).arg(verb);
        buildah
    }

    /// Makes a container from an image and mounts it.
    pub(super) fn start(&self, image: &str) -> anyhow::Result<Container> {
        let name = commands::output(self.command("from").args(["--quiet", image]))?;
        let name = name.trim().to_owned();
        let root = commands::output(self.command("mount").arg(&name))?;
        Ok(Container { name, root: PathBuf::from(root.trim()) })
    }

    /// What the image says about how to run it: `User`, `Env`, `Entrypoint`, `Cmd`.
    pub(super) fn config(&self, container: &Container) -> anyhow::Result<Value> {
        let about = commands::output(self.command("inspect").arg(&container.name))?;
        let about: Value = serde_json::from_str(&about).context("reading `buildah inspect`")?;
        Ok(about["OCIv1"]["config"].clone())
    }

    /// Deletes the containers and the storage.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        commands::run(self.command("rm").args(["--all"]))?;
        fs::remove_dir_all(&self.storage).context("deleting the storage of buildah")
    }
}
