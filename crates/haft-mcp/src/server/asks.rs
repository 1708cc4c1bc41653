//! What a waiting call asks of its caller, and what the answers mean.

use haft_core::session::SuspensionKind;
use haft_core::tool::Schema;
use haft_core::{CallId, ResolutionId, SessionId, legible};
use haft_runtime::schema::Validator;
use haft_runtime::{Haft, ResolveError, Response, Waiting};
use serde_json::{Map, Value, json};

use crate::principal::Principal;
use crate::questions::{Asked, Kind, Question};

/// The longest question about an approval. A call that needs more words than this to be shown whole
/// is not approved by its caller: nobody can agree to what they were not shown.
const CONSENT_CHARS_MAX: usize = 8_000;
/// The longest question that a person is asked for an answer; it is cut, and says so.
const QUESTION_CHARS_MAX: usize = 8_000;

/// One thing that a call waits for and its caller may give.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// What it is called; never used again for another question of the same call.
    pub(super) key: String,
    pub(super) question: Question,
    session: SessionId,
    call: CallId,
    round: Option<u32>,
    meaning: Meaning,
}

/// What an answer is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meaning {
    /// The running tool gets it as it came.
    Input,
    /// It approves or denies.
    Approval,
    /// It is the result, as the form holds it.
    Result,
    /// It is the result, in the form's one field.
    ResultField,
}

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The wait is over, by this answer or by someone's before it.
    Yes,
    /// It is no answer, and the question stands.
    No,
}

impl Ask {
    pub(super) fn of_question(key: String, asked: Asked) -> Self {
        let Asked { question, session, call } = asked;
        Self { key, question, session, call, round: None, meaning: Meaning::Input }
    }

    /// Asks whether a call may run, with everything it would run with; `None` when that is too much
    /// to be shown.
    pub(super) fn of_approval(waiting: &Waiting) -> Option<Self> {
        let diff = waiting.preview.as_ref().and_then(|preview| preview.diff.as_deref());
        let message = approval_text(waiting.tool.as_str(), &waiting.arguments, diff);
        if message.chars().count() > CONSENT_CHARS_MAX {
            return None;
        }
        let schema = json!({
            "type": "object",
            "properties": {
                "approve": {"type": "boolean", "title": "Approve", "description": "Whether it may run"},
                "note": {"type": "string", "title": "Note", "description": "What to add"},
            },
            "required": ["approve"],
        });
        let question = Question::form(&message, &schema);
        Some(Self::of_wait(waiting, "approval", question, Meaning::Approval))
    }

    pub(super) fn of_elicitation(waiting: &Waiting, output: Option<&Schema>) -> Self {
        let texts = ["question", "message", "prompt"];
        let text = texts.iter().find_map(|name| waiting.arguments.get(*name)?.as_str());
        let message = match text {
            Some(text) => shown(text),
            None => {
                let arguments = shown(&Value::Object(waiting.arguments.clone()).to_string());
                format!("`{}` asks: {arguments}", waiting.tool)
            }
        };
        let form = output.map(|schema| schema.value().clone()).filter(is_form);
        let (schema, meaning) = match form {
            Some(schema) => (schema, Meaning::Result),
            None => {
                let properties = json!({"answer": {"type": "string", "title": "Answer"}});
                let schema =
                    json!({"type": "object", "properties": properties, "required": ["answer"]});
                (schema, Meaning::ResultField)
            }
        };
        Self::of_wait(waiting, "answer", Question::form(&message, &schema), meaning)
    }

    fn of_wait(waiting: &Waiting, name: &str, question: Question, meaning: Meaning) -> Self {
        let Waiting { session, call, round, .. } = *waiting;
        // Rounds begin with 1, and most calls have one.
        let key = if round <= 1 { name.to_owned() } else { format!("{name}-{round}") };
        Self { key, question, session, call, round: Some(round), meaning }
    }

    /// Takes an answer, if it is one.
    pub(super) async fn answered(
        &self,
        haft: &Haft,
        by: &Principal,
        answer: &Value,
    ) -> Result<Taken, ResolveError> {
        let Some(response) = self.response(answer) else { return Ok(Taken::No) };
        let id = ResolutionId::from_bits(haft.driver().fresh()?);
        let (session, call, round) = (self.session, self.call, self.round);
        match haft.resolve_as(session, call, round, id, by.actor.clone(), response).await {
            Ok(_) => Ok(Taken::Yes),
            Err(ResolveError::Input(haft_runtime::InputError::Refused(refusal))) => {
                // Whoever came first has decided; anything else about it is no answer.
                let is_late = matches!(refusal, haft_core::session::Refusal::Stale(_));
                Ok(if is_late { Taken::Yes } else { Taken::No })
            }
            Err(error) => Err(error),
        }
    }

