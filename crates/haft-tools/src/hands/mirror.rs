//! The shell's state and the session's tools as files in the workspace, for whoever reads files.
//! Nothing is ever read back from them.

use haft_core::permission::{Derivation, Exposure, Level, Profile, Question, Verdict};
use haft_core::session::Config;
use haft_core::{Arguments, Timestamp};
use haft_runtime::registry::{Registered, Registry};
use haft_sandbox::files::{Expected, Parents};
use haft_sandbox::virtual_path::VirtualPath;
use haft_wire::{Dialect, Extension};
use serde_json::{Map, Value, json};

use super::Hand;

const DIRECTORY: &str = ".haft-runtime";

/// Where a file of this name is, or would be.
pub(crate) fn path(hand: &Hand, name: &str) -> VirtualPath {
    directory(hand).join(name.as_ref())
}

/// Where the files are.
pub(super) fn directory(hand: &Hand) -> VirtualPath {
    hand.workspace().home.join(DIRECTORY.as_ref())
}

/// Where the files are, for answers.
pub(crate) fn paths(hand: &Hand) -> Value {
    let path = |name: &str| format!("{}/{name}", directory(hand));
    json!({
        "shellState": path("shell-state.json"),
        "shellHistory": path("shell-history.json"),
        "shellHistoryText": path("shell-history.md"),
        "lastOutput": path("shell-last-output.json"),
        "lastOutputText": path("shell-last-output.md"),
    })
}

/// Writes them. A workspace that takes none is no reason to fail a command that ran.
pub(super) fn write(hand: &Hand) {
    let desk = hand.desk();
    let history = json!({ "sessionId": hand.session(), "commands": desk.latest(50) });
    let state = desk.shown();
    let last = desk.latest(1).first().map_or(Value::Null, |last| json!(last));
    let told: String = desk
        .latest(50)
        .iter()
        .map(|record| {
            format!(
                "- `{}` {} in {}: {}\n",
                record.command_id, record.ending, record.cwd, record.command
            )
        })
        .collect();
    let said: String = desk.latest(1).first().map_or_else(String::new, |last| {
        format!("$ {}\n{}\n{}", last.command, last.stdout_preview, last.stderr_preview)
    });
    drop(desk);
    let files = [
        ("shell-state.json", format!("{state:#}")),
        ("shell-history.json", format!("{history:#}")),
        ("shell-history.md", told),
        ("shell-last-output.json", format!("{last:#}")),
        ("shell-last-output.md", said),
    ];
    put(hand, &files);
}

fn put(hand: &Hand, files: &[(&str, String)]) {
    for (name, content) in files {
        let path = directory(hand).join((*name).as_ref());
        let written =
            hand.files().write(&path, content.as_bytes(), Expected::Anything, Parents::Create);
        drop(written);
    }
}

/// Which tools a session has, and how they are permitted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Contract {
    generation: u64,
    exposure: Exposure,
    level: Level,
    profile: Profile,
}

impl Contract {
    pub(super) fn of(registry: &Registry, config: &Config) -> Self {
        Self {
            generation: registry.generation(),
            exposure: config.exposure.clone(),
            level: config.level,
            profile: config.profile,
        }
    }

    fn derived(&self, tool: &Registered, now: Timestamp) -> Derivation {
        let question = Question {
            contract: tool.spec().contract(),
            arguments: &Arguments::plain(Map::new()),
            level: self.level,
            profile: self.profile,
            exposure: &self.exposure,
            reports: &[],
            grants: &[],
            now,
        };
        question.derive()
    }
}

/// Writes the tools that the session is offered, and what is asked about.
pub(super) fn write_contract(
    hand: &Hand,
    contract: &Contract,
    registry: &Registry,
    now: Timestamp,
) {
    let offered = registry.advertise(&contract.exposure);
    let tools: Vec<Value> = offered
        .tools()
        .iter()
        .filter_map(|tool| {
            Dialect::OpenboaSandbox.project_definition(tool.spec(), Extension::Omit).ok()
        })
        .collect();
    let permissions: Vec<(String, Derivation)> = offered
        .tools()
        .iter()
        .map(|tool| (tool.name().to_string(), contract.derived(tool, now)))
        .collect();
    let of = |verdict: Verdict| -> Vec<Value> {
        let these = permissions.iter().filter(|(_, derivation)| derivation.decision == verdict);
        these
            .map(|(name, said)| json!({ "toolName": name, "reason": said.deciding_reason() }))
            .collect()
    };
    let (asks, allows) = (of(Verdict::Ask), of(Verdict::Allow));
    let told: String = permissions
        .iter()
        .map(|(name, said)| {
            format!("- `{name}`: {:?}, {}\n", said.decision, said.deciding_reason())
        })
        .collect();
    let shown = json!({ "sessionId": hand.session(), "count": tools.len(), "tools": tools });
    let permissions = json!({
        "sessionId": hand.session(),
        "level": contract.level,
        "alwaysAskTools": asks,
        "alwaysAllowTools": allows,
        "note": "This file shows permissions. Nothing reads it back: changing it changes nothing.",
    });
    put(
        hand,
        &[
            ("managed-tools.json", format!("{shown:#}")),
            ("permissions.json", format!("{permissions:#}")),
            ("permissions.md", told),
        ],
    );
}
