//! Sessions that bring their own credentials for a mounted server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::{CallResult, ErrorClass, Outcome, SessionId, ToolName};
use haft_mcp::{
    Credential, MountConfig, Mounts, OAuth, Peer, Questions, Secrets, Setting, VaultEntry,
};
use haft_runtime::testing::{TestNode, TestPlace, object, user};
use haft_runtime::{Answer, Haft, Response, ToolError};
use haft_store::Tenant;
use serde_json::json;

use crate::named::Named;

/// What a session brings.
#[derive(Debug, Clone)]
enum Brings {
    Version(&'static str, u64),
    WhatIsGone,
}

/// A vault whose entries are tokens, and who brings which.
#[derive(Clone, Default)]
struct Vault {
    tokens: Arc<Mutex<BTreeMap<String, String>>>,
    brought: Arc<Mutex<BTreeMap<SessionId, Brings>>>,
    /// In place of which tokens others were wanted.
    renewed: Arc<Mutex<Vec<String>>>,
}

impl Vault {
    fn put(&self, entry: &str, token: &str) {
        self.tokens.lock().unwrap().insert(entry.to_owned(), token.to_owned());
    }

    fn brings(&self, session: SessionId, brings: Brings) {
        self.brought.lock().unwrap().insert(session, brings);
    }

    fn secrets(&self) -> Secrets {
        let (tokens, brought) = (Arc::clone(&self.tokens), Arc::clone(&self.brought));
        let secrets = Secrets::new(move |entry| {
            let token = tokens.lock().unwrap().get(&entry.entry).cloned();
            Box::pin(std::future::ready(token.ok_or_else(|| format!("{entry} is not there"))))
        });
        let (kept, renewed) = (Arc::clone(&self.tokens), Arc::clone(&self.renewed));
        let secrets = secrets.with_renewal(move |(entry, shown)| {
            let is_there = kept.lock().unwrap().get_mut(&entry.entry).is_some_and(|token| {
                if *token == shown {
                    *token = format!("{shown}1");
                }
                shown.starts_with("CANARY-")
            });
            renewed.lock().unwrap().push(shown);
            Box::pin(std::future::ready(Ok(is_there)))
        });
        secrets.with_credentials(move |(session, _)| {
            let brings = brought.lock().unwrap().get(&session).cloned();
            Box::pin(std::future::ready(match brings {
                None => Ok(None),
                Some(Brings::WhatIsGone) => Err(ToolError::auth("ask whoever keeps the vault")),
                Some(Brings::Version(entry, version)) => {
                    let entry = VaultEntry { vault: "v".to_owned(), entry: entry.to_owned() };
                    Ok(Some(Credential { entry, version }))
                }
            }))
        })
    }
}

struct Host {
    node: TestNode,
    named: Named,
    vault: Vault,
    _mounts: Mounts,
}

impl Host {
    async fn start() -> Self {
        let (named, vault, questions) = (Named::start(), Vault::default(), Questions::new());
        vault.put("node", "CANARY-node-1");
        let node = TestPlace::new().start(haft_mcp::install(Haft::builder(), &questions));
        let (registry, store) = (node.haft().registry().clone(), node.haft().store().clone());
        let tenant = Tenant::new("test").unwrap();
        let mounts = Mounts::new(registry, store, questions, vault.secrets(), tenant);
        let own = Setting::try_from("Bearer vault://v/node".to_owned()).unwrap();
        let headers = BTreeMap::from([("Authorization".to_owned(), own)]);
        let peer = Peer::Http { url: named.url.clone(), headers, oauth: OAuth::default() };
        let config = MountConfig::new(ToolName::new("named").unwrap(), peer);
        mounts.mount(config, &user("ann")).await.unwrap();
        Self { node, named, vault, _mounts: mounts }
    }

