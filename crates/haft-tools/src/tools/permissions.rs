//! What a call would be asked about, and what to do instead.

use haft_core::permission::Verdict;
use haft_core::session::{Open, Returned};
use haft_core::tool::Precondition;
use haft_runtime::registry::Registered;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{plain, taken};
use super::{artifacts, context_budget, shell_state};
use crate::hands::{Hand, Hands};
use crate::posture::{Call, Ways, next_step, read_first};
use crate::preflight::read_only_alternative;
use crate::sight::{Sight, Viewer, is_shell_text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    tool_name: String,
    tool_args: Option<Value>,
}

/// What is said about the session whatever the call.
struct Around {
    sight: Sight,
    pressure: Value,
    hand: Option<std::sync::Arc<Hand>>,
}

impl Around {
    async fn of(context: &ToolContext) -> Result<Self, ToolError> {
        let viewer = Viewer::of(context).await?;
        let sight = viewer.look(viewer.own.clone()).await?;
        let pressure = context_budget::of(&sight, context)["pressure"].clone();
        Ok(Self { sight, pressure, hand: Hands::of(context).await.ok() })
    }

    fn crowded(&self) -> bool {
        matches!(self.pressure["level"].as_str(), Some("moderate" | "high"))
    }

    fn shell(&self) -> Value {
        let Some(hand) = self.hand.as_deref() else { return Value::Null };
        let common = shell_state::common(hand);
        json!({
            "cwd": common["cwd"],
            "persistentShell": common["persistentShell"],
            "busyPlan": shell_state::busy_plan(hand),
            "recoveryPlan": shell_state::recovery_plan(hand),
        })
    }

    fn evaluation(&self) -> (Value, Value) {
        if self.sight.goal().is_none() {
            return (Value::Null, Value::Null);
        }
        let evaluation = self.sight.assessment().evaluation;
        (json!(evaluation), json!(evaluation.gate_step()))
    }

    /// A way to do what a shell text would, without asking anyone.
    fn alternative(&self, command: &str) -> Option<Value> {
        let hand = self.hand.as_deref()?;
        let found = read_only_alternative(command, &hand.cwd(), &hand.workspace().mounts)?;
        Some(json!({ "tool": found.tool, "args": found.arguments, "rationale": found.rationale }))
    }

    fn pending(&self) -> Value {
        let waiting = self.sight.waiting().filter(|waiting| waiting.kind == "tool_confirmation");
        waiting.map_or(Value::Null, |waiting| waiting.value)
    }
}

pub(super) async fn describe(context: ToolContext) -> Result<Returned, ToolError> {
    artifacts::write(&context).await?;
    Ok(plain(posture(&context).await?))
}

/// The whole posture, for the tool and for the file.
pub(super) async fn posture(context: &ToolContext) -> Result<Value, ToolError> {
    let around = Around::of(context).await?;
    let pending = around.pending();
    let command = pending["input"]["command"].as_str().unwrap_or_default();
    let is_shell = pending["toolName"].as_str().is_some_and(is_shell_text);
    let alternative = if is_shell { around.alternative(command) } else { None };
    let (evaluation, next_outcome) = around.evaluation();
    let shell = around.shell();
    let next_shell = match (&shell["busyPlan"], &shell["recoveryPlan"]) {
        (Value::Null, recovery) => recovery.clone(),
        (busy, _) => json!({ "tool": busy["tool"], "args": busy["args"] }),
    };
    let exposure = around.sight.open().map(|open| open.config.exposure.clone()).unwrap_or_default();
    let tools = context.tools().advertise(&exposure);
    let tools = tools.tools();
    let shown = |tool: &Registered| json!({ "name": tool.name(), "ownership": tool.spec().ownership, "effects": tool.spec().facets.effects });
    let asks: Vec<Value> =
        tools.iter().filter(|tool| tool.spec().gate.asks()).map(|tool| shown(tool)).collect();
    let gated: Vec<Value> =
        tools.iter().filter(|tool| is_gated(tool)).map(|tool| shown(tool)).collect();
    Ok(json!({
        "artifactPaths": artifacts::named(&["permissions.json", "permission-posture.json", "permission-posture.md"]),
        "pendingToolConfirmationRequest": pending,
        "outcomeEvaluation": evaluation,
        "nextOutcomeStep": next_outcome,
        "contextPressure": around.pressure,
        "shellMutationPosture": shell,
        "readOnlyAlternative": alternative,
        "nextShellStep": next_shell,
        "shellReadFirstAlternatives": read_first(around.crowded(), false),
        "alwaysAskTools": asks,
        "outcomeGatedTools": gated,
    }))
}

fn is_gated(tool: &Registered) -> bool {
    tool.spec().preconditions.contains(&Precondition::OutcomePass)
}

