//! The events that a client sends.

use haft_core::{CallId, ContentBlock};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// An event that a client sends to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentEvent {
    /// Says something.
    Message {
        /// What.
        content: Vec<ContentBlock>,
    },
    /// Stops what is under way.
    Interrupt,
    /// Says whether a call may run.
    ToolConfirmation {
        /// The call.
        call: CallId,
        /// Whether.
        confirmation: Confirmation,
    },
    /// Says what came out of a call that the client ran.
    CustomToolResult {
        /// The call.
        call: CallId,
        /// What came out.
        content: Vec<ContentBlock>,
        /// Whether it failed.
        is_error: bool,
    },
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// Yes.
    Allow,
    /// No.
    Deny {
        /// Why, for the model.
        message: Option<String>,
    },
}

/// Why an event is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SentError {
    /// It is not what the API describes.
    #[error("{0}")]
    Unreadable(String),
    /// The API describes it, and Haft does not do it.
    #[error("{0} is not supported by this server")]
    Unsupported(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    content: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Interrupt {
    session_thread_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolConfirmation {
    result: Answer,
    tool_use_id: String,
    deny_message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomToolResult {
    custom_tool_use_id: String,
    #[serde(default)]
    content: Vec<Value>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextBlock {
    text: String,
}

impl SentEvent {
    /// Reads an event. Unknown members are refused: they may mean something that is not done.
    ///
    /// # Errors
    ///
    /// When it is not what the API describes, or not supported.
    pub fn read(event: Value) -> Result<Self, SentError> {
        let (kind, members) = typed(event, "an event")?;
        match kind.as_str() {
            "user.message" => {
                let Message { content } = members_of(&kind, members)?;
                if content.is_empty() {
                    let message = "`user.message`: expected at least one block of content";
                    return Err(SentError::Unreadable(message.to_owned()));
                }
                Ok(Self::Message { content: texts(content)? })
            }
            "user.interrupt" => match members_of(&kind, members)? {
                Interrupt { session_thread_id: None } => Ok(Self::Interrupt),
                Interrupt { session_thread_id: Some(_) } => {
                    Err(unsupported("`session_thread_id` in `user.interrupt`"))
                }
            },
            "user.tool_confirmation" => {
                let ToolConfirmation { result, tool_use_id, deny_message } =
                    members_of(&kind, members)?;
                let confirmation = match (result, deny_message) {
                    (Answer::Deny, message) => Confirmation::Deny { message },
                    (Answer::Allow, None) => Confirmation::Allow,
                    (Answer::Allow, Some(_)) => {
                        let message = "`deny_message` goes with the result `deny` only";
                        return Err(SentError::Unreadable(message.to_owned()));
                    }
                };
                Ok(Self::ToolConfirmation {
                    call: call("tool_use_id", &tool_use_id)?,
                    confirmation,
                })
            }
            "user.custom_tool_result" => {
                let CustomToolResult { custom_tool_use_id, content, is_error } =
                    members_of(&kind, members)?;
                Ok(Self::CustomToolResult {
                    call: call("custom_tool_use_id", &custom_tool_use_id)?,
                    content: texts(content)?,
                    is_error: is_error.unwrap_or(false),
                })
            }
            "user.define_outcome" | "user.tool_result" | "system.message" => {
                Err(unsupported(&format!("the event `{kind}`")))
            }
            _ => Err(SentError::Unreadable(format!(
                "expected `user.message`, `user.interrupt`, `user.tool_confirmation` or \
                 `user.custom_tool_result` as the event's type, found {kind:?}"
            ))),
        }
    }
}

fn unsupported(what: &str) -> SentError {
    SentError::Unsupported(what.to_owned())
}

fn typed(value: Value, what: &str) -> Result<(String, Map<String, Value>), SentError> {
    let unreadable =
        || SentError::Unreadable(format!("expected {what} as an object with a `type`"));
    let Value::Object(mut members) = value else { return Err(unreadable()) };
    match members.remove("type") {
        Some(Value::String(kind)) => Ok((kind, members)),
        _ => Err(unreadable()),
    }
}

fn members_of<T: DeserializeOwned>(
    kind: &str,
    members: Map<String, Value>,
) -> Result<T, SentError> {
    serde_json::from_value(Value::Object(members))
        .map_err(|error| SentError::Unreadable(format!("`{kind}`: {error}")))
}

/// Reads the id of an event that shows a call: the call's own id, and behind a dot which change of
/// the call's arguments the event shows. An id that is no call's is one that nothing waits for.
fn call(field: &str, id: &str) -> Result<CallId, SentError> {
    let own = id.split('.').next().unwrap_or_default();
    own.parse().map_err(|_| {
        let id: String = id.chars().take(80).collect();
        SentError::Unreadable(format!("`{field}`: no event `{id}` of this session waits for this"))
    })
}

fn texts(content: Vec<Value>) -> Result<Vec<ContentBlock>, SentError> {
    content.into_iter().map(text).collect()
}

fn text(block: Value) -> Result<ContentBlock, SentError> {
    let (kind, members) = typed(block, "a block of content")?;
    match kind.as_str() {
        "text" => {
            let TextBlock { text } = members_of(&kind, members)?;
            Ok(ContentBlock::Text { text })
        }
        _ => Err(unsupported(&format!("content of type `{kind}`"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_events_of_the_api_read() {
        let said = json!({"type": "user.message", "content": [{"type": "text", "text": "hi"}]});
        let text = ContentBlock::Text { text: "hi".to_owned() };
        assert_eq!(SentEvent::read(said), Ok(SentEvent::Message { content: vec![text] }));
        let call = CallId::from_bits(7);
        let denied = json!({
            "type": "user.tool_confirmation", "tool_use_id": call.to_string(), "result": "deny",
            "deny_message": "no",
        });
        let confirmation = Confirmation::Deny { message: Some("no".to_owned()) };
        assert_eq!(SentEvent::read(denied), Ok(SentEvent::ToolConfirmation { call, confirmation }));
        assert_eq!(SentEvent::read(json!({"type": "user.interrupt"})), Ok(SentEvent::Interrupt));
    }

    // A call whose arguments an approver changed is shown again, under an id that ends in a number.
    #[test]
    fn a_call_is_confirmed_and_answered_by_the_id_of_any_event_that_shows_it() {
        let (call, confirmation) = (CallId::from_bits(7), Confirmation::Allow);
        let id = format!("{call}.2");
        let confirmed =
            json!({"type": "user.tool_confirmation", "tool_use_id": id, "result": "allow"});
        assert_eq!(
            SentEvent::read(confirmed),
            Ok(SentEvent::ToolConfirmation { call, confirmation })
        );
        let answered = json!({"type": "user.custom_tool_result", "custom_tool_use_id": id});
        let (content, is_error) = (Vec::new(), false);
        assert_eq!(
            SentEvent::read(answered),
            Ok(SentEvent::CustomToolResult { call, content, is_error })
        );
    }

    #[test]
    fn nothing_that_a_client_says_is_silently_left_out() {
        for (event, word) in [
            (json!({"type": "user.message", "content": [], "x": 1}), "`x`"),
            (json!({"type": "user.message", "content": []}), "at least one"),
            (json!({"type": "user.message", "content": [{"type": "image"}]}), "image"),
            (json!({"type": "user.define_outcome"}), "user.define_outcome"),
            (json!({"type": "agent.message"}), "agent.message"),
            (json!({"content": []}), "`type`"),
            (json!({"type": "user.interrupt", "session_thread_id": "t"}), "session_thread_id"),
        ] {
            let error = SentEvent::read(event.clone()).unwrap_err().to_string();
            assert!(error.contains(word), "{event}: {error}");
        }
    }
}
