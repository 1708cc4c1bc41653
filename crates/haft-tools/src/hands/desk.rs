//! What a session's commands leave behind for the next, and how that outlives the process.

use haft_sandbox::environment::{VariableError, Variables, check_name};
use haft_sandbox::virtual_path::VirtualPath;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::vault::Reference;

/// How many commands are remembered.
const COMMANDS_MAX: usize = 50;

/// Where a session's commands run, with which variables, and which they were.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) cwd: VirtualPath,
    pub(crate) variables: Variables,
    /// Variables whose values are in vaults.
    pub(crate) references: BTreeMap<String, Reference>,
    commands: VecDeque<CommandRecord>,
    /// The shell that was open when the desk was last kept.
    pub(crate) shell: Option<ShellNote>,
    unheard: Unheard,
}

/// What was set while a shell was open, which that has not heard of yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unheard {
    pub(crate) cwd: Option<VirtualPath>,
    /// Variables, by name.
    pub(crate) names: BTreeSet<String>,
}

/// One command, as it is remembered. Nothing secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandRecord {
    pub(crate) command_id: String,
    pub(crate) tool: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) cwd: String,
    pub(crate) exit_code: Option<u8>,
    pub(crate) signal: Option<u32>,
    pub(crate) ending: String,
    pub(crate) timed_out: bool,
    pub(crate) duration_ms: u64,
    pub(crate) updated_at: i64,
    pub(crate) stdout_preview: String,
    pub(crate) stderr_preview: String,
    pub(crate) output_artifacts: Vec<String>,
}

/// A persistent shell, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShellNote {
    pub(crate) shell_id: String,
    pub(crate) started_at: i64,
    pub(crate) command_count: u64,
    pub(crate) status: ShellStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShellStatus {
    Active,
    Closed,
    /// It was open when its process ended; its directory and variables are still known.
    Lost,
}

/// A desk as it is stored; the values of variables are apart, sealed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    version: u32,
    cwd: String,
    variables: Vec<String>,
    #[serde(default)]
    sealed_values: Option<Vec<u8>>,
    #[serde(default)]
    references: BTreeMap<String, String>,
    shell: Option<ShellNote>,
    commands: VecDeque<CommandRecord>,
}

impl Desk {
    pub(crate) fn new(home: VirtualPath) -> Self {
        Self {
            cwd: home,
            variables: Variables::new(),
            references: BTreeMap::new(),
            commands: VecDeque::new(),
            shell: None,
            unheard: Unheard::default(),
        }
    }

    /// Reads a stored desk. Variables whose values do not open are returned by name.
    pub(crate) fn read(
        body: &[u8],
        home: &VirtualPath,
        open: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> (Self, Vec<String>) {
        let Ok(stored) = serde_json::from_slice::<Stored>(body) else {
            return (Self::new(home.clone()), Vec::new());
        };
        let values = stored.sealed_values.and_then(|sealed| open(&sealed)).unwrap_or_default();
        let values: BTreeMap<String, String> = serde_json::from_slice(&values).unwrap_or_default();
        let mut variables = Variables::new();
        let mut lost = stored.variables;
        lost.retain(|name| match values.get(name) {
            Some(value) => variables.set(name, value).is_err(),
            None => true,
        });
        let shell = stored.shell.map(|shell| match shell.status {
            ShellStatus::Active => ShellNote { status: ShellStatus::Lost, ..shell },
            ShellStatus::Closed | ShellStatus::Lost => shell,
        });
        let cwd = VirtualPath::parse(&stored.cwd, home).unwrap_or_else(|_| home.clone());
        let references = stored.references.into_iter();
        let references =
            references.filter_map(|(name, text)| Some((name, Reference::parse(&text)?))).collect();
        let (commands, unheard) = (stored.commands, Unheard::default());
        (Self { cwd, variables, references, commands, shell, unheard }, lost)
    }

    /// Writes the desk; `seal` takes the variables' values.
    pub(crate) fn stored(&self, seal: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
        let values: BTreeMap<&str, &str> = self.variables.iter().collect();
        let sealed_values = match values.is_empty() {
            true => None,
            false => seal(&serde_json::to_vec(&values).unwrap_or_default()),
        };
        let stored = Stored {
            version: 1,
            cwd: self.cwd.to_string(),
            variables: self.variables.iter().map(|(name, _)| name.to_owned()).collect(),
            sealed_values,
            references: self.references.iter().map(|(n, r)| (n.clone(), r.to_string())).collect(),
            shell: self.shell.clone(),
            commands: self.commands.clone(),
        };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Forgets what earlier commands left behind for the next: their directory and variables.
    pub(crate) fn reset(&mut self, home: VirtualPath) {
        let commands = std::mem::take(&mut self.commands);
        *self = Self { commands, ..Self::new(home) };
    }

    /// Sets the directory of the next commands, of every kind.
    pub(crate) fn go_to(&mut self, cwd: VirtualPath) {
        self.unheard.cwd = Some(cwd.clone());
        self.cwd = cwd;
    }

    /// Sets a variable for the next commands, of every kind.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), VariableError> {
        self.variables.set(name, value)?;
        self.references.remove(name);
        self.unheard.names.insert(name.to_owned());
        Ok(())
    }

    /// Lets a variable stand for an entry of a vault.
    pub(crate) fn refer(&mut self, name: &str, to: Reference) -> Result<(), VariableError> {
        check_name(name)?;
        self.variables.unset(name);
        self.references.insert(name.to_owned(), to);
        self.unheard.names.insert(name.to_owned());
        Ok(())
    }

    /// Takes a variable away from the next commands, of every kind.
    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.unset(name);
        self.references.remove(name);
        self.unheard.names.insert(name.to_owned());
    }

