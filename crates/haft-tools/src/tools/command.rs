//! `bash` and `shell_run`: commands of which nothing stays.

use haft_core::session::{Preview, Returned};
use haft_core::{ArtifactRef, Digest};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::classify::{look, programs};
use haft_sandbox::policy::{Limits, Policy};
use haft_sandbox::process::{Command, Exit, Finished, Sandbox};
use haft_sandbox::virtual_path::{VirtualPath, is_hidden};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use super::Action;
use super::answer::{apart, done_with, refused, taken};
use super::spill;
use crate::hands::{Classifier, CommandRecord, Hand, Hands, Secrets, fresh_id};

const TIME: Duration = Duration::from_secs(15);
/// How much of each stream stays in the history.
const PREVIEW: usize = 2_000;

#[derive(Debug, Deserialize)]
struct WantedProgram {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(flatten)]
    bounds: CommandBounds,
}

#[derive(Debug, Deserialize)]
struct WantedScript {
    command: String,
    #[serde(flatten)]
    bounds: CommandBounds,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandBounds {
    pub(super) cwd: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) max_output_chars: Option<usize>,
}

impl CommandBounds {
    pub(super) fn time(&self) -> Duration {
        self.timeout_ms.map_or(TIME, Duration::from_millis)
    }

    pub(super) fn cwd(&self, hand: &Hand, action: Action) -> Result<VirtualPath, ToolError> {
        match &self.cwd {
            Some(cwd) => hand.path(cwd).map_err(refused(action)),
            None => Ok(hand.cwd()),
        }
    }
}

/// A command as the session knows it.
#[derive(Debug)]
struct Named {
    action: Action,
    tool: &'static str,
    command: String,
    args: Vec<String>,
    cwd: VirtualPath,
}

pub(super) async fn bash(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedProgram = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let action = Action::RunCommand;
    let cwd = wanted.bounds.cwd(&hand, action)?;
    let argv: Vec<String> = std::iter::once(&wanted.command).chain(&wanted.args).cloned().collect();
    let argv = match hand.settings().classifier {
        Classifier::Open => argv,
        Classifier::Known => {
            let taken = look(&argv, &cwd, &hand.workspace().mounts);
            taken.map_err(|why| not_a_look(&why.to_string()))?.argv
        }
    };
    let mut command = Command::new(argv, cwd.clone());
    command.limits = Limits { wall: wanted.bounds.time(), ..Limits::LOOK };
    command.keep = spill::shown(wanted.bounds.max_output_chars);
    let policy = hand.policy().read_only();
    let WantedProgram { command: program, args, .. } = wanted;
    let named = Named { action, tool: "bash", command: program, args, cwd };
    run(named, command, policy, hand, context).await
}

fn not_a_look(why: &str) -> ToolError {
    let known: Vec<&str> = programs().collect();
    let message = format!(
        "{why}. `bash` runs one of these, without a shell: {}. For anything else, use `shell_run`",
        known.join(", ")
    );
    refused(Action::RunCommand)(message)
}

pub(super) async fn shell_run(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedScript = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let action = Action::RunShell;
    let cwd = wanted.bounds.cwd(&hand, action)?;
    let mut command = Command::script(&wanted.command, cwd.clone());
    command.limits = Limits { wall: wanted.bounds.time(), ..Limits::WORK };
    command.keep = spill::shown(wanted.bounds.max_output_chars);
    let policy = hand.policy();
    let named = Named { action, tool: "shell_run", command: wanted.command, args: Vec::new(), cwd };
    run(named, command, policy, hand, context).await
}

/// Shows a shell text as it is, with nothing in it unseen, and where it would run: agreeing to it
/// is agreeing to both.
pub(super) async fn preview_script(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedScript = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let cwd = wanted.bounds.cwd(&hand, Action::RunShell)?.to_string();
    Ok(shown_before(&wanted.command, cwd))
}

pub(super) fn shown_before(command: &str, cwd: String) -> Preview {
    let parts: [&[u8]; 2] = [command.as_bytes(), cwd.as_bytes()];
    Preview {
        fingerprint: Digest::of_parts(&parts),
        diff: Some(format!("runs in {cwd}:\n{}", unhidden(command))),
        targets: vec![cwd],
        trouble: None,
    }
}

/// A text in which every character is seen, in the order in which it is read.
pub(super) fn unhidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' | '\t' => shown.push(char),
            '\r' if chars.peek() == Some(&'\n') => shown.push(char),
            char if is_hidden(char) => shown.extend(char.escape_unicode()),
            char => shown.push(char),
        }
    }
    shown
}

/// Runs a command in a sandbox of its own, and ends it with all it started when the call is stopped.
async fn run(
    named: Named,
    mut command: Command,
    policy: Policy,
    hand: Arc<Hand>,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    command.variables = hand.variables()?;
    let (file, sink) = spill::file_and_sink(&hand)?;
    command.sink = Some(sink);
    let launcher = hand.settings().launcher.clone();
    let action = named.action;
    let started = apart(move || {
        let sandbox = Sandbox::open(&launcher, &policy).map_err(refused(action))?;
        let running = sandbox.run(command).map_err(refused(action))?;
        Ok((sandbox, running))
    });
    let (sandbox, running) = started.await?;
    // However long it takes, it holds no thread that others need.
    let (finished, stopped) = tokio::select! {
        finished = running.ended() => (finished, false),
        () = context.stop().cancelled() => {
            running.kill();
            (running.ended().await, true)
        }
    };
    let closed = apart(move || {
        drop(sandbox);
        Ok(())
    });
    closed.await?;
    let answered = named.answer(finished, file, &hand, &context).await?;
    if stopped {
        return Err(ToolError::cancelled());
    }
    Ok(answered)
}

