//! The dialects by name, and the six ways through them.

use std::fmt;

use haft_core::json::{self, JsonLimits, Purpose};
use haft_core::tool::Definition;
use haft_core::{CallResult, Outcome, ProviderCallId, RequestedCall};
use serde_json::Value;

use crate::error::{Kind, LiftError, ProjectError};
use crate::extension::{self, Carrier};
use crate::fields::Place;
use crate::shape::{Lifting, ResultContext, Shape};
use crate::{agentix, anthropic, mcp, openai, openboa, steerable, tiny_agents, tool_forge};

/// A shape in which others write tools, calls and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Document 004.
    Agentix,
    /// Anthropic's Messages API.
    Anthropic,
    /// The Model Context Protocol.
    Mcp,
    /// OpenAI's Chat Completions API.
    OpenAiChat,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Document 002, with the results of its sandbox hand.
    OpenboaSandbox,
    /// Document 002, with results as text.
    OpenboaText,
    /// Document 000.
    Steerable,
    /// Document 003.
    TinyAgents,
    /// Document 001.
    ToolForge,
}

/// Whether a projection carries what the dialect itself has no word for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// Adds the extension member, so that nothing is lost: not for readers who must not see a
    /// failure's debug text.
    Include,
    /// Leaves it out, and a failure's debug text with it: for readers who refuse members they do
    /// not know, or must not see what only the log is told.
    Omit,
}

/// Whose body is being lifted, and so whether its extension member is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Somebody else's: the extension member is not read.
    Foreign,
    /// Haft's own projection, kept where nobody untrusted could write it.
    Own,
}

fn without_debug(mut outcome: Outcome) -> Outcome {
    if let CallResult::Err(failure) = &mut outcome.result {
        failure.debug = None;
    }
    outcome
}

