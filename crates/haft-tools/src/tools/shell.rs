//! The persistent shell: opening it, running in it, waiting for it, closing it.

use haft_core::Timestamp;
use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::policy::Limits;
use haft_sandbox::shell::{Executed, Script, Shell};
use haft_sandbox::virtual_path::VirtualPath;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::Action;
use super::answer::{apart, done, done_with, plain, refused, taken};
use super::command::{CommandBounds, told};
use super::shell_state::{busy_plan, common, recovery_plan, settle};
use super::spill;
use crate::hands::{
    Glance, Hand, Hands, Live, OpenShell, Secrets, ShellNote, ShellStatus, fresh_id,
};

/// How long a command that nobody waits for may run.
const LIFE: Duration = Duration::from_secs(3600);
/// How long a stopped command has to end before its shell does.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default, Deserialize)]
struct WantedShell {
    cwd: Option<String>,
    #[serde(default)]
    restart: bool,
}

#[derive(Debug, Deserialize)]
struct WantedScript {
    command: String,
    #[serde(default)]
    restart: bool,
    #[serde(flatten)]
    bounds: CommandBounds,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedWait {
    timeout_ms: Option<u64>,
}

pub(super) async fn open(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    opened(taken(arguments)?, context).await
}

pub(super) async fn restart(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedShell = taken(arguments)?;
    opened(WantedShell { restart: true, ..wanted }, context).await
}

async fn opened(wanted: WantedShell, context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    settle(&hand, &context).await?;
    let cwd = match &wanted.cwd {
        Some(cwd) => Some(hand.path(cwd).map_err(refused(Action::OpenPersistentShell))?),
        None => None,
    };
    let notice = hand.take_notice();
    if wanted.restart {
        end(&hand).await?;
    }
    ensure(&hand, cwd, context.now()).await?;
    hand.keep_desk(&context).await?;
    let mut answer = common(&hand);
    answer["notice"] = json!(notice);
    Ok(plain(answer))
}

pub(super) async fn close(context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    settle(&hand, &context).await?;
    let closed = end(&hand).await?;
    if let Some(shell) = &mut hand.desk().shell {
        shell.status = ShellStatus::Closed;
    }
    hand.keep_desk(&context).await?;
    let state = hand.desk().shown();
    Ok(plain(json!({ "sessionId": hand.session(), "closed": closed, "shellState": state })))
}

pub(super) async fn exec(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedScript = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let cwd = match &wanted.bounds.cwd {
        Some(_) => Some(wanted.bounds.cwd(&hand, Action::ExecPersistentShell)?),
        None => None,
    };
    let wait = wanted.bounds.time();
    let shown = wanted.bounds.max_output_chars;
    let restart = wanted.restart;
    let typed = Typed {
        tool: "shell_exec",
        command: wanted.command,
        cwd,
        restart,
        wait,
        wall: LIFE,
        shown,
    };
    let (shell, notice) = typed.run(&hand, &context).await?;
    answer(&hand, &shell, notice, &context).await
}

/// A text for the persistent shell, and how long it may run and is waited for.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) tool: &'static str,
    pub(super) command: String,
    pub(super) cwd: Option<VirtualPath>,
    pub(super) restart: bool,
    pub(super) wait: Duration,
    pub(super) wall: Duration,
    pub(super) shown: Option<usize>,
}

impl Typed {
    /// Runs the text until it has ended or was waited for long enough. Returns what the model has
    /// not been told yet about an earlier process, too.
    pub(super) async fn run(
        &self,
        hand: &Arc<Hand>,
        context: &ToolContext,
    ) -> Result<(Arc<OpenShell>, Option<String>), ToolError> {
        settle(hand, context).await?;
        if self.restart {
            end(hand).await?;
        }
        if hand.shell().is_some_and(|shell| !shell.has_ended() && shell.executing().is_some()) {
            return Err(busy(hand));
        }
        let notice = hand.take_notice();
        let shell = ensure(hand, self.cwd.clone(), context.now()).await?;
        self.start(hand, &shell, context)?;
        if let Some(note) = &mut hand.desk().shell {
            note.command_count += 1;
        }
        hand.keep_desk(context).await?;
        wait_or_stop(&shell, self.wait, context).await?;
        if context.stop().is_cancelled() {
            settle(hand, context).await?;
            if shell.executing().is_some() {
                end(hand).await?;
            }
            return Err(ToolError::cancelled());
        }
        Ok((shell, notice))
    }

