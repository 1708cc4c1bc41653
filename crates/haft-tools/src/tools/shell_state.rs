//! What is known of the session's shell, and what is set for its commands.

use haft_core::ArtifactRef;
use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::Kind;
use haft_sandbox::shell::{End, Executed};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

use super::Action;
use super::answer::{apart, plain, refused, taken};
use super::command::{ending, exit_code, policy_words, preview, signal};
use super::spill;
use crate::context_pressure;
use crate::hands::{CommandRecord, Hand, Hands, Live, Reference, Settled, ShellStatus, mirror};

#[derive(Debug, Deserialize)]
struct WantedHistory {
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedCommand {
    command_id: String,
}

#[derive(Debug, Deserialize)]
struct WantedPath {
    path: String,
}

#[derive(Debug, Deserialize)]
struct WantedVariable {
    key: String,
    value: Option<String>,
}

/// A command of the persistent shell whose end was recorded just now.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) end: End,
    pub(super) result: Value,
    pub(super) ending: String,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) kept: Vec<ArtifactRef>,
}

/// Records the end of the persistent shell's command, if it has ended and nobody else did.
pub(super) async fn settle(
    hand: &Arc<Hand>,
    context: &ToolContext,
) -> Result<Option<Recorded>, ToolError> {
    let Some(settled) = hand.shell().and_then(|shell| shell.settle()) else { return Ok(None) };
    let Settled { live, executed } = settled;
    let Live { command_id, tool, command, cwd, spilled, secrets, .. } = live;
    let said = [&executed.stdout, &executed.stderr];
    take_over(hand, &executed);
    let secrets = hand.secrets().and(secrets);
    let kept = spill::keep(spilled, said, &secrets, context).await?;
    let (stdout, stderr) =
        (secrets.masked(&executed.stdout.text()), secrets.masked(&executed.stderr.text()));
    let (code, signal, words) = ended(executed.end);
    let record = CommandRecord {
        command_id,
        tool: tool.to_owned(),
        command,
        args: Vec::new(),
        cwd,
        exit_code: code,
        signal,
        ending: words.clone(),
        timed_out: matches!(executed.end, End::TimedOut(_)),
        duration_ms: u64::try_from(executed.took.as_millis()).unwrap_or(u64::MAX),
        updated_at: context.now().ms(),
        stdout_preview: context.masked(&preview(&stdout)),
        stderr_preview: context.masked(&preview(&stderr)),
        output_artifacts: kept.iter().map(|artifact| artifact.id.to_string()).collect(),
    };
    let result = json!(record);
    hand.desk().remember(record);
    hand.keep_desk(context).await?;
    Ok(Some(Recorded { end: executed.end, result, ending: words, stdout, stderr, kept }))
}

/// The shell's directory and exports become the session's.
fn take_over(hand: &Hand, executed: &Executed) {
    let vaulted = hand.vaulted();
    let mut desk = hand.desk();
    if let Some(cwd) = &executed.cwd {
        desk.take_over_cwd(cwd);
    }
    if let Some(exports) = &executed.variables {
        desk.take_over(exports, &vaulted);
    }
    if let (End::ShellEnded(_), Some(shell)) = (executed.end, &mut desk.shell) {
        shell.status = ShellStatus::Closed;
    }
}

fn ended(end: End) -> (Option<u8>, Option<u32>, String) {
    match end {
        End::Exited(code) => (Some(code), None, format!("exited with {code}")),
        End::TimedOut(code) => (Some(code), None, "interrupted: its time was up".to_owned()),
        End::MemoryLimit(code) => {
            let words = format!("exited with {code}: the sandbox used up its memory");
            (Some(code), None, words)
        }
        End::ShellEnded(exit) => {
            let words = format!("the shell ended with it: {}", ending(exit));
            (exit_code(exit), signal(exit), words)
        }
    }
}

/// What every answer about the shell says.
pub(super) fn common(hand: &Hand) -> Value {
    let state = hand.desk().shown();
    json!({
        "sessionId": hand.session(),
        "cwd": state["cwd"],
        "artifactPaths": mirror::paths(hand),
        "persistentShell": persistent(hand),
        "shellState": state,
    })
}

fn persistent(hand: &Hand) -> Value {
    let shell = hand.shell().filter(|shell| !shell.has_ended());
    let note = hand.desk().shell.clone();
    match (shell, note) {
        (Some(shell), note) => {
            let glance = shell.glance();
            json!({
                "shellId": shell.id,
                "shellPath": "/bin/bash",
                "startedAt": shell.started_at,
                "commandCount": note.map(|note| note.command_count),
                "status": "active",
                "busy": glance.is_some(),
                "currentCommand": glance.map(|glance| glance.command),
            })
        }
        (None, Some(note)) => {
            let status = match note.status {
                ShellStatus::Active | ShellStatus::Closed => ShellStatus::Closed,
                ShellStatus::Lost => ShellStatus::Lost,
            };
            json!({ "shellId": note.shell_id, "startedAt": note.started_at, "commandCount": note.command_count, "status": status, "busy": false })
        }
        (None, None) => Value::Null,
    }
}

