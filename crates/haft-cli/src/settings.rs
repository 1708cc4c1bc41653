//! `haft.toml`: what stands behind flags and the environment.
//!
//! A setting has the name of its flag, with `_` for `-`. At the top it is for every command that
//! has such a flag; in a table, for the command of that name. Tables within that are the command's
//! own business. Keys and other secrets are not taken from a file that is likely to be committed.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _};
use toml::{Table, Value};

use crate::config::USUAL;
use crate::trouble::{Code, Trouble};
use crate::trust;

/// Returns the file that the command line or the environment names: the user's own word, which
/// needs no trust.
pub(crate) fn named() -> Option<PathBuf> {
    let mut args = std::env::args_os().skip(1).take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        if arg == "--config" {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    std::env::var_os("HAFT_CONFIG").map(PathBuf::from)
}

/// Puts the settings of the file, if there is one, behind the flags as their defaults.
pub(crate) fn configured(command: Command) -> Result<Command, Trouble> {
    configured_as(command, trust::require)
}

/// The same, where `check` says whether a file that merely lies there may be obeyed.
fn configured_as(
    command: Command,
    check: fn(&Path, &str) -> Result<(), Trouble>,
) -> Result<Command, Trouble> {
    let named = named();
    let path = named.clone().unwrap_or_else(|| PathBuf::from(USUAL));
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let found = if named.is_some() { Found::Named } else { Found::Here };
            if found == Found::Here {
                check(&path, &text)?;
            }
            with_settings(command, &text, found).map_err(|why| bad(&path, why))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            Ok(command)
        }
        Err(error) => Err(bad(&path, error.to_string())),
    }
}

/// What is to be said of the file.
pub(crate) enum Reviewed {
    /// There is none, and none was named.
    Absent,
    /// Everything in it that cannot be used, and whether it would be obeyed if it could.
    Read { path: PathBuf, problems: Vec<String>, is_trusted: bool },
}

/// Looks at every setting of the file, past those that cannot be used.
pub(crate) fn reviewed() -> Reviewed {
    let named = named();
    let found = if named.is_some() { Found::Named } else { Found::Here };
    let path = named.unwrap_or_else(|| PathBuf::from(USUAL));
    let mut is_trusted = true;
    let problems = match std::fs::read_to_string(&path) {
        Ok(text) => {
            is_trusted = found == Found::Named || trust::require(&path, &text).is_ok();
            problems(&crate::Args::command(), &text, found)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && found == Found::Here => {
            return Reviewed::Absent;
        }
        Err(error) => vec![error.to_string()],
    };
    Reviewed::Read { path, problems, is_trusted }
}

fn problems(command: &Command, text: &str, found: Found) -> Vec<String> {
    let settings: Table = match toml::from_str(text) {
        Ok(settings) => settings,
        Err(error) => return vec![error.to_string()],
    };
    let each = settings.into_iter().flat_map(|(name, value)| match value {
        Value::Table(table) if command.find_subcommand(&name).is_some() => {
            let alone =
                |(setting, value)| (name.clone(), Table::from_iter([(setting, value)]).into());
            table.into_iter().map(alone).collect()
        }
        value => vec![(name, value)],
    });
    each.filter_map(|(name, value): (String, Value)| {
        let alone = Table::from_iter([(name, value)]);
        with_table(command.clone(), alone, found).err()
    })
    .collect()
}

/// What `haft serve` would be given by the environment and the file, without flags, once the file
/// is trusted.
pub(crate) fn of_serve() -> Result<Box<crate::serve::Args>, String> {
    let command = configured_as(crate::Args::command(), |_, _| Ok(()));
    let command = command.map_err(|trouble| trouble.to_string())?;
    let args = command
        .try_get_matches_from(["haft", "serve"])
        .and_then(|matches| crate::Args::from_arg_matches(&matches));
    match args.map(|args| args.command) {
        Ok(crate::Command::Serve(args)) => Ok(args),
        Ok(_) => Err("`haft serve` is no command".to_owned()),
        Err(error) => {
            let said = error.to_string();
            let first = said.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
    }
}

fn bad(path: &Path, why: String) -> Trouble {
    Trouble::new(Code::BadConfig, format!("`{}` cannot be used", path.display()))
        .why(why)
        .next("correct it; `haft help COMMAND` lists the flags that a setting can stand for")
}

/// Why a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It lies where the command was started, whoever put it there.
    Here,
    /// Someone named it.
    Named,
}

/// Where keys and passwords are sent, and what is run: not for a file to say that merely lies
/// there.
const LEADS_AWAY: &[&str] = &["ca_file", "config", "database_url", "server"];

/// Tables that are for no command, but for whoever runs Haft.
const OF_THE_OPERATOR: &[&str] = &["egress"];

fn with_settings(command: Command, text: &str, found: Found) -> Result<Command, String> {
    let settings: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    with_table(command, settings, found)
}

fn with_table(mut command: Command, settings: Table, found: Found) -> Result<Command, String> {
    for (name, value) in settings {
        command = match value {
            // Whether it makes sense `config` says.
            Value::Table(_) if OF_THE_OPERATOR.contains(&name.as_str()) => command,
            Value::Table(table) => of_command(command, &name, table, found)?,
            value => {
                require_named(&name, found)?;
                everywhere(command, &name, &value)?
            }
        };
    }
    Ok(command)
}

fn require_named(setting: &str, found: Found) -> Result<(), String> {
    match found == Found::Here && LEADS_AWAY.contains(&setting) {
        true => {
            Err(format!("`{setting}` is taken only from a file that --config or HAFT_CONFIG names"))
        }
        false => Ok(()),
    }
}

fn of_command(
    command: Command,
    name: &str,
    settings: Table,
    found: Found,
) -> Result<Command, String> {
    let Some(sub) = command.find_subcommand(name) else {
        return Err(format!("there is no command `{name}`"));
    };
    let mut sub = sub.clone();
    for (setting, value) in settings.into_iter().filter(|(_, value)| !value.is_table()) {
        require_named(&setting, found)?;
        if !takes(&sub, &setting) {
            return Err(format!("`haft {name}` has no setting `{setting}`"));
        }
        sub = with_default(sub, &setting, &value)?;
    }
    Ok(command.mut_subcommand(name, |_| sub))
}

/// For whatever command has such a flag.
fn everywhere(command: Command, setting: &str, value: &Value) -> Result<Command, String> {
    let (command, n_found) = below(command, setting, value)?;
    match n_found {
        0 => Err(format!("no command has a setting `{setting}`")),
        _ => Ok(command),
    }
}

fn below(mut command: Command, setting: &str, value: &Value) -> Result<(Command, usize), String> {
    let mut n_found = 0;
    if takes(&command, setting) {
        command = with_default(command, setting, value)?;
        n_found += 1;
    }
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let Some(sub) = command.find_subcommand(&name).cloned() else { continue };
        let (sub, n_below) = below(sub, setting, value)?;
        n_found += n_below;
        command = command.mut_subcommand(&name, |_| sub);
    }
    Ok((command, n_found))
}

