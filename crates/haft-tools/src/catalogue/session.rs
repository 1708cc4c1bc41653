//! Finding one's way among the sessions of one's agent.

use haft_core::Millis;
use haft_core::tool::{DeclaredEffect, Definition, InterruptBehavior, Scope};
use serde_json::{Value, json};

use super::recall::{current, event_types, lineage};
use super::{
    Routed, answers, any_session, define, flag, keeps, limit, number, object, one_of, recalls,
    text, with,
};

const SESSIONS: &[DeclaredEffect] = &[DeclaredEffect::SessionRead];
const BOTH: &[DeclaredEffect] = &[DeclaredEffect::SessionRead, DeclaredEffect::MemoryRead];
const LOOKS: &[DeclaredEffect] =
    &[DeclaredEffect::SessionRead, DeclaredEffect::MemoryRead, DeclaredEffect::SandboxExecute];
/// How long a session waits for the last words of another.
const PATIENCE: Millis = Millis::from_secs(7 * 24 * 3600);
/// Longer than the tool itself waits.
const RUN_TIME: Millis = Millis::from_secs(11 * 60);
const SNAPSHOT: &str = "sessionId:s agentId:s parentSessionId:s? relationToCurrent:s? \
    setupMatchesCurrent:b childCount:i environmentId:s resourceContractFingerprint:s \
    agentSetupFingerprint:s? status:s createdAt:s updatedAt:s lastActivityAt:s stopReason:s \
    requiresAction:b pendingActionKind:s? pendingActionToolName:s? turns:i \
    pendingCustomToolRequest:x pendingToolConfirmationRequest:x resourceCount:i \
    pendingEventCount:i checkpointUpdatedAt:s? lastWakeId:s? latestSummary:s? activeOutcome:o? \
    outcomeGrade:o? outcomeEvaluation:o? outcomeStatus:s outcomeTrend:s outcomeTrendSummary:s \
    promotionReady:b nextOutcomeStep:o? outcomeEvaluationHistoryCount:i \
    outcomeEvaluationLatestIteration:i? eventCursor:o? artifactPaths:o shellState:o?";

fn filters() -> Value {
    let statuses = ["missing_outcome", "blocked", "not_ready", "uncertain", "fail", "pass"];
    let trends = ["first_iteration", "improving", "stable", "regressing"];
    let states = ["idle", "running", "rescheduling", "requires_action", "terminated"];
    with(
        limit(10),
        json!({
            "activeMinutes": number(1, 525_600, "Only those at work within so many minutes."),
            "hasOutcome": flag("Only those with, or without, an outcome."),
            "promotionReady": flag("Only those whose outcome has, or has not, passed."),
            "outcomeStatus": one_of(&statuses, "Only those that evaluate so."),
            "outcomeTrend": one_of(&trends, "Only those that move so."),
            "status": one_of(&states, "Only those that are so."),
        }),
    )
}

fn slice() -> Value {
    json!({
        "afterEventId": text("Only what comes after it."),
        "beforeEventId": text("Only what comes before it."),
        "aroundEventId": text("What stands around it."),
        "wakeId": text("Only what belongs to this wake."),
        "beforeLimit": number(0, 100, "How many before `aroundEventId`."),
        "afterLimit": number(0, 100, "How many after `aroundEventId`."),
        "includeProcessed": flag("False gives only what no turn has taken up yet."),
        "types": event_types(),
    })
}

pub(super) fn definitions() -> Vec<Definition> {
    let looking = vec![list(), list_children(), snapshot(), describe_context(), events()];
    [looking, vec![list_traces(), trace(), delegate(), run_child()]].concat()
}

fn list() -> Definition {
    let routed = Routed {
        does: "Lists this agent's sessions, those most like this one first",
        use_when: "you look for a session to go on from or to read",
        not_for: &[
            ("what this one opened", "session_list_children"),
            ("words in them", "retrieval_search"),
        ],
    };
    let input = object(&[], with(with(current("so"), lineage()), filters()));
    let mut definition = define("session_list", &routed, &input);
    definition.facets = recalls(BOTH);
    definition.output_schema = Some(answers("agentId:s count:i sessions:a"));
    definition
}

fn list_children() -> Definition {
    let routed = Routed {
        does: "Lists the sessions that a session opened, with where each stands",
        use_when: "work was delegated and you want to know how it goes",
        not_for: &[("every session of the agent", "session_list")],
    };
    let input = object(&[], with(any_session(), filters()));
    let mut definition = define("session_list_children", &routed, &input);
    definition.facets = recalls(BOTH);
    definition.output_schema = Some(answers("parentSessionId:s count:i sessions:a"));
    definition
}

fn snapshot() -> Definition {
    let routed = Routed {
        does: "Shows where one session stands: status, waits, outcome, shell, files",
        use_when: "you have a session's id and want to know whether to use its work",
        not_for: &[("what happened in it", "session_get_events")],
    };
    let input = object(&[], any_session());
    let mut definition = define("session_get_snapshot", &routed, &input);
    definition.facets = recalls(LOOKS);
    definition.output_schema = Some(answers(SNAPSHOT));
    definition
}