/// What to do while a command runs; null when none does.
pub(super) fn busy_plan(hand: &Hand) -> Value {
    let Some(glance) = hand.shell().and_then(|shell| shell.glance()) else { return Value::Null };
    let secrets = hand.secrets().and(glance.secrets);
    json!({
        "tool": "shell_wait",
        "args": { "timeoutMs": 1000 },
        "currentCommand": glance.command,
        "commandId": glance.command_id,
        "startedAt": glance.started_at,
        "liveOutputPreview": {
            "stdout": preview(&secrets.masked(&glance.stdout.text())),
            "stderr": preview(&secrets.masked(&glance.stderr.text())),
        },
        "evidencePlan": ["shell_read_last_output", "shell_wait"],
        "allowlistedReadTools": ["read", "glob", "grep", "bash", "shell_describe", "shell_history", "shell_read_last_output", "shell_read_command", "shell_wait", "sandbox_describe"],
        "avoidTools": ["shell_exec", "shell_open", "shell_restart", "shell_close"],
    })
}

/// How to get a shell again; null when one is open.
pub(super) fn recovery_plan(hand: &Hand) -> Value {
    if hand.shell().is_some_and(|shell| !shell.has_ended()) {
        return Value::Null;
    }
    let cwd = hand.cwd().to_string();
    match hand.desk().shell.is_some() {
        true => {
            json!({ "tool": "shell_restart", "args": { "cwd": cwd }, "rationale": "the shell has ended; its directory and exported variables come back in a fresh one" })
        }
        false => {
            json!({ "tool": "shell_open", "args": { "cwd": cwd }, "rationale": "no shell is open yet" })
        }
    }
}

/// What to do next about the shell.
pub(super) fn next_step(hand: &Hand) -> Value {
    match busy_plan(hand) {
        Value::Null => recovery_plan(hand),
        busy => json!({ "tool": busy["tool"], "args": busy["args"] }),
    }
}

fn with_plans(hand: &Hand) -> Value {
    let mut answer = common(hand);
    answer["busyPlan"] = busy_plan(hand);
    answer["recoveryPlan"] = recovery_plan(hand);
    answer["nextStep"] = next_step(hand);
    answer
}

pub(super) async fn describe(context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    settle(&hand, &context).await?;
    let used = match context.store() {
        Some(store) => context_pressure::latest(store, hand.session()).await?,
        None => None,
    };
    let mut answer = with_plans(&hand);
    answer["notice"] = json!(hand.take_notice());
    let desk = hand.desk();
    answer["env"] = desk.shown_variables();
    answer["lastCommandPreview"] = json!(desk.latest(1).first());
    drop(desk);
    answer["contextPressure"] = json!(used.as_ref().map(context_pressure::pressure));
    answer["commandPolicy"] = policy_words();
    answer["shellReadFirstAlternatives"] = json!([
        { "tool": "read", "for": "the content of a file" },
        { "tool": "glob", "for": "finding files by name" },
        { "tool": "grep", "for": "finding lines" },
        { "tool": "bash", "for": "one program that only looks" },
    ]);
    Ok(plain(answer))
}

pub(super) async fn history(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedHistory = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    settle(&hand, &context).await?;
    let mut answer = with_plans(&hand);
    let desk = hand.desk();
    let commands = desk.latest(wanted.limit.unwrap_or(5));
    answer["count"] = json!(commands.len());
    answer["commands"] = json!(commands);
    Ok(plain(answer))
}

pub(super) async fn last_output(context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    settle(&hand, &context).await?;
    let mut answer = with_plans(&hand);
    let glance = hand.shell().and_then(|shell| shell.glance().map(|glance| (shell, glance)));
    answer["liveCommand"] = glance.map_or(Value::Null, |(shell, glance)| {
        let secrets = hand.secrets().and(glance.secrets);
        json!({
            "shellId": shell.id,
            "commandId": glance.command_id,
            "command": glance.command,
            "startedAt": glance.started_at,
            "stdoutPreview": preview(&secrets.masked(&glance.stdout.text())),
            "stderrPreview": preview(&secrets.masked(&glance.stderr.text())),
        })
    });
    answer["lastCommand"] = json!(hand.desk().latest(1).first());
    Ok(plain(answer))
}

pub(super) async fn command(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedCommand = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    settle(&hand, &context).await?;
    let mut answer = with_plans(&hand);
    answer["command"] = json!(hand.desk().command(&wanted.command_id));
    Ok(plain(answer))
}

pub(super) async fn set_cwd(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedPath = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let working = Arc::clone(&hand);
    apart(move || {
        let action = Action::Stat;
        let path = working.path(&wanted.path).map_err(refused(action))?;
        let stat = working.files().stat(&path).map_err(refused(action))?;
        if stat.kind != Kind::Directory {
            return Err(refused(action)(format!("{path} is not a directory")));
        }
        working.desk().go_to(path);
        Ok(())
    })
    .await?;
    hand.keep_desk(&context).await?;
    let state = hand.desk().shown();
    Ok(plain(json!({ "sessionId": hand.session(), "cwd": state["cwd"], "shellState": state })))
}

pub(super) async fn set_env(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let WantedVariable { key, value } = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let value = value.unwrap_or_default();
    match Reference::parse(&value) {
        Some(reference) => {
            hand.vaults().value(&reference).map_err(ToolError::new)?;
            hand.desk().refer(&key, reference)
        }
        None => hand.desk().set(&key, &value),
    }
    .map_err(|error| ToolError::invalid(error.to_string()))?;
    kept_variable(&hand, &key, &context).await
}

pub(super) async fn unset_env(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let WantedVariable { key, .. } = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    hand.desk().unset(&key);
    kept_variable(&hand, &key, &context).await
}

async fn kept_variable(
    hand: &Arc<Hand>,
    key: &str,
    context: &ToolContext,
) -> Result<Returned, ToolError> {
    hand.keep_desk(context).await?;
    let state = hand.desk().shown();
    Ok(plain(
        json!({ "sessionId": hand.session(), "key": key, "env": state["env"], "shellState": state }),
    ))
}
