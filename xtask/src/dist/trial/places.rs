//! Where artifacts are installed: environments that have nothing of Haft.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::dist::image::Buildah;
use crate::dist::release::Release;
use crate::dist::{Artifact, Kind, commands, root};

/// Runs a command in another root, in a mount namespace of its own.
const UNSHARE: &str = "unshare";
const ENTER: &str = include_str!("enter.sh");

/// The path that a shell of Debian has.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs that a user has before the installation begins, such as an empty environment.
pub(super) struct Prepared<'a> {
    release: &'a Release,
    artifact: &'a Artifact,
    place: PathBuf,
}

/// An artifact that is installed, and how to run it.
pub(super) struct Installed {
    /// Where everything is that the trial has made.
    place: PathBuf,
    program: OsString,
    /// What stands before the arguments of `haft`, where it is started by another program.
    before: Vec<OsString>,
    /// The arguments of the server, with `PORT` for the port.
    serve: Vec<String>,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    /// The data directory, seen from outside.
    pub(super) data: PathBuf,
    /// The storage to clear, for an image.
    storage: Option<Buildah>,
}

pub(super) fn prepare<'a>(
    release: &'a Release,
    artifact: &'a Artifact,
) -> anyhow::Result<Prepared<'a>> {
    let name = artifact.kind.name().replace(' ', "-");
    let place = release.work.join("trial").join(name);
    commands::emptied(&place)?;
    match artifact.kind {
        Kind::Wheel => {
            commands::run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
        }
        Kind::Deb => {
            fs::create_dir(place.join("root")).context("making a directory for Debian")?;
            let mut unpack = Command::new("tar");
            unpack.arg("-xf").arg(root::archive(release)?).arg("-C").arg(place.join("root"));
            commands::run(&mut unpack)?;
        }
        Kind::Npm | Kind::Tarball | Kind::Image | Kind::Sbom => {}
    }
    Ok(Prepared { release, artifact, place })
}

