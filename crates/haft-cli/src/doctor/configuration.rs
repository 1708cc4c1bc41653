//! The file `haft.toml`, and what `haft serve` would be started with.

use super::finding::Finding;
use crate::config::ConfigFile;
use crate::serve;
use crate::settings::{self, Reviewed};

/// Checks the file, and returns what `haft serve` would be given without flags, if that can be
/// told.
pub(super) fn examine() -> (Vec<Finding>, Option<Box<serve::Args>>) {
    let name = "configuration";
    let (path, mut problems, is_trusted) = match settings::reviewed() {
        Reviewed::Absent => (None, Vec::new(), true),
        Reviewed::Read { path, problems, is_trusted } => (Some(path), problems, is_trusted),
    };
    let mut served = None;
    if problems.is_empty() {
        match settings::of_serve() {
            Ok(args) => served = Some(args),
            Err(why) => problems.push(why),
        }
        let file = path.clone().map(ConfigFile::at);
        let read = file.map(|file| file.servers().and_then(|_| file.operator()));
        if let Some(Err(error)) = read {
            problems.push(format!("{error:#}"));
        }
    }
    let shown = path.as_ref().map_or_else(|| "haft.toml".to_owned(), |it| it.display().to_string());
    let finding = match (problems.is_empty(), path) {
        (true, None) => Finding::ok(name, "there is no `haft.toml` here: the defaults hold"),
        (true, Some(_)) => {
            Finding::ok(name, format!("`{shown}` is read, and every setting is known"))
        }
        (false, _) => Finding::problem(
            name,
            format!("`{shown}`: {}", problems.join("; ")),
            "correct it; `haft help COMMAND` lists the flags that a setting can stand for",
        ),
    };
    let mut findings = vec![finding];
    if !is_trusted {
        let message = format!("`{shown}` is not trusted as it is, so no command here takes it");
        let fix = "`haft trust` shows what it would do, and trusts it";
        findings.push(Finding::warning("configuration.trust", message, fix));
    }
    (findings, served)
}
