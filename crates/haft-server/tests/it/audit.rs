//! The journal of a session: whole, page by page, and found out when it was changed.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::House;

#[tokio::test]
async fn a_journal_is_shown_with_its_hashes_and_said_to_be_whole() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, _) = ann.call("refund").await;
    let audit = ann.get(&format!("/haft/v1/audit?session={session}")).await;
    let entries = audit["data"].as_array().unwrap();
    let last = entries.last().unwrap();
    assert_eq!(audit["chain"]["state"], "whole");
    assert_eq!(audit["chain"]["entries"], json!(entries.len()));
    assert_eq!(audit["chain"]["head"], last["hash"]);
    assert_eq!(entries[0]["event"]["type"], "session.opened");
    assert!(entries.iter().any(|entry| entry["event"]["type"] == "call.suspended"));
    assert_eq!(audit["next"], Value::Null);
}

#[tokio::test]
async fn a_journal_is_read_page_by_page_without_gap() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, _) = ann.call("refund").await;
    let whole = ann.get(&format!("/haft/v1/audit?session={session}")).await;
    let (mut read, mut after) = (Vec::new(), Some(0));
    while let Some(place) = after {
        let path = format!("/haft/v1/audit?session={session}&limit=2&after={place}");
        let page = ann.get(&path).await;
        read.extend(page["data"].as_array().unwrap().clone());
        after = page["next"].as_u64();
    }
    assert_eq!(json!(read), whole["data"]);
}

#[tokio::test]
async fn an_entry_that_was_changed_is_found() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, _) = ann.call("refund").await;
    let before = ann.get(&format!("/haft/v1/audit?session={session}")).await;
    let database = rusqlite::Connection::open(house.data.path().join("haft.db")).unwrap();
    let forged = "UPDATE events SET body = replace(body, 'declared to ask', 'declared to nod')";
    assert!(database.execute(forged, ()).unwrap() > 0);
    let audit = ann.get(&format!("/haft/v1/audit?session={session}")).await;
    assert_eq!(audit["chain"]["state"], "broken", "{audit}");
    let changed = |(old, new): &(&Value, &Value)| old != new;
    let pairs = before["data"].as_array().unwrap().iter().zip(audit["data"].as_array().unwrap());
    let forged: Vec<_> = pairs.filter(changed).map(|(old, _)| &old["seq"]).collect();
    let message = audit["chain"]["message"].as_str().unwrap();
    assert!(message.contains(&forged[0].to_string()), "{message}: {forged:?}");
}

#[tokio::test]
async fn a_journal_is_for_those_who_may_see_its_session() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, _) = ann.call("refund").await;
    let path = format!("/haft/v1/audit?session={session}");
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    eve.refused("GET", &path, &Value::Null, 404).await;
    let bob = house.visitor("default", "bob", &[Scope::Read]).await;
    bob.refused("GET", &path, &Value::Null, 404).await;
    let approver = house.visitor("default", "cat", &[Scope::Read, Scope::Approve]).await;
    approver.get(&path).await;
    let which = ann.refused("GET", "/haft/v1/audit", &Value::Null, 400).await;
    assert!(which.starts_with("`session`: expected"), "{which}");
    ann.refused("GET", &format!("{path}&after=x"), &Value::Null, 400).await;
}