    /// What an open shell must be told before its next command.
    pub(crate) fn take_unheard(&mut self) -> Unheard {
        std::mem::take(&mut self.unheard)
    }

    /// The shell's directory becomes the session's, unless it has not heard of another.
    pub(crate) fn take_over_cwd(&mut self, cwd: &VirtualPath) {
        if self.unheard.cwd.is_none() {
            self.cwd = cwd.clone();
        }
    }

    /// The shell's exports become the session's, but for what it has not heard of. `secret` are
    /// the values of references: a variable that still has its own goes on to refer to it.
    pub(crate) fn take_over(&mut self, exports: &Variables, secret: &Variables) {
        let unheard = &self.unheard.names;
        self.references.retain(|name, _| {
            unheard.contains(name) || exports.get(name).is_some_and(|v| secret.get(name) == Some(v))
        });
        let ours = self.variables.iter().filter(|(name, _)| unheard.contains(*name));
        let theirs = exports
            .iter()
            .filter(|(name, _)| !unheard.contains(*name) && !self.references.contains_key(*name));
        let mut taken = Variables::new();
        for (name, value) in ours.chain(theirs) {
            // Each was taken before, and all fit unless the shell exports too much.
            drop(taken.set(name, value));
        }
        self.variables = taken;
    }

    pub(crate) fn variable_names(&self) -> Vec<String> {
        let plain = self.variables.iter().map(|(name, _)| name.to_owned());
        let names: BTreeSet<String> = plain.chain(self.references.keys().cloned()).collect();
        names.into_iter().collect()
    }

    /// Remembers a command, and forgets the oldest.
    pub(crate) fn remember(&mut self, record: CommandRecord) {
        self.commands.push_back(record);
        let over = self.commands.len().saturating_sub(COMMANDS_MAX);
        self.commands.drain(..over);
    }

    /// The latest commands, newest first.
    pub(crate) fn latest(&self, limit: usize) -> Vec<&CommandRecord> {
        self.commands.iter().rev().take(limit).collect()
    }

    pub(crate) fn command(&self, id: &str) -> Option<&CommandRecord> {
        self.commands.iter().rev().find(|record| record.command_id == id)
    }

    /// What may be told of the desk: variables by name only.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "cwd": self.cwd.to_string(),
            "env": self.shown_variables(),
            "persistentShell": self.shell,
            "lastCommand": self.latest(1).first(),
            "recentCommands": self.latest(5),
        })
    }

    pub(crate) fn shown_variables(&self) -> Value {
        let keys = self.variable_names();
        json!({ "count": keys.len(), "keys": keys })
    }
}