    /// Gives the shell its script; another directory is gone to first, as if it had been typed.
    fn start(
        &self,
        hand: &Hand,
        shell: &OpenShell,
        context: &ToolContext,
    ) -> Result<(), ToolError> {
        let (spilled, sink) = spill::file_and_sink(hand)?;
        let text = told_first(hand, self.cwd.as_ref())? + &self.command;
        let secrets = hand.secrets().and(Secrets::typed(&self.command));
        let (wall, keep) = (self.wall, spill::shown(self.shown));
        let script = Script { text, wall, grace: STOP_GRACE, keep, sink: Some(sink) };
        let executing = shell.shell.exec(script);
        let executing = executing.map_err(refused(Action::ExecPersistentShell))?;
        let cwd = self.cwd.as_ref();
        shell.begin(Live {
            command_id: fresh_id()?,
            tool: self.tool,
            command: context.masked(&secrets.masked(&self.command)),
            cwd: cwd.map_or_else(|| hand.cwd().to_string(), VirtualPath::to_string),
            started_at: context.now().ms(),
            executing,
            spilled,
            secrets,
        });
        Ok(())
    }
}

/// What the shell is told before its script: what was set since its last one.
fn told_first(hand: &Hand, cwd: Option<&VirtualPath>) -> Result<String, ToolError> {
    let variables = hand.variables()?;
    let unheard = hand.desk().take_unheard();
    let mut told = String::new();
    for name in &unheard.names {
        match variables.get(name) {
            Some(value) => told.push_str(&format!("builtin export {name}={}\n", quoted(value))),
            None => told.push_str(&format!("builtin unset -v {name}\n")),
        }
    }
    if let Some(cwd) = cwd.or(unheard.cwd.as_ref()) {
        told.push_str(&format!("builtin cd -- {}\n", quoted(&cwd.to_string())));
    }
    Ok(told)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

async fn answer(
    hand: &Arc<Hand>,
    shell: &Arc<OpenShell>,
    notice: Option<String>,
    context: &ToolContext,
) -> Result<Returned, ToolError> {
    let action = Action::ExecPersistentShell;
    let Some(settled) = settle(hand, context).await? else {
        let glance = shell.glance();
        let mut output = common(hand);
        output["status"] = json!("running");
        output["notice"] = json!(notice);
        output["busyPlan"] = busy_plan(hand);
        output["commandId"] = json!(glance.as_ref().map(|glance| &glance.command_id));
        let masked =
            |glance: Glance| hand.secrets().and(glance.secrets).masked(&glance.stdout.text());
        let said = glance.map(masked);
        let text = format!("{}\n[still running: wait with `shell_wait`]", said.unwrap_or_default());
        return Ok(done(action, text, output));
    };
    let mut output = common(hand);
    output["status"] = json!("completed");
    output["notice"] = json!(notice);
    output["result"] = settled.result.clone();
    output["commandId"] = settled.result["commandId"].clone();
    output["exitCode"] = settled.result["exitCode"].clone();
    output["stdout"] = json!(settled.stdout);
    output["stderr"] = json!(settled.stderr);
    output["recoveryPlan"] = recovery_plan(hand);
    let said = told(&settled.ending, &settled.stdout, &settled.stderr, &settled.kept);
    let text = notice.map_or_else(String::new, |notice| format!("{notice}\n")) + &said;
    Ok(done_with(action, text, output, settled.kept))
}

pub(super) async fn wait(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedWait = taken(arguments)?;
    let time = Duration::from_millis(wanted.timeout_ms.unwrap_or(1000));
    let hand = Hands::of(&context).await?;
    let shell = hand.shell();
    let was_busy = shell.as_ref().is_some_and(|shell| shell.executing().is_some());
    if let Some(executing) = shell.and_then(|shell| shell.executing()) {
        let waiting = tokio::task::spawn_blocking(move || executing.wait_for(time));
        tokio::select! {
            _ = waiting => {}
            () = context.stop().cancelled() => return Err(ToolError::cancelled()),
        }
    }
    let settled = settle(&hand, &context).await?;
    let still = hand.shell().is_some_and(|shell| shell.executing().is_some());
    let status = match (was_busy, still) {
        (_, true) => "running",
        (true, false) => "completed",
        (false, false) => "idle",
    };
    let mut answer = common(&hand);
    answer["status"] = json!(status);
    answer["result"] = settled.map_or(Value::Null, |settled| settled.result);
    answer["error"] = Value::Null;
    answer["busyPlan"] = busy_plan(&hand);
    answer["recoveryPlan"] = recovery_plan(&hand);
    answer["nextStep"] = super::shell_state::next_step(&hand);
    Ok(plain(answer))
}

/// Waits for the command's end, or until the call is stopped: then it is interrupted.
async fn wait_or_stop(
    shell: &Arc<OpenShell>,
    time: Duration,
    context: &ToolContext,
) -> Result<Option<Executed>, ToolError> {
    let Some(executing) = shell.executing() else { return Ok(None) };
    let again = executing.clone();
    let waited = tokio::task::spawn_blocking(move || executing.wait_for(time));
    let ended = tokio::select! {
        ended = waited => ended,
        () = context.stop().cancelled() => {
            shell.shell.interrupt();
            tokio::task::spawn_blocking(move || again.wait_for(STOP_GRACE)).await
        }
    };
    ended.map_err(|error| ToolError::internal(error.to_string()))
}

/// The shell that is open, or a fresh one in the session's directory with its variables.
pub(super) async fn ensure(
    hand: &Arc<Hand>,
    cwd: Option<VirtualPath>,
    now: Timestamp,
) -> Result<Arc<OpenShell>, ToolError> {
    if let Some(shell) = hand.shell().filter(|shell| !shell.has_ended()) {
        return Ok(shell);
    }
    end(hand).await?;
    let working = Arc::clone(hand);
    let shell = apart(move || {
        let at = cwd.unwrap_or_else(|| working.cwd());
        let variables = working.variables()?;
        let launcher = &working.settings().launcher;
        let opened = Shell::open(launcher, &working.policy(), Limits::WORK, at.clone(), variables);
        let shell = opened.map_err(refused(Action::OpenPersistentShell))?;
        let mut desk = working.desk();
        desk.cwd = at;
        // A fresh shell starts with all of it.
        drop(desk.take_unheard());
        drop(desk);
        let shell = OpenShell::new(fresh_id()?, now.ms(), shell);
        Ok(Arc::new(shell))
    })
    .await?;
    hand.desk().shell = Some(ShellNote {
        shell_id: shell.id.clone(),
        started_at: shell.started_at,
        command_count: 0,
        status: ShellStatus::Active,
    });
    hand.put_shell(Some(Arc::clone(&shell)));
    Ok(shell)
}

/// Ends the shell with all that runs in it; whether there was one.
pub(super) async fn end(hand: &Arc<Hand>) -> Result<bool, ToolError> {
    let Some(shell) = hand.put_shell(None) else { return Ok(false) };
    apart(move || {
        drop(shell);
        Ok(true)
    })
    .await
}

fn busy(hand: &Hand) -> ToolError {
    let error = ToolError::new(
        "the shell still runs a command: wait with `shell_wait`, look with \
         `shell_read_last_output`, or end it with `shell_restart`",
    );
    error.with_partial(json!({ "busyPlan": busy_plan(hand) }))
}