/// A flag that takes a value and is shown: secrets are hidden.
fn takes(command: &Command, setting: &str) -> bool {
    command.get_arguments().any(|arg| {
        stands_for(arg, setting)
            && !arg.is_hide_set()
            && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
    })
}

fn stands_for(arg: &Arg, setting: &str) -> bool {
    arg.get_long().is_some_and(|long| long.replace('-', "_") == setting)
}

fn with_default(command: Command, setting: &str, value: &Value) -> Result<Command, String> {
    let values = match value {
        Value::Array(values) => values.iter().map(text).collect::<Result<Vec<_>, _>>()?,
        value => vec![text(value)?],
    };
    let id = command
        .get_arguments()
        .find(|arg| stands_for(arg, setting))
        .map(|arg| arg.get_id().clone());
    let Some(id) = id else { return Ok(command) };
    Ok(command.mut_arg(id, |arg| arg.default_values(values)))
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(truth) => Ok(truth.to_string()),
        found => {
            let found = found.type_str();
            Err(format!("expected a text, a number or a list of them, found a {found}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(toml: &str, argv: &[&str]) -> Result<String, String> {
        let command = with_settings(crate::Args::command(), toml, Found::Here)?;
        let matches = command.try_get_matches_from(argv).map_err(|error| error.to_string())?;
        let serve = matches.subcommand_matches("serve").unwrap();
        Ok(serve.get_raw("listen").unwrap().next().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = "data = \"there\"\n[serve]\nlisten = \"127.0.0.1:1\"\n";
        assert_eq!(listen(file, &["haft", "serve"]).unwrap(), "127.0.0.1:1");
        let flag = ["haft", "serve", "--listen", "127.0.0.1:2"];
        assert_eq!(listen(file, &flag).unwrap(), "127.0.0.1:2");
        assert_eq!(listen("", &["haft", "serve"]).unwrap(), "127.0.0.1:7800");
    }

    #[test]
    fn what_nothing_takes_is_refused() {
        let refused = |file: &str| listen(file, &["haft", "serve"]).unwrap_err();
        assert_eq!(refused("lisen = \"x\""), "no command has a setting `lisen`");
        assert_eq!(refused("[serve]\nlimit = 3"), "`haft serve` has no setting `limit`");
        assert_eq!(refused("[srve]\nlisten = \"x\""), "there is no command `srve`");
        let away = "`server` is taken only from a file that --config or HAFT_CONFIG names";
        assert_eq!(refused("server = \"http://there\""), away);
        assert_eq!(refused("[pending]\nserver = \"http://there\""), away);
        let run = "`config` is taken only from a file that --config or HAFT_CONFIG names";
        assert_eq!(refused("[mcp]\nconfig = \"there.toml\""), run);
        assert_eq!(refused("api_key = \"haft_1\""), "no command has a setting `api_key`");
    }

    #[test]
    fn a_review_names_every_setting_that_nothing_takes() {
        let file = "lisen = \"x\"\ndata = \"here\"\n[serve]\nlimit = 3\nlisten = \"127.0.0.1:1\"\n\
                    [srve]\na = 1\n[mcp.servers.x]\nurl = \"http://y/\"\n";
        let expected = [
            "no command has a setting `lisen`",
            "`haft serve` has no setting `limit`",
            "there is no command `srve`",
        ];
        let mut found = problems(&crate::Args::command(), file, Found::Here);
        found.sort_by_key(|problem| expected.iter().position(|it| it == problem));
        assert_eq!(found, expected);
    }
}
