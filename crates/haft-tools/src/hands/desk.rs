//! What a session's commands leave behind for the next, and how that outlives the process.

use haft_sandbox::environment::{VariableError, Variables};
use haft_sandbox::virtual_path::VirtualPath;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// How many commands are remembered.
const COMMANDS_MAX: usize = 50;

/// Where a session's commands run, with which variables, and which they were.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) cwd: VirtualPath,
    pub(crate) variables: Variables,
    commands: VecDeque<CommandRecord>,
    /// The shell that was open when the desk was last kept.
    pub(crate) shell: Option<ShellNote>,
    unheard: Unheard,
}

/// What was set while a shell was open, which that has not heard of yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unheard {
    pub(crate) cwd: Option<VirtualPath>,
    pub(crate) variables: BTreeMap<String, Option<String>>,
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
    shell: Option<ShellNote>,
    commands: VecDeque<CommandRecord>,
}

impl Desk {
    pub(crate) fn new(home: VirtualPath) -> Self {
        Self {
            cwd: home,
            variables: Variables::new(),
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
        let unheard = Unheard::default();
        (Self { cwd, variables, commands: stored.commands, shell, unheard }, lost)
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
            variables: self.variable_names(),
            sealed_values,
            shell: self.shell.clone(),
            commands: self.commands.clone(),
        };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Sets the directory of the next commands, of every kind.
    pub(crate) fn go_to(&mut self, cwd: VirtualPath) {
        self.unheard.cwd = Some(cwd.clone());
        self.cwd = cwd;
    }

    /// Sets a variable for the next commands, of every kind.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), VariableError> {
        self.variables.set(name, value)?;
        self.unheard.variables.insert(name.to_owned(), Some(value.to_owned()));
        Ok(())
    }

    /// Takes a variable away from the next commands, of every kind.
    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.unset(name);
        self.unheard.variables.insert(name.to_owned(), None);
    }

    /// What an open shell must be told before its next command.
    pub(crate) fn take_unheard(&mut self) -> Unheard {
        std::mem::take(&mut self.unheard)
    }

    /// The shell's directory and exports become the session's, but for what it has not heard of.
    pub(crate) fn take_over(&mut self, cwd: Option<&VirtualPath>, variables: Option<&Variables>) {
        if let Some(cwd) = cwd.filter(|_| self.unheard.cwd.is_none()) {
            self.cwd = cwd.clone();
        }
        let Some(variables) = variables else { return };
        let mut taken = variables.clone();
        for (name, value) in &self.unheard.variables {
            match value {
                // It was taken when it was set, and fits unless the shell exports too much.
                Some(value) => drop(taken.set(name, value)),
                None => drop(taken.unset(name)),
            }
        }
        self.variables = taken;
    }

    pub(crate) fn variable_names(&self) -> Vec<String> {
        self.variables.iter().map(|(name, _)| name.to_owned()).collect()
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