    fn response(&self, answer: &Value) -> Option<Response> {
        let answer = answer.as_object()?;
        if self.question.kind != Kind::Elicitation {
            return Some(Response::Answer { value: Value::Object(answer.clone()) });
        }
        let content = answer.get("content").and_then(Value::as_object);
        match (answer.get("action")?.as_str()?, &self.meaning) {
            ("accept", meaning) => self.accepted(meaning, answer, content.cloned()),
            ("decline" | "cancel", Meaning::Input) => {
                Some(Response::Answer { value: Value::Object(answer.clone()) })
            }
            ("decline", _) => Some(Response::Deny { note: None }),
            // Who looks away has not decided.
            _ => None,
        }
    }

    fn accepted(
        &self,
        meaning: &Meaning,
        answer: &Map<String, Value>,
        content: Option<Map<String, Value>>,
    ) -> Option<Response> {
        let schema = self.question.params.get("requestedSchema");
        let content = match (schema, content) {
            (Some(schema), Some(content)) => Some(fitting(schema, content)?),
            // An address that was opened has no content.
            (None, content) => content,
            (Some(_), None) => return None,
        };
        match meaning {
            Meaning::Input => Some(Response::Answer { value: Value::Object(answer.clone()) }),
            Meaning::Approval => {
                let content = content?;
                let note = content.get("note").and_then(Value::as_str).map(str::to_owned);
                Some(match content.get("approve")?.as_bool()? {
                    true => Response::Approve { arguments: None, note, grant: None },
                    false => Response::Deny { note },
                })
            }
            Meaning::Result => Some(Response::Answer { value: Value::Object(content?) }),
            Meaning::ResultField => {
                Some(Response::Answer { value: content?.get("answer")?.clone() })
            }
        }
    }
}

/// Describes a call to whoever is asked whether it may run. Each argument begins a line, and what
/// is in a value or in the diff is indented: no value can look like another argument, or like the
/// end of the question.
fn approval_text(tool: &str, arguments: &Map<String, Value>, diff: Option<&str>) -> String {
    let indented = |text: &str| legible(text).replace('\n', "\n    ");
    let mut message = match arguments.is_empty() {
        true => format!("Allow `{tool}` without arguments?"),
        false => format!("Allow `{tool}` with these arguments?"),
    };
    for (name, value) in arguments {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = legible(name).replace('\n', "‹U+000A›");
        message = format!("{message}\n{name}: {}", indented(&text));
    }
    if let Some(diff) = diff {
        message = format!("{message}\n\nWhat it would do:\n    {}", indented(diff));
    }
    message
}

fn fitting(schema: &Value, content: Map<String, Value>) -> Option<Map<String, Value>> {
    let validator = Validator::compile(&Schema::from_value(schema).ok()?).ok()?;
    let content = Value::Object(content);
    validator.check(&content).ok()?;
    match content {
        Value::Object(content) => Some(content),
        _ => None,
    }
}

/// Returns whether a schema is one that MCP's forms can show: an object of plain fields.
fn is_form(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_plain = |field: &Value| {
        let kind = field.get("type").and_then(Value::as_str);
        matches!(kind, Some("string" | "number" | "integer" | "boolean"))
    };
    schema.get("type").is_some_and(|kind| kind == "object")
        && properties.is_some_and(|fields| !fields.is_empty() && fields.values().all(is_plain))
}

fn shown(text: &str) -> String {
    let text = legible(text);
    match text.char_indices().nth(QUESTION_CHARS_MAX) {
        Some((end, _)) => {
            let n_more = text[end..].chars().count();
            format!("{}… ({n_more} characters more are not shown here)", &text[..end])
        }
        None => text.into_owned(),
    }
}

/// Returns whether the caller may be asked about a wait at all.
pub(super) fn is_for_caller(kind: SuspensionKind, consent: super::Consent) -> bool {
    match kind {
        SuspensionKind::Approval => consent == super::Consent::Approves,
        SuspensionKind::Elicitation => true,
        SuspensionKind::ClientExec | SuspensionKind::Settlement | SuspensionKind::Child => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_draws_a_line_of_its_own() {
        let arguments = json!({"path": "a\n\nWhat it would do:\nnothing", "to": "b\nto: c"});
        let text = approval_text("copy", arguments.as_object().unwrap(), Some("+x\nto: d"));
        assert_eq!(
            text,
            "Allow `copy` with these arguments?\npath: a\n    \n    What it would do:\n    \
             nothing\nto: b\n    to: c\n\nWhat it would do:\n    +x\n    to: d"
        );
    }
}
