//! `haft trust`: which configuration files this user has read and lets Haft obey.
//!
//! A `haft.toml` that lies in the working directory may have come with a clone or from an agent, and
//! it names commands, listeners and places. So it counts only while its content is the one that the
//! user trusted. The pins are kept in the user's own configuration directory, which no tool reaches.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use haft_core::{Digest, legible};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::Verdict;
use crate::config::ConfigFile;
use crate::prompt::Lines;
use crate::terminal::say;
use crate::trouble::{Code, Trouble};

const NAME: &str = "trusted.json";

/// Shows what a configuration file would have Haft do, and trusts it as it is now.
///
/// The `haft.toml` of the working directory is obeyed only while its content is the one that was
/// trusted; every change asks again. A file that --config or HAFT_CONFIG names needs no trust when
/// a command starts. What a running server finds changed in its file it obeys only once that is
/// trusted. `haft mcp add` trusts what it writes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Shows what is in the file and whether it is trusted, and changes nothing.
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    show: bool,
    /// Trusts the file no longer.
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Trusts without asking, for scripts that wrote the file themselves.
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let path = args.config.path();
    if args.revoke {
        return revoke(path);
    }
    let text = args.config.untrusted_text()?;
    let digest = Digest::of_bytes(text.as_bytes());
    say(&described(path, &text)?);
    if is_pinned(path, &text) {
        eprintln!("It is trusted as it is ({digest}).");
        return Ok(Verdict::Holds);
    }
    if args.show {
        eprintln!("It is not trusted ({digest}).");
        return Ok(Verdict::Broken);
    }
    if !args.yes && !confirmed()? {
        eprintln!("It is not trusted; nothing has changed.");
        return Ok(Verdict::Broken);
    }
    pin(path, &text)?;
    eprintln!("`{}` is trusted as it is now ({digest}).", legible(&path.display().to_string()));
    Ok(Verdict::Holds)
}

fn revoke(path: &Path) -> anyhow::Result<Verdict> {
    let shown = path.display().to_string();
    let mut had = false;
    changed(path, |pins, place| had = pins.remove(place).is_some())?;
    match had {
        true => eprintln!("`{}` is trusted no longer.", legible(&shown)),
        false => eprintln!("`{}` was not trusted.", legible(&shown)),
    }
    Ok(Verdict::Holds)
}

fn confirmed() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let what = "nobody can be asked here whether to trust this file";
        let next = "look at it, and say `haft trust --yes`";
        return Err(Trouble::new(Code::NoTerminal, what).next(next).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    Ok(runtime.block_on(async {
        let mut lines = Lines::of_stdin();
        lines.discard_what_was_typed_before().await;
        let answer = lines.ask("Trust it as it is now? [y/N] ").await.unwrap_or_default();
        matches!(answer.trim(), "y" | "Y" | "yes")
    }))
}

/// Refuses a file that the user has not trusted as it is.
pub(crate) fn require(path: &Path, text: &str) -> Result<(), Trouble> {
    if says_nothing(text) || is_pinned(path, text) {
        return Ok(());
    }
    let shown = path.display().to_string();
    let shown = legible(&shown);
    let why = match pinned(path) {
        Some(_) => "it has changed since it was trusted",
        None => {
            "it lies where the command was started, and what it names would run with your rights"
        }
    };
    Err(Trouble::new(Code::UntrustedConfig, format!("`{shown}` is not trusted")).why(why).next(
        format!(
            "`haft trust` shows what it would do and trusts it; `--config {shown}` takes it this \
             once; `HAFT_CONFIG=/dev/null` goes without it"
        ),
    ))
}

/// Whether a file has nothing in it to obey. What is no TOML is refused by whoever reads it.
fn says_nothing(text: &str) -> bool {
    toml::from_str::<Table>(text).map_or(true, |table| table.is_empty())
}

/// Whether a running server may obey what its file has become: what its user trusted, what says
/// nothing, and what neither this process nor an agent that runs in it can write.
pub(crate) fn allows_change(path: &Path, text: &str) -> bool {
    says_nothing(text) || is_pinned(path, text) || is_out_of_reach(path)
}

fn is_out_of_reach(path: &Path) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let cannot_write = |path: &Path| {
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ACCESS)
    };
    let is_fixed = |path: &Path| cannot_write(path) && path.parent().is_some_and(cannot_write);
    // A link is as safe as what it leads to.
    is_fixed(&absolute) && absolute.canonicalize().is_ok_and(|path| is_fixed(&path))
}

/// Trusts a file with this content.
pub(crate) fn pin(path: &Path, text: &str) -> Result<(), Trouble> {
    let digest = Digest::of_bytes(text.as_bytes()).to_string();
    changed(path, |pins, place| drop(pins.insert(place.to_owned(), digest)))
}

