//! What is offered in a turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use haft_core::ToolName;
use haft_core::permission::Exposure;
use haft_core::tool::Status;
use haft_runtime::registry::{Advertised, Keep, Registered, Registry, Selection, Selector};
use serde_json::json;

use super::{definition, tool};

fn name(text: &str) -> ToolName {
    text.parse().unwrap()
}

fn registry(names: &[&str]) -> Registry {
    let registry = Registry::new();
    for name in names {
        registry.register(tool(definition(name, &json!({"type": "object"})))).unwrap();
    }
    registry
}

fn offered(advertised: &Advertised) -> Vec<&str> {
    advertised.tools().iter().map(|tool| tool.name().as_str()).collect()
}

// S1-27: only active tools are advertised, and only what the exposure permits.
#[test]
fn s1_27_only_active_and_exposed_tools_are_offered() {
    let registry = registry(&["read_mail", "send_mail", "drop_table"]);
    let mut old = definition("old_mail", &json!({"type": "object"}));
    old.status = Status::Deprecated;
    registry.register(tool(old)).unwrap();
    let all = registry.advertise(&Exposure::default());
    assert_eq!(offered(&all), ["read_mail", "send_mail", "drop_table"]);
    let some = Exposure {
        allow: Some(BTreeSet::from([name("send_mail"), name("drop_table"), name("old_mail")])),
        deny: BTreeSet::from([name("drop_table")]),
    };
    let some = registry.advertise(&some);
    assert_eq!(offered(&some), ["send_mail"]);
    assert_eq!(some.names().iter().map(ToolName::as_str).collect::<Vec<_>>(), ["send_mail"]);
}

// What only stands in for others, such as an undo, is offered where an operator names it.
#[test]
fn an_unlisted_tool_is_offered_only_where_it_is_named() {
    let registry = registry(&["read_mail"]);
    let mut unlisted = definition("restore_mail", &json!({"type": "object"}));
    unlisted.status = Status::Unlisted;
    registry.register(tool(unlisted)).unwrap();
    assert_eq!(offered(&registry.advertise(&Exposure::default())), ["read_mail"]);
    let named = Exposure { allow: Some([name("restore_mail")].into()), ..Exposure::default() };
    assert_eq!(offered(&registry.advertise(&named)), ["restore_mail"]);
}

#[test]
fn an_offer_is_made_once_and_again_after_a_change() {
    let registry = registry(&["read_mail", "send_mail"]);
    let first = registry.advertise(&Exposure::default());
    let second = registry.advertise(&Exposure::default());
    assert!(Arc::ptr_eq(first.tools(), second.tools()), "the offer is remembered");
    for n in 0..100 {
        let deny = BTreeSet::from([name(&format!("x{n}"))]);
        registry.advertise(&Exposure { allow: None, deny });
    }
    registry.register(tool(definition("a_first", &json!({"type": "object"})))).unwrap();
    let third = registry.advertise(&Exposure::default());
    assert_eq!(offered(&third), ["read_mail", "send_mail", "a_first"], "the prefix does not move");
    registry.remove("read_mail").unwrap();
    assert_eq!(offered(&registry.advertise(&Exposure::default())), ["send_mail", "a_first"]);
    assert_eq!(offered(&first), ["read_mail", "send_mail"], "a turn keeps what it was offered");
}

// S3-9, S3-16: a call is looked up among what its turn was offered, and nothing else.
#[test]
fn s3_9_a_tool_that_is_not_offered_is_not_found() {
    let registry = registry(&["read_mail", "send_mail", "drop_table"]);
    let exposure = Exposure { allow: None, deny: BTreeSet::from([name("drop_table")]) };
    let offered = registry.advertise(&exposure);
    assert_eq!(offered.find("send_mail").unwrap().name().as_str(), "send_mail");
    for (wanted, said) in [
        ("sendmail", "did you mean `send_mail`?"),
        ("READ_MAIL", "did you mean `read_mail`?"),
        ("drop_table", "there is no tool \"drop_table\" in this turn"),
        ("drop_tables", "there is no tool \"drop_tables\" in this turn"),
        ("", "there is no tool \"\" in this turn"),
        ("a\nb", "\"a\\nb\""),
    ] {
        let refusal = offered.find(wanted).unwrap_err().to_string();
        assert!(refusal.contains(said), "{refusal}");
        assert!(!refusal.contains("`drop_table`"), "what is hidden is not suggested: {refusal}");
    }
    let long = offered.find(&"x".repeat(100_000)).unwrap_err().to_string();
    assert!(long.len() < 300, "{long}");
}