pub(super) async fn check(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let around = Around::of(&context).await?;
    let open = around.sight.open().ok_or_else(|| ToolError::new("the session has ended"))?;
    let Some(tool) = context.tool(open, &wanted.tool_name) else {
        return Ok(plain(unknown(&wanted.tool_name, &around)));
    };
    let (tool, given) = meant(&context, open, tool, wanted.tool_args);
    Ok(plain(checked(&context, &around, open, &tool, &given).await))
}

type Meant = (std::sync::Arc<Registered>, ToolArguments);

/// A call that only stands for another is weighed as that.
fn meant(
    context: &ToolContext,
    open: &Open,
    tool: std::sync::Arc<Registered>,
    given: Option<Value>,
) -> Meant {
    let given = match given {
        Some(Value::Object(given)) => given,
        _ => ToolArguments::new(),
    };
    let stands_for = tool.code().and_then(|code| code.stands_for(&given));
    let other = stands_for
        .and_then(|(name, arguments)| Some((context.tool(open, name.as_str())?, arguments)));
    other.unwrap_or((tool, given))
}

async fn checked(
    context: &ToolContext,
    around: &Around,
    open: &Open,
    tool: &Registered,
    given: &ToolArguments,
) -> Value {
    let spec = tool.spec();
    let name = tool.name().as_str();
    let weighed = context.weigh(open, tool, given).await;
    let decision = weighed.derivation.decision;
    let facets = spec.resolved_facets();
    let shell = is_shell_text(name);
    let (evaluation, next_outcome) = around.evaluation();
    let gated = is_gated(tool);
    let command = given.get("command").and_then(Value::as_str).unwrap_or_default();
    let alternative = if shell { around.alternative(command) } else { None };
    let posture = if shell { around.shell() } else { Value::Null };
    let ways = ways(alternative.as_ref(), &posture, gated.then_some(&next_outcome));
    let kind = match (name, gated, decision) {
        ("shell_run", ..) => Call::ShellRun,
        ("shell_exec", ..) => Call::ShellExec,
        (_, true, _) => Call::Gated,
        (_, false, Verdict::Ask) => Call::Asked,
        _ => Call::Free,
    };
    json!({
        "toolName": name,
        "artifactPaths": artifacts::named(&["permissions.json", "permission-posture.json"]),
        "exists": true,
        "allowed": decision != Verdict::Deny && weighed.unmet_precondition.is_none(),
        "permissionPolicy": if spec.gate.asks() { "always_ask" } else { "always_allow" },
        "requiresConfirmation": decision == Verdict::Ask,
        "requiresOutcomePass": gated,
        "unmetPrecondition": weighed.unmet_precondition,
        "derivation": weighed.derivation.findings,
        "ownership": spec.ownership,
        "effects": spec.facets.effects,
        "readOnly": facets.is_read_only(),
        "destructive": facets.is_destructive(),
        "interruptBehavior": spec.interrupt,
        "outcomeEvaluation": if gated || shell { evaluation } else { Value::Null },
        "nextOutcomeStep": if gated || shell { next_outcome } else { Value::Null },
        "contextPressure": around.pressure,
        "pendingToolConfirmationRequest": around.pending(),
        "shellMutationPosture": posture,
        "readOnlyAlternative": alternative,
        "shellReadFirstAlternatives": if shell { read_first(around.crowded(), false) } else { Vec::new() },
        "nextStep": next_step(kind, &ways),
    })
}

fn ways(alternative: Option<&Value>, posture: &Value, gate: Option<&Value>) -> Ways {
    let some = |value: &Value| (!value.is_null()).then(|| value.clone());
    let is_bash = alternative.is_some_and(|way| way["tool"] == "bash");
    let (bash, first_class) = if is_bash { (alternative, None) } else { (None, alternative) };
    let busy = some(&posture["busyPlan"]);
    Ways {
        first_class: first_class.cloned(),
        bash: bash.cloned(),
        busy: busy.map(|busy| json!({ "tool": busy["tool"], "args": busy["args"], "rationale": "a command still runs" })),
        recovery: some(&posture["recoveryPlan"]),
        gate: gate.and_then(some),
    }
}

fn unknown(name: &str, around: &Around) -> Value {
    let name: String = name.chars().take(64).collect();
    json!({
        "toolName": name,
        "artifactPaths": artifacts::named(&["permissions.json", "permission-posture.json"]),
        "exists": false,
        "allowed": false,
        "permissionPolicy": null,
        "requiresConfirmation": false,
        "requiresOutcomePass": false,
        "ownership": null,
        "effects": [],
        "readOnly": null,
        "destructive": null,
        "interruptBehavior": null,
        "outcomeEvaluation": null,
        "nextOutcomeStep": null,
        "contextPressure": around.pressure,
        "pendingToolConfirmationRequest": around.pending(),
        "shellMutationPosture": null,
        "readOnlyAlternative": null,
        "shellReadFirstAlternatives": [],
        "nextStep": { "tool": "permissions_describe", "args": {}, "rationale": "there is no such tool" },
    })
}