/// Whether this very content of a file is trusted.
pub(crate) fn is_pinned(path: &Path, text: &str) -> bool {
    let digest = Digest::of_bytes(text.as_bytes()).to_string();
    pinned(path).is_some_and(|pinned| pinned == digest)
}

fn pinned(path: &Path) -> Option<String> {
    let place = place_of(path).ok()?;
    let file = directory()?.join(NAME);
    let mut pins = read(&file).ok()?;
    pins.files.remove(&place)
}

/// Where this user's own configuration is, whether or not it is there.
pub(crate) fn directory() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let usual = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let base = named.filter(|path| path.is_absolute()).or_else(usual)?;
    base.is_absolute().then(|| base.join("haft"))
}

/// What is trusted: the digest of each file by where it is.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pins {
    files: BTreeMap<String, String>,
}

/// Where a file is, whatever the link or the directory through which it is named.
fn place_of(path: &Path) -> io::Result<String> {
    let absolute = std::path::absolute(path)?;
    let named = absolute.parent().zip(absolute.file_name());
    let (parent, name) = named.ok_or(io::ErrorKind::InvalidFilename)?;
    let place = parent.canonicalize()?.join(name);
    place.into_os_string().into_string().map_err(|_| io::ErrorKind::InvalidFilename.into())
}

/// Reads the pins; those that another user could have written count for nothing.
fn read(path: &Path) -> io::Result<Pins> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pins::default()),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "other users may have written it",
        ));
    }
    serde_json::from_reader(io::BufReader::new(file)).map_err(Into::into)
}

/// Changes the pins, one process at a time, whole or not at all.
fn changed(
    path: &Path,
    change: impl FnOnce(&mut BTreeMap<String, String>, &str),
) -> Result<(), Trouble> {
    let bad = |why: String| {
        Trouble::new(Code::BadConfig, "what is trusted cannot be noted")
            .why(why)
            .next("set HOME or XDG_CONFIG_HOME to a directory of yours that can be written")
    };
    let directory =
        directory().ok_or_else(|| bad("neither HOME nor XDG_CONFIG_HOME is set".to_owned()))?;
    let write = || -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        let lock = options.open(directory.join("trusted.lock"))?;
        lock.lock()?;
        let (file, beside) = (directory.join(NAME), directory.join("trusted.json.new"));
        let mut pins = read(&file)?;
        change(&mut pins.files, &place_of(path)?);
        let mut new = options.truncate(true).open(&beside)?;
        new.write_all(&serde_json::to_vec_pretty(&pins)?)?;
        new.sync_all()?;
        fs::rename(&beside, &file)
    };
    write().map_err(|error| bad(format!("`{}`: {error}", directory.display())))
}

/// What a file would have Haft do, in words, with nothing hidden in it.
fn described(path: &Path, text: &str) -> anyhow::Result<String> {
    let settings: Table = toml::from_str(text).map_err(|error| {
        let what = format!("`{}` cannot be used", path.display());
        Trouble::new(Code::BadConfig, what).why(error).next("correct it first")
    })?;
    let path = std::path::absolute(path)?.display().to_string();
    let mut lines = vec![format!("{}", legible(&path))];
    tell(&mut lines, "", &Value::Table(settings));
    if lines.len() == 1 {
        lines.push("  says nothing".to_owned());
    }
    Ok(lines.join("\n"))
}

/// Tells every setting on a line of its own; what is run stands first in its words.
fn tell(lines: &mut Vec<String>, at: &str, value: &Value) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                tell(lines, &at, value);
            }
        }
        Value::Array(words) if at.ends_with(".command") || at == "command" => {
            let words: Vec<String> = words.iter().map(written).collect();
            lines.push(format!("  runs     {}  ({})", words.join(" "), legible(at)));
        }
        value => lines.push(format!("  sets     {} = {}", legible(at), written(value))),
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let quoted = serde_json::Value::from(text.as_str()).to_string();
            legible(&quoted).into_owned()
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(written).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Table(table) => {
            let members = table.iter();
            let members: Vec<String> = members
                .map(|(name, value)| format!("{} = {}", legible(name), written(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(moment) => moment.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_file_hides_nothing() {
        let text = "listen = \"0.0.0.0:1\"\n[mcp.servers.a]\ncommand = [\"sh\", \"-c\", \
                    \"x\\u202Ey\"]\nenv = { A = \"b\" }\n";
        let told = described(Path::new("/haft.toml"), text).unwrap();
        assert!(
            told.contains("runs     \"sh\" \"-c\" \"x‹U+202E›y\"  (mcp.servers.a.command)"),
            "{told}"
        );
        assert!(told.contains("sets     listen = \"0.0.0.0:1\""), "{told}");
        assert!(told.contains("sets     mcp.servers.a.env.A = \"b\""), "{told}");
    }

    #[test]
    fn a_file_without_settings_needs_no_trust() {
        assert!(says_nothing("# only this\n") && says_nothing(""));
        assert!(!says_nothing("data = \"x\"\n"));
    }
}