impl Named {
    async fn answer(
        self,
        finished: Finished,
        file: File,
        hand: &Arc<Hand>,
        context: &ToolContext,
    ) -> Result<Returned, ToolError> {
        let said = [&finished.stdout, &finished.stderr];
        let typed = self.args.iter().fold(self.command.clone(), |all, arg| all + " " + arg);
        let secrets = hand.secrets().and(Secrets::typed(&typed));
        let kept = spill::keep(file, said, &secrets, context).await?;
        let record = self.record(&finished, &kept, &secrets, context)?;
        hand.desk().remember(record.clone());
        hand.keep_desk(context).await?;
        let (stdout, stderr) =
            (secrets.masked(&finished.stdout.text()), secrets.masked(&finished.stderr.text()));
        let desk = hand.desk();
        let output = json!({
            "commandId": record.command_id,
            "command": record.command,
            "args": record.args,
            "cwd": record.cwd,
            "envKeys": desk.variable_names(),
            "mountPath": hand.mount_of(&self.cwd),
            "exitCode": record.exit_code,
            "signal": record.signal,
            "ending": record.ending,
            "timedOut": record.timed_out,
            "stdout": stdout,
            "stderr": stderr,
            "stdoutBytes": finished.stdout.total(),
            "stderrBytes": finished.stderr.total(),
            "durationMs": record.duration_ms,
            "shellState": desk.shown(),
        });
        drop(desk);
        let text = told(&record.ending, &stdout, &stderr, &kept);
        Ok(done_with(self.action, text, output, kept))
    }

    fn record(
        &self,
        finished: &Finished,
        kept: &[ArtifactRef],
        secrets: &Secrets,
        context: &ToolContext,
    ) -> Result<CommandRecord, ToolError> {
        let masked = |text: &str| context.masked(&secrets.masked(text));
        Ok(CommandRecord {
            command_id: fresh_id()?,
            tool: self.tool.to_owned(),
            command: masked(&self.command),
            args: self.args.iter().map(|arg| masked(arg)).collect(),
            cwd: self.cwd.to_string(),
            exit_code: exit_code(finished.exit),
            signal: signal(finished.exit),
            ending: ending(finished.exit),
            timed_out: finished.exit == Exit::TimedOut,
            duration_ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
            updated_at: context.now().ms(),
            stdout_preview: masked(&preview(&finished.stdout.text())),
            stderr_preview: masked(&preview(&finished.stderr.text())),
            output_artifacts: kept.iter().map(|artifact| artifact.id.to_string()).collect(),
        })
    }
}

/// What the model reads of a command.
pub(super) fn told(ending: &str, stdout: &str, stderr: &str, kept: &[ArtifactRef]) -> String {
    format!("{}\n[{ending}]", said(stdout, stderr, kept))
}

/// What a command said, and where the whole of it is.
pub(super) fn said(stdout: &str, stderr: &str, kept: &[ArtifactRef]) -> String {
    let mut text = stdout.to_owned();
    if !stderr.is_empty() {
        text.push_str(&format!("\n[stderr]\n{stderr}"));
    }
    for artifact in kept {
        text.push_str(&format!("\n[whole output: artifact {}]", artifact.id));
    }
    text
}

/// The end of a text, for the history.
pub(super) fn preview(text: &str) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(PREVIEW));
    text.get(from..).unwrap_or(text).to_owned()
}

pub(super) fn exit_code(exit: Exit) -> Option<u8> {
    match exit {
        Exit::Exited(code) => Some(code),
        _ => None,
    }
}

pub(super) fn signal(exit: Exit) -> Option<u32> {
    match exit {
        Exit::Signalled(signal) => Some(signal),
        _ => None,
    }
}

/// How a command ended, in words.
pub(super) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Exited(code) => format!("exited with {code}"),
        Exit::Signalled(signal) => format!("ended by signal {signal}"),
        Exit::CpuTime => "ended: its processor time was used up".to_owned(),
        Exit::TimedOut => "ended with all it started: its time was up".to_owned(),
        Exit::MemoryLimit => "ended: the sandbox used up its memory".to_owned(),
        Exit::OutputLimit => "ended: it said more than it may".to_owned(),
        Exit::Killed => "ended: the call was stopped".to_owned(),
        Exit::Lost => "ended: its sandbox ended".to_owned(),
    }
}

/// The programs that `bash` takes, and what holds them.
pub(super) fn policy_words() -> Value {
    json!({
        "hand": "bash",
        "allowedCommands": programs().collect::<Vec<_>>(),
        "shell": false,
        "writable": false,
        "timeoutMs": { "default": 15_000, "max": 60_000 },
        "maxOutputChars": { "default": 12_000, "max": 40_000 },
    })
}