/// Keeps the tools whose name starts with a word that was said, and asks for one it may not have.
struct ByVerb;

impl Selector for ByVerb {
    fn name(&self) -> &str {
        "by-verb"
    }

    fn select(&self, said: &str, offered: &[Arc<Registered>]) -> Selection {
        let fitting = |tool: &&Arc<Registered>| tool.name().as_str().starts_with(said);
        let mut names: BTreeSet<_> =
            offered.iter().filter(fitting).map(|tool| tool.name().clone()).collect();
        names.insert(name("drop_table"));
        Selection { keep: Keep::Only(names), reason: format!("`{said}` was said") }
    }
}

// S3-25: a selector narrows, never widens, and what it did can be read.
#[test]
fn s3_25_a_selector_narrows_and_leaves_a_record() {
    let registry = registry(&["read_mail", "send_mail", "drop_table"]);
    let exposure = Exposure { allow: None, deny: BTreeSet::from([name("drop_table")]) };
    let all = registry.advertise(&exposure);
    let (some, narrowing) = all.selected(&ByVerb, "read");
    assert_eq!(offered(&some), ["read_mail"]);
    let narrowing = narrowing.unwrap();
    assert_eq!((narrowing.by.as_str(), narrowing.remaining), ("by-verb", 1));
    assert_eq!(narrowing.left_out, [name("send_mail")]);
    assert_eq!(narrowing.reason, "`read` was said");
    assert!(some.find("send_mail").is_err());
    let (same, nothing) = some.selected(&ByVerb, "read");
    assert!(nothing.is_none() && Arc::ptr_eq(same.tools(), some.tools()));
}

// S1-12: tools can be filtered by tag.
#[test]
fn s1_12_an_offer_can_be_narrowed_by_tag() {
    let registry = registry(&["send_mail"]);
    let mut tagged = definition("get_risk", &json!({"type": "object"}));
    tagged.tags = vec!["portfolio".into()];
    registry.register(tool(tagged)).unwrap();
    let all = registry.advertise(&Exposure::default());
    let risk = all.narrowed(|tool| tool.spec().tags.iter().any(|tag| tag == "portfolio"));
    assert_eq!(offered(&risk), ["get_risk"]);
}

#[test]
fn tools_are_found_by_words_and_added_after_those_that_are_offered() {
    let registry = registry(&["read_mail", "send_mail"]);
    for n in 0..2000 {
        let filler = definition(&format!("x{n}_op"), &json!({"type": "object"}));
        registry.register(tool(filler)).unwrap();
    }
    let mut weather = definition("get_forecast", &json!({"type": "object"}));
    weather.description = "Predicts rain and sun for a city. Use when asked about weather.".into();
    registry.register(tool(weather)).unwrap();
    let mut hidden = definition("weather_admin", &json!({"type": "object"}));
    hidden.description = "Changes the weather.".into();
    registry.register(tool(hidden)).unwrap();
    let exposure = Exposure { allow: None, deny: BTreeSet::from([name("weather_admin")]) };
    let found = registry.search("what is the WEATHER in Oslo?", &exposure, 5);
    assert_eq!(found.first().unwrap().name().as_str(), "get_forecast");
    assert!(found.iter().all(|tool| tool.name().as_str() != "weather_admin"));
    assert!(registry.search("", &exposure, 5).is_empty());
    assert_eq!(registry.search("mails", &exposure, 9).len(), 2, "plurals do not matter");

    let core =
        registry.advertise(&exposure).narrowed(|tool| tool.name().as_str().ends_with("mail"));
    let admin = registry.get("weather_admin").unwrap();
    let more = core.extended(&[Arc::clone(&found[0]), admin, Arc::clone(&found[0])], &exposure);
    assert_eq!(offered(&more), ["read_mail", "send_mail", "get_forecast"]);
    registry.remove("get_forecast").unwrap();
    let found = registry.search("weather", &exposure, 5);
    assert!(found.iter().all(|tool| tool.name().as_str() != "get_forecast"));
}