fn describe_context() -> Definition {
    let routed = Routed {
        does: "Shows how much of a model's context a session takes, and where to look instead",
        use_when: "the session has become long, or answers miss what was said",
        not_for: &[("finding what was said", "session_search_context")],
    };
    let input = object(&[], any_session());
    let mut definition = define("session_describe_context", &routed, &input);
    definition.facets = recalls(LOOKS);
    definition.output_schema = Some(answers(
        "sessionId:s available:b artifactPaths:o contextBudget:o? pressure:o? reason:s?",
    ));
    definition
}

fn events() -> Definition {
    let routed = Routed {
        does: "Reads a slice of a session's events: the latest, or before, after or around one",
        use_when: "a search or a snapshot named an event, or you want the latest",
        not_for: &[
            ("one whole wake", "session_get_trace"),
            ("finding an event by its words", "session_search_context"),
        ],
    };
    let input = object(&[], with(with(any_session(), limit(20)), slice()));
    let mut definition = define("session_get_events", &routed, &input);
    definition.facets = recalls(SESSIONS);
    definition.output_schema = Some(answers("sessionId:s count:i events:a"));
    definition.max_result_bytes = 1 << 18;
    definition
}

fn list_traces() -> Definition {
    let routed = Routed {
        does: "Lists a session's wakes, newest first, each with its id and what came of it",
        use_when: "you need the id of a wake",
        not_for: &[("finding a wake by its words", "session_search_traces")],
    };
    let input = object(&[], with(any_session(), limit(8)));
    let mut definition = define("session_list_traces", &routed, &input);
    definition.facets = recalls(SESSIONS);
    definition.output_schema = Some(answers("sessionId:s count:i traces:a"));
    definition
}

fn trace() -> Definition {
    let routed = Routed {
        does: "Reads one wake of a session whole, with what each call took and gave",
        use_when: "you have a `wakeId` and want to check what really happened",
        not_for: &[("the id of a wake", "session_list_traces")],
    };
    let input = object(
        &["wakeId"],
        with(
            with(any_session(), json!({ "wakeId": text("From a list, a search or an event.") })),
            with(limit(100), json!({ "types": event_types() })),
        ),
    );
    let mut definition = define("session_get_trace", &routed, &input);
    definition.facets = recalls(SESSIONS);
    definition.output_schema = Some(answers("sessionId:s wakeId:s count:i events:a"));
    definition.max_result_bytes = 1 << 18;
    definition
}

fn delegate() -> Definition {
    let routed = Routed {
        does: "Opens another session of this agent that works on a task by itself, with at most \
               this session's permissions, and gives its id at once",
        use_when: "a part of the work can go on beside yours, in a context of its own",
        not_for: &[("waiting for what came of it", "session_run_child")],
    };
    let criteria = json!({
        "type": "array",
        "items": { "type": "string" },
        "maxItems": 32,
        "description": "By what the other session is told to be done; needs a title.",
    });
    let message = json!({
        "type": "string",
        "minLength": 1,
        "description": "What is to be done, with all that must be known for it.",
    });
    let input = object(
        &["message"],
        json!({
            "message": message,
            "title": text("The outcome that it is to achieve, in a line."),
            "detail": text("More about the outcome; needs a title."),
            "successCriteria": criteria,
            "agent": text("Who of this session's roster does it, by name; needed where there is one."),
            "wait": flag("Whether to wait until it is done: its last words are then the result."),
        }),
    );
    let mut definition = define("session_delegate", &routed, &input);
    definition.suspend_ttl = PATIENCE;
    definition.facets = keeps(Scope::Session, &[DeclaredEffect::SessionWrite]);
    definition.output_schema = Some(answers("parentSessionId:s childSession:o seededEventIds:a"));
    definition
}

fn run_child() -> Definition {
    let routed = Routed {
        does: "Lets a session that this one opened go on until it rests, needs someone, or has \
               made a few runs, and tells where it stands and what it said",
        use_when: "you delegated work and need what came of it before you go on",
        not_for: &[
            ("a look without waiting", "session_list_children"),
            ("opening one", "session_delegate"),
        ],
    };
    let most = number(1, 20, "How many of its runs to wait for at most; 3 unless said.");
    let input = object(
        &["sessionId"],
        json!({
            "sessionId": text("A session that this one opened."),
            "maxCycles": most,
        }),
    );
    let effects =
        [DeclaredEffect::SessionWrite, DeclaredEffect::SessionRead, DeclaredEffect::MemoryRead];
    let mut definition = define("session_run_child", &routed, &input);
    definition.facets = keeps(Scope::Session, &effects);
    definition.output_schema = Some(answers(
        "parentSessionId:s childSession:o executedCycles:i loopStopReason:s childStopReason:s \
         response:s? queuedWakeIds:a processedEventIds:a",
    ));
    definition.exec_timeout = RUN_TIME;
    definition.interrupt = InterruptBehavior::Cancel;
    definition
}
