//! What a session is to achieve, and how far it is.

use haft_core::tool::{DeclaredEffect, Definition, Scope};
use serde_json::json;

use super::{Routed, answers, any_session, define, keeps, limit, object, recalls, text, with};

const READS: &[DeclaredEffect] = &[DeclaredEffect::SessionRead, DeclaredEffect::MemoryRead];

pub(super) fn definitions() -> Vec<Definition> {
    vec![read(), grade(), evaluate(), history(), outcome_define()]
}

fn read() -> Definition {
    let routed = Routed {
        does: "Reads what a session is to achieve, and how that is told",
        use_when: "you want the aim in its own words",
        not_for: &[("how far it is reached", "outcome_grade")],
    };
    let mut definition = define("outcome_read", &routed, &object(&[], any_session()));
    definition.facets = recalls(&[DeclaredEffect::SessionRead]);
    definition.output_schema = Some(answers("sessionId:s activeOutcome:o?"));
    definition
}

fn grade() -> Definition {
    let routed = Routed {
        does: "Grades by fixed rules how far a session is with its outcome, and what to do next",
        use_when: "you are about to go on, or to stop, and want to know where the session stands",
        not_for: &[("whether shared things may change", "outcome_evaluate")],
    };
    let mut definition = define("outcome_grade", &routed, &object(&[], any_session()));
    definition.facets = recalls(READS);
    definition.output_schema = Some(answers("sessionId:s activeOutcome:o? grade:o"));
    definition
}

fn evaluate() -> Definition {
    let routed = Routed {
        does: "Evaluates from results of calls whether a session's outcome is reached",
        use_when: "you want to share what was done, or to know whether the last wake helped",
        not_for: &[("how it went over time", "outcome_history")],
    };
    let mut definition = define("outcome_evaluate", &routed, &object(&[], any_session()));
    definition.facets = recalls(READS);
    let members = "sessionId:s activeOutcome:o? grade:o evaluation:o evaluationHistory:a";
    definition.output_schema = Some(answers(members));
    definition
}

fn history() -> Definition {
    let routed = Routed {
        does: "Lists the evaluations of a session's outcome, one for each wake",
        use_when: "the evaluation does not get better, and you want to see how it went",
        not_for: &[("the evaluation now", "outcome_evaluate")],
    };
    let input = object(&[], with(any_session(), limit(12)));
    let mut definition = define("outcome_history", &routed, &input);
    definition.facets = recalls(READS);
    let members = "sessionId:s activeOutcome:o? count:i latestIteration:i? evaluations:a";
    definition.output_schema = Some(answers(members));
    definition
}

fn outcome_define() -> Definition {
    let routed = Routed {
        does: "Sets what a session is to achieve, in the agent\'s own name",
        use_when: "the session has no outcome, or its own one has changed",
        not_for: &[("reading the one there is", "outcome_read")],
    };
    let criteria = json!({
        "type": "array",
        "items": { "type": "string", "maxLength": 4000 },
        "maxItems": 32,
        "description": "How it is told that it is reached, in words that a result will show.",
    });
    let input = object(
        &["title"],
        with(
            any_session(),
            json!({
                "title": { "type": "string", "minLength": 1, "maxLength": 200, "description": "The aim in a line." },
                "detail": text("What there is to say beyond that."),
                "successCriteria": criteria,
            }),
        ),
    );
    let mut definition = define("outcome_define", &routed, &input);
    definition.facets = keeps(Scope::Session, &[DeclaredEffect::SessionWrite]);
    definition.output_schema = Some(answers("sessionId:s activeOutcome:o eventId:s"));
    definition
}