/// A call is acted upon; a definition describes, and a result has happened.
fn limits(kind: Kind) -> JsonLimits {
    let purpose = match kind {
        Kind::Call => Purpose::ToActUpon,
        Kind::Definition | Kind::Result => Purpose::ToKeep,
    };
    JsonLimits { purpose, ..JsonLimits::default() }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 10] = [
        Self::Agentix,
        Self::Anthropic,
        Self::Mcp,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::OpenboaSandbox,
        Self::OpenboaText,
        Self::Steerable,
        Self::TinyAgents,
        Self::ToolForge,
    ];

    /// Reads a body from text: strict JSON within the usual limits.
    ///
    /// # Errors
    ///
    /// When the text is too long or too deep, names a key twice, or is not JSON.
    pub fn read(self, kind: Kind, text: &[u8]) -> Result<Value, LiftError> {
        let parsed = json::parse(text, limits(kind));
        parsed.map_err(|error| LiftError::json(self, kind, error))
    }

    /// Writes a definition in this dialect.
    ///
    /// # Errors
    ///
    /// When the dialect requires something that the definition leaves open and that must not be
    /// inferred, or when the schema cannot be derived for a provider.
    pub fn project_definition(
        self,
        definition: &Definition,
        extension: Extension,
    ) -> Result<Value, ProjectError> {
        let mut body = self.shape().project_definition(definition)?;
        if extension == Extension::Include && self.carrier(Kind::Definition) != Carrier::None {
            extension::add_definition(self, definition, &mut body);
        }
        Ok(Value::Object(body))
    }

    /// Reads a definition in this dialect.
    ///
    /// # Errors
    ///
    /// When the body is not a definition of this dialect; the error says where and why.
    pub fn lift_definition(self, body: Value, reading: Reading) -> Result<Definition, LiftError> {
        extension::lift_definition(self, body, reading)
    }

    /// Writes a call in this dialect; every dialect says all of it.
    pub fn project_call(self, call: &RequestedCall) -> Value {
        Value::Object(self.shape().project_call(call))
    }

    /// Reads a call in this dialect.
    ///
    /// # Errors
    ///
    /// When the body is not a call of this dialect; in particular, arguments that are not a JSON
    /// object are refused and never become an empty one.
    pub fn lift_call(self, body: Value) -> Result<RequestedCall, LiftError> {
        self.shape().lift_call(Place::top(self, Kind::Call).fields(body)?)
    }

    /// Writes a result in this dialect, under the id by which the model's provider knows the
    /// call.
    pub fn project_result(
        self,
        outcome: &Outcome,
        provider_id: &ProviderCallId,
        extension: Extension,
    ) -> Value {
        let bare;
        let outcome = match extension {
            Extension::Include => outcome,
            Extension::Omit => {
                bare = without_debug(outcome.clone());
                &bare
            }
        };
        let mut body = self.shape().project_result(outcome, provider_id);
        extension::disown(self, Kind::Result, &mut body);
        if extension == Extension::Include && self.carrier(Kind::Result) != Carrier::None {
            extension::add_result(self, outcome, provider_id, &mut body);
        }
        body
    }

    /// Reads a result in this dialect.
    ///
    /// # Errors
    ///
    /// When the body is not a result of this dialect, or claims to be that of another call.
    pub fn lift_result(
        self,
        body: Value,
        context: &ResultContext,
        reading: Reading,
    ) -> Result<Outcome, LiftError> {
        extension::lift_result(body, &Lifting { dialect: self, context, reading })
    }

    pub(crate) fn shape(self) -> &'static dyn Shape {
        match self {
            Self::Agentix => &agentix::Agentix,
            Self::Anthropic => &anthropic::Anthropic,
            Self::Mcp => &mcp::Mcp,
            Self::OpenAiChat => &openai::Chat,
            Self::OpenAiResponses => &openai::Responses,
            Self::OpenboaSandbox => &openboa::Sandbox,
            Self::OpenboaText => &openboa::Text,
            Self::Steerable => &steerable::Steerable,
            Self::TinyAgents => &tiny_agents::TinyAgents,
            Self::ToolForge => &tool_forge::ToolForge,
        }
    }

    /// Returns where the dialect permits a member of ours.
    pub(crate) fn carrier(self, kind: Kind) -> Carrier {
        match (self, kind) {
            (Self::Anthropic | Self::OpenAiChat | Self::OpenAiResponses, _) => Carrier::None,
            (_, Kind::Call) | (Self::OpenboaText, Kind::Result) => Carrier::None,
            (Self::Mcp, Kind::Definition | Kind::Result) => Carrier::Within("_meta"),
            (Self::Steerable, Kind::Result) => Carrier::Top,
            (Self::Agentix | Self::ToolForge, Kind::Result) => Carrier::Within("meta"),
            (Self::OpenboaSandbox, Kind::Result) => Carrier::Within("usage"),
            (Self::TinyAgents, Kind::Result) => Carrier::Within("provider"),
            (
                Self::Agentix
                | Self::OpenboaSandbox
                | Self::OpenboaText
                | Self::Steerable
                | Self::TinyAgents
                | Self::ToolForge,
                Kind::Definition,
            ) => Carrier::Top,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agentix => "agentix",
            Self::Anthropic => "anthropic",
            Self::Mcp => "mcp",
            Self::OpenAiChat => "openai chat",
            Self::OpenAiResponses => "openai responses",
            Self::OpenboaSandbox => "openboa sandbox",
            Self::OpenboaText => "openboa text",
            Self::Steerable => "steerable",
            Self::TinyAgents => "tinyagents",
            Self::ToolForge => "tool-forge",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, call, definition, lift_own, outcome, provider_id};
    use haft_core::tool::{Gate, Schema};
    use haft_core::{Failure, Output};
    use proptest::prelude::*;
    use serde_json::json;

    /// The dialects with room for an extension member in results.
    const LOSSLESS: [Dialect; 6] = [
        Dialect::Agentix,
        Dialect::Mcp,
        Dialect::OpenboaSandbox,
        Dialect::Steerable,
        Dialect::TinyAgents,
        Dialect::ToolForge,
    ];
    const PROVIDERS: [Dialect; 3] =
        [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::OpenAiResponses];

    /// Writes a body as text and reads it back as strictly as anything else.
    fn through_text(dialect: Dialect, kind: Kind, body: &Value) -> Value {
        dialect.read(kind, body.to_string().as_bytes()).unwrap()
    }

    fn lift_body(dialect: Dialect, body: &Value, reading: Reading) -> Definition {
        let body = through_text(dialect, Kind::Definition, body);
        dialect.lift_definition(body, reading).unwrap()
    }

    proptest! {
        // S0-1: lifting a projected call gives the same call, in every dialect.
        #[test]
        fn every_dialect_says_all_of_a_call(x in call()) {
            for dialect in Dialect::ALL {
                let body = through_text(dialect, Kind::Call, &dialect.project_call(&x));
                prop_assert_eq!(dialect.lift_call(body).unwrap(), x.clone());
            }
        }

        // S2-1, S3-11, S4-11: lifting a projected definition gives the same definition.
        #[test]
        fn a_projected_definition_is_lifted_as_it_was(mut x in definition()) {
            if x.gate == Gate::Unset || x.consequence.is_none() {
                let refused = Dialect::ToolForge.project_definition(&x, Extension::Include);
                prop_assert!(refused.is_err());
            }
            for dialect in LOSSLESS.into_iter().chain([Dialect::OpenboaText]) {
                if dialect == Dialect::ToolForge {
                    x.consequence.get_or_insert(haft_core::tool::Consequence::Low);
                    x.gate = if x.gate == Gate::Unset { Gate::Auto } else { x.gate };
                }
                let body = dialect.project_definition(&x, Extension::Include).unwrap();
                prop_assert_eq!(&lift_body(dialect, &body, Reading::Own), &x, "{}", dialect);
            }
        }

        // S0-15, S1-19, S3-20, S4-34: lifting a projected result gives the same result.
        #[test]
        fn a_projected_result_is_lifted_as_it_was(x in outcome()) {
            for dialect in LOSSLESS {
                let body = dialect.project_result(&x, &provider_id(), Extension::Include);
                prop_assert_eq!(&lift_own(dialect, &body, &x).unwrap(), &x, "{}", dialect);
            }
        }

        // Without the extension the body is still one that the dialect takes, and a stranger who
        // reads it learns nothing about identity that the runtime does not say.
        #[test]
        fn a_bare_projection_is_still_of_its_dialect(x in outcome()) {
            let context = ResultContext::of(&x, provider_id());
            for dialect in Dialect::ALL {
                let body = dialect.project_result(&x, &provider_id(), Extension::Omit);
                let body = through_text(dialect, Kind::Result, &body);
                let lifted = dialect.lift_result(body, &context, Reading::Own).unwrap();
                // Text alone cannot tell a failure from a value that looks like one.
                if LOSSLESS.contains(&dialect) || dialect == Dialect::Anthropic {
                    prop_assert_eq!(lifted.is_ok(), x.is_ok(), "{}", dialect);
                }
                prop_assert_eq!((lifted.call, lifted.provenance), (x.call, x.provenance));
                prop_assert_eq!((lifted.started_at, lifted.attempt), (x.started_at, x.attempt));
            }
        }

        // However much of a body was edited, what it says in the dialect's own words wins.
        #[test]
        fn a_body_wins_over_the_extension_of_another_result(x in outcome(), y in outcome()) {
            let y = Outcome { result: y.result, directives: y.directives, extra: y.extra, ..x.clone() };
            for dialect in LOSSLESS {
                let ours = dialect.project_result(&x, &provider_id(), Extension::Include);
                let edited = dialect.project_result(&y, &provider_id(), Extension::Omit);
                let mut body = edited.clone();
                extension::graft(dialect, Kind::Result, &ours, &mut body);
                let lifted = lift_own(dialect, &body, &x).unwrap();
                // With its debug text, which is what such a body calls its error.
                let mut said = dialect.shape().project_result(&lifted, &provider_id());
                extension::disown(dialect, Kind::Result, &mut said);
                let (said, edited) = (lift_own(dialect, &said, &x), lift_own(dialect, &edited, &x));
                prop_assert_eq!(said.unwrap(), edited.unwrap(), "{}", dialect);
            }
        }

        #[test]
        fn a_body_wins_over_the_extension_of_another_definition(x in definition(), y in definition()) {
            for dialect in LOSSLESS {
                let projected = |x: &Definition, extension| dialect.project_definition(x, extension);
                let (Ok(ours), Ok(edited)) =
                    (projected(&x, Extension::Include), projected(&y, Extension::Omit))
                else {
                    continue;
                };
                let mut body = edited.clone();
                extension::graft(dialect, Kind::Definition, &ours, &mut body);
                let lifted = lift_body(dialect, &body, Reading::Own);
                let said = projected(&lifted, Extension::Omit).unwrap();
                let said = lift_body(dialect, &said, Reading::Foreign);
                prop_assert_eq!(said, lift_body(dialect, &edited, Reading::Foreign), "{}", dialect);
            }
        }

        // Whatever stands in a body, reading it ends in a value or in an error that says where.
        #[test]
        fn a_body_with_garbage_in_it_is_refused_and_nothing_worse(
            (x, d) in (outcome(), definition()),
            (garbage, at) in (testing::json_value(), any::<proptest::sample::Index>()),
        ) {
            let context = ResultContext::of(&x, provider_id());
            for dialect in Dialect::ALL {
                let result = dialect.project_result(&x, &provider_id(), Extension::Include);
                let result = testing::with_garbage(result, at, &garbage);
                let definition = dialect.project_definition(&d, Extension::Include);
                let definition = definition.map(|body| testing::with_garbage(body, at, &garbage));
                for reading in [Reading::Foreign, Reading::Own] {
                    for body in [&garbage, &result] {
                        match dialect.lift_result(body.clone(), &context, reading) {
                            Ok(lifted) => prop_assert_eq!(ResultContext::of(&lifted, provider_id()), context.clone()),
                            Err(error) => prop_assert!(error.to_string().contains("expected")),
                        }
                        let error = dialect.lift_call(body.clone()).err();
                        prop_assert!(error.is_none_or(|error| error.to_string().contains("expected")));
                    }
                    for body in definition.iter().chain([&garbage]) {
                        let lifted = dialect.lift_definition(body.clone(), reading);
                        let error = lifted.err().map(|error| error.to_string());
                        prop_assert!(error.is_none_or(|error| error.contains("expected")));
                    }
                }
            }
        }

        // S3-4, S3-39: what a provider's format must keep of a definition.
        #[test]
        fn a_provider_keeps_name_description_and_schema(x in definition()) {
            for dialect in PROVIDERS {
                let body = dialect.project_definition(&x, Extension::Include).unwrap();
                let lifted = lift_body(dialect, &body, Reading::Foreign);
                prop_assert_eq!(&lifted.description, &x.description);
                prop_assert_eq!(lifted.input_schema.hash(), x.input_schema.hash());
                let again = dialect.project_definition(&lifted, Extension::Include).unwrap();
                prop_assert_eq!(again, body);
            }
        }

        // S3-18: what a provider's format must keep of a result: the text and the call's id.
        #[test]
        fn a_provider_keeps_the_text_and_the_id_of_a_result(x in outcome()) {
            let context = ResultContext::of(&x, provider_id());
            for dialect in PROVIDERS.into_iter().chain([Dialect::OpenboaText]) {
                let body = dialect.project_result(&x, &provider_id(), Extension::Include);
                let read = through_text(dialect, Kind::Result, &body);
                let lifted = dialect.lift_result(read, &context, Reading::Foreign).unwrap();
                let again = dialect.project_result(&lifted, &provider_id(), Extension::Include);
                let silent = matches!(&x.result, CallResult::Err(failure) if failure.message.is_empty());
                if !(silent && dialect == Dialect::Anthropic) {
                    prop_assert_eq!(again, body, "{}", dialect);
                }
            }
        }
    }

    // What stands in the dialect's own members wins over the extension, which keeps the rest.
    #[test]
    fn an_edited_definition_is_believed_over_its_extension() {
        let mut x = testing::definition_named("delete_x");
        x.tags = vec!["kept".into()];
        x.gate = Gate::AskAlways;
        x.input_schema = Schema::new(r#"{ "type":"object" }"#).unwrap();
        let dialect = Dialect::OpenboaSandbox;
        let mut body = dialect.project_definition(&x, Extension::Include).unwrap();
        body["description"] = json!("Edited.");
        body["permissionPolicy"] = json!("always_allow");
        body["inputSchema"] = json!({"type": "object", "title": "edited"});
        let lifted = lift_body(dialect, &body, Reading::Own);
        assert_eq!(lifted.description, "Edited.");
        assert_eq!(lifted.gate, Gate::Auto);
        assert_eq!(lifted.tags, ["kept"]);
        assert_eq!(lifted.input_schema.text(), r#"{"type":"object","title":"edited"}"#);
        assert_eq!(lifted.facets, x.facets);
    }

    #[test]
    fn an_edited_result_is_believed_over_its_extension() {
        let mut x = testing::plain_outcome();
        let debug = Some("t=15".to_owned());
        let slow = Failure { debug, ..Failure::new(haft_core::ErrorClass::Timeout, "slow") };
        x.result = CallResult::Err(slow.clone());
        let mut body = Dialect::Agentix.project_result(&x, &provider_id(), Extension::Include);
        body["error"] = json!("far too slow");
        let edited = lift_own(Dialect::Agentix, &body, &x).unwrap();
        let expected = Failure { message: "far too slow".into(), ..slow };
        assert_eq!(edited.result, CallResult::Err(expected));
        let mut body = Dialect::Agentix.project_result(&x, &provider_id(), Extension::Include);
        let members = body.as_object_mut().unwrap();
        members.remove("error");
        members.extend([("ok".to_owned(), json!(true)), ("result".to_owned(), json!(7))]);
        let turned = lift_own(Dialect::Agentix, &body, &x).unwrap();
        assert_eq!(turned.result, CallResult::Ok(Output::of_value(json!(7))));
    }

    #[test]
    fn our_own_projection_of_another_call_is_refused() {
        let x = testing::plain_outcome();
        let other = Outcome { call: haft_core::CallId::from_bits(2), ..x.clone() };
        for dialect in LOSSLESS {
            let body = dialect.project_result(&x, &provider_id(), Extension::Include);
            let error = lift_own(dialect, &body, &other).unwrap_err().to_string();
            assert!(error.contains("/callId`: expected the result of `call_"), "{error}");
        }
    }

    // What an outsider hid in a provider's metadata does not come back as our extension.
    #[test]
    fn a_member_that_looks_like_ours_is_not_projected() {
        let mut x = testing::plain_outcome();
        let hidden = json!({"_haft": {"callId": x.call}, "haft/canonical": 1, "kept": 1});
        x.provider_meta = Some(hidden.clone());
        for key in ["meta", "_meta", "usage", "provider"] {
            x.extra.insert(key.into(), hidden.clone());
        }
        x.extra.insert("_haft".into(), hidden);
        for dialect in LOSSLESS {
            let body = dialect.project_result(&x, &provider_id(), Extension::Omit);
            let context = ResultContext::of(&x, provider_id());
            assert!(dialect.lift_result(body, &context, Reading::Own).is_ok(), "{dialect}");
            let body = dialect.project_result(&x, &provider_id(), Extension::Include);
            assert_eq!(lift_own(dialect, &body, &x).unwrap(), x, "{dialect}");
        }
    }

    // Strict consumers get no member of ours.
    #[test]
    fn the_extension_is_left_out_on_demand() {
        let mut x = testing::definition_named("get_x");
        x.tags = vec!["t".into()];
        x.gate = Gate::Auto;
        x.consequence = Some(haft_core::tool::Consequence::Low);
        for dialect in Dialect::ALL {
            let bare = dialect.project_definition(&x, Extension::Omit).unwrap().to_string();
            assert!(!bare.contains("haft"), "{bare}");
            let outcome = testing::plain_outcome();
            let bare = dialect.project_result(&outcome, &provider_id(), Extension::Omit);
            assert!(!bare.to_string().contains("haft"), "{bare}");
        }
    }

    // Over-long, too deep, ambiguous or non-JSON text is refused before anything reads it.
    #[test]
    fn text_that_is_not_strict_json_is_refused_in_every_dialect() {
        let long = format!("\"{}\"", "x".repeat(2 << 20));
        let deep = "[".repeat(100_000);
        for dialect in Dialect::ALL {
            for (text, part) in [
                (long.as_str(), "at most 1048576 bytes"),
                (deep.as_str(), "at most 64 levels"),
                (r#"{"a":1,"a":2}"#, "`a` again"),
                (r#"{"a":NaN}"#, "found 'N'"),
                ("", "the end of the text"),
            ] {
                for kind in [Kind::Definition, Kind::Call, Kind::Result] {
                    let error = dialect.read(kind, text.as_bytes()).unwrap_err();
                    assert!(error.to_string().contains(part), "{error}");
                    assert!(error.to_string().starts_with(&format!("{dialect} {kind}")), "{error}");
                }
            }
        }
    }
}