    /// Calls a tool, which asks, and says yes.
    async fn call(&self, session: SessionId, tool: &str) -> Outcome {
        let haft = self.node.haft();
        let call = haft.propose(session, tool, object(json!({}))).await.unwrap();
        if let Answer::Waiting(_) = haft.wait(session, call).await.unwrap() {
            let yes = Response::Approve { arguments: None, note: None, grant: None };
            haft.resolve(session, call, user("ann"), yes).await.unwrap();
        }
        match haft.wait(session, call).await.unwrap() {
            Answer::Done(outcome) => *outcome,
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// Has the server let nobody in with a token any more, and answer the first who tries only
    /// after something else has happened.
    async fn revoke(&self, token: &str, something: impl AsyncFnOnce()) {
        let beside = |name: &str| self.named.directory.path().join(name);
        std::fs::write(beside("held"), "").unwrap();
        std::fs::write(beside("revoked"), token).unwrap();
        while !beside("holding").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        something().await;
        std::fs::remove_file(beside("holding")).unwrap();
    }

    async fn who(&self, session: SessionId) -> String {
        match self.call(session, "named_who").await.result {
            CallResult::Ok(output) => output.first_text().unwrap_or_default().to_owned(),
            CallResult::Err(failure) => failure.message,
        }
    }
}

// Issues 6 and 8: each session is let in as who it brings, over a connection of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_let_in_as_who_it_brings() {
    let host = Host::start().await;
    let (ann, bob) = (host.node.session().await, host.node.session().await);
    let nobody = host.node.session().await;
    host.vault.put("ann", "CANARY-ann-1");
    host.vault.put("bob", "CANARY-bob-1");
    host.vault.brings(ann, Brings::Version("ann", 1));
    host.vault.brings(bob, Brings::Version("bob", 1));
    for _ in 0..2 {
        assert_eq!(host.who(ann).await, "you are ann");
        assert_eq!(host.who(nobody).await, "you are node");
        assert_eq!(host.who(bob).await, "you are bob");
    }
    let connected = ["initialize", "tools/list", "tools/call", "tools/call"];
    assert_eq!(host.named.did_for("ann"), connected, "once, and kept");
    assert_eq!(host.named.did_for("bob"), connected);
    assert_eq!(host.named.did_for("node"), connected);
}

// What is late was sent with the token that was renewed already, and the next one is good.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_refusal_does_not_renew_the_token_that_came_after_it() {
    let host = Host::start().await;
    let (one, two) = (host.node.session().await, host.node.session().await);
    host.vault.put("ann", "CANARY-ann-1");
    host.vault.brings(one, Brings::Version("ann", 1));
    host.vault.brings(two, Brings::Version("ann", 1));
    assert_eq!(host.who(one).await, "you are ann");
    let meanwhile = host.revoke("CANARY-ann-1", async || {
        assert_eq!(host.who(two).await, "you are ann");
    });
    let (late, ()) = tokio::join!(host.who(one), meanwhile);
    assert_eq!(late, "you are ann");
    assert_eq!(*host.vault.renewed.lock().unwrap(), ["CANARY-ann-1", "CANARY-ann-1"]);
}

// D17: what a session brings reaches the server and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn d17_what_a_session_brings_is_in_no_result_and_no_event() {
    let host = Host::start().await;
    let session = host.node.session().await;
    host.vault.put("ann", "CANARY-ann-1");
    host.vault.brings(session, Brings::Version("ann", 1));
    let outcome = host.call(session, "named_reveal").await;
    let CallResult::Ok(output) = &outcome.result else { panic!("{outcome:?}") };
    assert_eq!(output.first_text(), Some("you have [redacted]"));
    let entries = host.node.haft().store().entries(session, 0, 1000).await.unwrap();
    assert!(!format!("{entries:?}").contains("CANARY"), "{entries:?}");
}

// Another secret counts from the next call on; one that is gone, or that the server does not take,
// has nothing used in its place.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_brings_is_asked_for_before_each_call() {
    let host = Host::start().await;
    let session = host.node.session().await;
    host.vault.put("one", "CANARY-ann-1");
    host.vault.brings(session, Brings::Version("one", 1));
    assert_eq!(host.who(session).await, "you are ann");
    host.vault.put("one", "CANARY-eve-2");
    host.vault.brings(session, Brings::Version("one", 2));
    assert_eq!(host.who(session).await, "you are eve");

    host.vault.put("one", "revoked");
    host.vault.brings(session, Brings::Version("one", 3));
    for _ in 0..2 {
        let refused = host.who(session).await;
        assert!(refused.contains("does not let vault://v/one in"), "{refused}");
        assert!(refused.contains("whoever keeps the vault"), "{refused}");
    }
    host.vault.brings(session, Brings::WhatIsGone);
    let outcome = host.call(session, "named_who").await;
    let CallResult::Err(failure) = &outcome.result else { panic!("{outcome:?}") };
    assert_eq!(failure.class, ErrorClass::Auth);
    assert_eq!(failure.message, "ask whoever keeps the vault");
    assert_eq!(host.named.did_for("node"), ["initialize", "tools/list"], "nothing went as another");
}

// Issue 8: what a server offers to whom a session brings is held against what was accepted, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_another_one_for_whom_a_session_brings_is_not_called() {
    let host = Host::start().await;
    let (mal, nobody) = (host.node.session().await, host.node.session().await);
    host.vault.put("mal", "CANARY-mal-1");
    host.vault.brings(mal, Brings::Version("mal", 1));
    let refused = host.who(mal).await;
    assert!(
        refused.contains("does not offer `who` as it was accepted to vault://v/mal"),
        "{refused}"
    );
    assert_eq!(host.named.did_for("mal"), ["initialize", "tools/list"]);
    assert_eq!(host.who(nobody).await, "you are node");
}