impl Prepared<'_> {
    pub(super) fn install(self) -> anyhow::Result<Installed> {
        match self.artifact.kind {
            Kind::Wheel => self.wheel(),
            Kind::Npm => self.npm(),
            Kind::Deb => self.deb(),
            Kind::Tarball => self.tarball(),
            Kind::Image => self.image(),
            Kind::Sbom => bail!("a bill of materials is not installed"),
        }
    }

    fn wheel(self) -> anyhow::Result<Installed> {
        let mut pip = Command::new(self.place.join("venv/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]);
        // The program needs nothing of what the package beside it imports.
        pip.arg("--no-deps");
        commands::run(pip.args(&self.artifact.files))?;
        let program = self.place.join("venv/bin/haft");
        self.on_this_system(program)
    }

    fn npm(self) -> anyhow::Result<Installed> {
        let mut npm = Command::new("npm");
        npm.args(["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]);
        npm.arg("--prefix").arg(self.place.join("prefix")).args(&self.artifact.files);
        fs::create_dir(self.place.join("prefix")).context("making a prefix for npm")?;
        commands::run(npm.current_dir(&self.place))?;
        let program = self.place.join("prefix/node_modules/.bin/haft");
        self.on_this_system(program)
    }

    fn tarball(self) -> anyhow::Result<Installed> {
        let prefix = self.place.join("prefix");
        fs::create_dir(&prefix).context("making a prefix")?;
        let mut tar = Command::new("tar");
        tar.args(["--strip-components=1", "-C"]).arg(&prefix).arg("-xf");
        commands::run(tar.args(&self.artifact.files))?;
        require_files(&prefix, &["share/man/man1/haft.1", "lib/systemd/system/haft.service"])?;
        self.on_this_system(prefix.join("bin/haft"))
    }

    /// A program that is run as it is, in an empty directory.
    fn on_this_system(self, program: PathBuf) -> anyhow::Result<Installed> {
        let directory = self.place.join("directory");
        fs::create_dir(&directory).context("making an empty directory")?;
        let path = std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned());
        let home = directory.display().to_string();
        Ok(Installed {
            data: directory.join("haft-data"),
            program: program.into(),
            before: Vec::new(),
            serve: words("serve --listen 127.0.0.1:PORT"),
            directory,
            environment: vec![("PATH".to_owned(), path), ("HOME".to_owned(), home)],
            place: self.place,
            storage: None,
        })
    }

    /// Runs what the unit says, as systemd would.
    fn deb(self) -> anyhow::Result<Installed> {
        let root = self.place.join("root");
        let package = self.artifact.files.first().context("no package")?;
        commands::copy(package, &root.join("tmp/haft.deb"), commands::Mode::Data)?;
        let mut apt = Command::new(UNSHARE);
        apt.args(entering(&root, "root", "root", "/"));
        apt.args(["apt-get", "install", "--yes", "--no-install-recommends", "/tmp/haft.deb"]);
        apt.env("DEBIAN_FRONTEND", "noninteractive").env("PATH", PATH).env("LC_ALL", "C.UTF-8");
        commands::run(&mut apt)?;
        require_files(
            &root,
            &[
                "usr/share/man/man1/haft.1.gz",
                "usr/share/bash-completion/completions/haft",
                "usr/share/zsh/vendor-completions/_haft",
                "usr/share/fish/vendor_completions.d/haft.fish",
                "etc/haft/haft.toml",
            ],
        )?;
        let unit = root.join("usr/lib/systemd/system/haft.service");
        let unit = Unit::parse(&fs::read_to_string(&unit).context("reading the unit")?)?;
        unit.verify(self.release, &self.place)?;
        let mut environment = unit.environment;
        environment.push(("PATH".to_owned(), PATH.to_owned()));
        let (program, arguments) = unit.start.split_first().context("a unit without a program")?;
        let serve = [arguments, &words("--listen 127.0.0.1:PORT")].concat();
        let mut before = entering(&root, &unit.user, &unit.user, &unit.directory);
        before.push(program.into());
        Ok(Installed {
            data: root.join("var/lib/haft"),
            program: UNSHARE.into(),
            before,
            serve,
            directory: self.place.clone(),
            environment,
            place: self.place,
            storage: None,
        })
    }

    /// Runs what the image says, as a container runtime would that lets the sandbox work.
    fn image(self) -> anyhow::Result<Installed> {
        let file = self.artifact.files.first().context("no image")?;
        let buildah = Buildah::new(self.place.join("storage"))?;
        let container = buildah.start(&format!("oci-archive:{}", file.display()))?;
        let config = buildah.config(&container)?;
        let text =
            |key: &str| config[key].as_str().with_context(|| format!("the image has no `{key}`"));
        let (uid, gid) = text("User")?.split_once(':').context("expected a user and a group")?;
        let mut before = entering(&container.root, uid, gid, text("WorkingDir")?);
        before.extend(strings(&config["Entrypoint"]).map(OsString::from));
        let variable = |text: &str| {
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Ok(Installed {
            data: container.root.join("var/lib/haft"),
            program: UNSHARE.into(),
            before,
            // The image's own port may be taken on this machine.
            serve: strings(&config["Cmd"]).map(|word| word.replace(":7800", ":PORT")).collect(),
            directory: self.place.clone(),
            environment: strings(&config["Env"]).filter_map(variable).collect(),
            place: self.place,
            storage: Some(buildah),
        })
    }
}

impl Installed {
    pub(super) fn haft(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.before).args(arguments);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.directory);
        command
    }

    pub(super) fn serve(&self, port: u16) -> Command {
        let filled = |word: &String| word.replace("PORT", &port.to_string());
        let arguments: Vec<String> = self.serve.iter().map(filled).collect();
        self.haft(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(super) fn log(&self) -> PathBuf {
        self.place.join("log")
    }

    pub(super) fn remove(self) -> anyhow::Result<()> {
        if let Some(storage) = &self.storage {
            storage.clear()?;
        }
        fs::remove_dir_all(&self.place).context("deleting what was installed")
    }
}

/// The arguments of `unshare` before a command that runs in another root.
fn entering(root: &Path, uid: &str, gid: &str, directory: &str) -> Vec<OsString> {
    let before = ["--mount", "sh", "-c", ENTER, "enter"].map(OsString::from);
    let after = [root.as_os_str(), uid.as_ref(), gid.as_ref(), directory.as_ref()];
    before.into_iter().chain(after.map(OsString::from)).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn require_files(below: &Path, paths: &[&str]) -> anyhow::Result<()> {
    match paths.iter().find(|path| !below.join(path).exists()) {
        Some(path) => bail!("`{path}` was not installed"),
        None => Ok(()),
    }
}

/// The parts of a systemd unit that say how to run its program.
#[derive(Debug, PartialEq)]
struct Unit {
    text: String,
    start: Vec<String>,
    user: String,
    directory: String,
    environment: Vec<(String, String)>,
}

impl Unit {
    fn parse(text: &str) -> anyhow::Result<Unit> {
        let value = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            found.with_context(|| format!("the unit has no `{key}`"))
        };
        let variables = value("Environment")?.split(' ').filter_map(|pair| pair.split_once('='));
        Ok(Unit {
            text: text.to_owned(),
            start: words(value("ExecStart")?),
            user: value("User")?.to_owned(),
            directory: value("WorkingDirectory")?.to_owned(),
            environment: variables.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
        })
    }

    /// Has systemd read the unit, where there is a systemd; its program is where ours is.
    fn verify(&self, release: &Release, place: &Path) -> anyhow::Result<()> {
        let file = place.join("haft.service");
        let program = self.start.first().context("a unit without a program")?;
        let text = self.text.replace(program, &release.binary.display().to_string());
        let text = text.replace("Documentation=man:haft(1)\n", "");
        commands::put(&file, text, commands::Mode::Data)?;
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(&file);
        let done = match verify.output() {
            Ok(done) => done,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                println!("dist: the unit was not verified: there is no systemd-analyze");
                return Ok(());
            }
            Err(error) => return Err(error).context("starting `systemd-analyze verify`"),
        };
        // It complains about units of the system, too, and succeeds nevertheless.
        let said = String::from_utf8_lossy(&done.stderr);
        match said.lines().find(|line| line.contains("haft.service")) {
            Some(line) => bail!("systemd does not accept the unit: {line}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_run_as_it_says() {
        let unit = Unit::parse(include_str!("../../../../dist/haft.service")).unwrap();
        assert_eq!(unit.start, ["/usr/bin/haft", "serve"]);
        assert_eq!((unit.user.as_str(), unit.directory.as_str()), ("haft", "/var/lib/haft"));
        let data = ("HAFT_DATA".to_owned(), "/var/lib/haft".to_owned());
        assert!(unit.environment.contains(&data), "{unit:?}");
        assert!(Unit::parse("[Service]\n").is_err());
    }
}
