//! The vaults of a session: whom a mounted server sees when the session calls it.

use std::time::Duration;

use haft_agent::http::Reach;
use haft_mcp::{Mounts, Questions};
use haft_runtime::{HaftBuilder, SealingKey};
use haft_server::{Config, Scope, WebhookSettings, vault_secrets};
use haft_store::{Page, Place, Tenant, Which};
use serde_json::{Value, json};

use crate::house::{House, Visitor, unattended};
use crate::named::Named;
use crate::threads::{BOSS, PATIENCE, Scout, of_kind, until};

/// A model that has a server say whom it sees.
const CALLS: &str = r#"{
    "turns": [{"calls": [{"tool": "named_who", "arguments": {}}]}, {"say": "Done."}],
    "then": "repeat"
}"#;

/// A node that keeps secrets and mounts servers.
async fn house(reach: Reach, more: impl FnOnce(HaftBuilder) -> HaftBuilder) -> House {
    let (key, questions) = (SealingKey::new([7; 32]), Questions::new());
    let (sealing, asked) = (key.clone(), questions.clone());
    House::configured(
        move |builder| more(haft_mcp::install(builder, &asked).sealing_key(sealing)),
        &[("calls", CALLS), ("boss", BOSS)],
        move |haft| {
            let (store, tenant) = (haft.store().clone(), Tenant::new("default").unwrap());
            let secrets = vault_secrets(store.clone(), tenant.clone(), key, reach);
            let mounts = Mounts::new(haft.registry().clone(), store, questions, secrets, tenant);
            let webhooks = WebhookSettings { reach, ..WebhookSettings::default() };
            Config { mounts: Some(mounts), webhooks, ..unattended() }
        },
    )
    .await
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

pub(crate) async fn empty_vault(visitor: &Visitor) -> String {
    text(&visitor.post("/v1/vaults", &json!({"display_name": "x"})).await["id"])
}

/// A house in which the server is mounted, with a token of the node's own.
pub(crate) struct Ground {
    pub(crate) house: House,
    pub(crate) ann: Visitor,
    pub(crate) named: Named,
    agent: String,
    environment: String,
}

impl Ground {
    /// Whether the server did anything for someone beyond letting them in.
    pub(crate) fn was_called_by(&self, name: &str) -> bool {
        self.named.did_for(name).iter().any(|did| did == "tools/call")
    }

    pub(crate) async fn new() -> Self {
        Self::reaching(Reach::Anywhere).await
    }

    /// The same, with token endpoints within a reach only.
    pub(crate) async fn reaching(reach: Reach) -> Self {
        Self::with(house(reach, |builder| builder).await, "scripted/calls", &json!([])).await
    }

    async fn with(house: House, model: &str, tools: &Value) -> Self {
        let (ann, named) = (house.admin().await, Named::start());
        let vault = empty_vault(&ann).await;
        let auth = json!({
            "type": "static_bearer", "mcp_server_url": named.url, "token": "CANARY-node-1",
        });
        let path = format!("/v1/vaults/{vault}/credentials");
        let own = text(&ann.post(&path, &json!({"auth": auth})).await["id"]);
        let headers = json!({"Authorization": format!("Bearer vault://{vault}/{own}")});
        let server = json!({"name": "named", "url": named.url, "headers": headers});
        ann.post("/haft/v1/mcp/servers", &server).await;
        let mut tools = tools.as_array().unwrap().clone();
        tools.push(json!({"type": "mcp_toolset", "mcp_server_name": "it"}));
        let agent = json!({
            "name": "x", "model": model, "tools": tools,
            "mcp_servers": [{"type": "url", "name": "it", "url": named.url}],
        });
        let agent = text(&ann.post("/v1/agents", &agent).await["id"]);
        let environment = ann.post("/v1/environments", &json!({"name": "x"})).await;
        let environment = text(&environment["id"]);
        Self { house, ann, named, agent, environment }
    }

    /// Puts a token for the server into a vault; returns the path of its credential.
    async fn put(&self, vault: &str, token: &str) -> String {
        let url = &self.named.url;
        let auth = json!({"type": "static_bearer", "mcp_server_url": url, "token": token});
        self.put_as(vault, &auth).await
    }

    pub(crate) async fn put_as(&self, vault: &str, auth: &Value) -> String {
        let path = format!("/v1/vaults/{vault}/credentials");
        let made = self.ann.post(&path, &json!({"auth": auth})).await;
        format!("{path}/{}", text(&made["id"]))
    }

    /// Makes a vault with a token for the server.
    pub(crate) async fn vault(&self, token: &str) -> (String, String) {
        let vault = empty_vault(&self.ann).await;
        let credential = self.put(&vault, token).await;
        (vault, credential)
    }

    fn wanted(&self, vaults: &[&str]) -> Value {
        json!({"agent": self.agent, "environment_id": self.environment, "vault_ids": vaults})
    }

    pub(crate) async fn session(&self, vaults: &[&str]) -> String {
        text(&self.ann.post("/v1/sessions", &self.wanted(vaults)).await["id"])
    }

    /// The sealed secret of each version of a credential, the latest first.
    async fn sealed(&self, credential: &str) -> Vec<Option<String>> {
        let (space, id) = credential.trim_start_matches('/').rsplit_once('/').unwrap();
        let place = Place::new(Tenant::new("default").unwrap(), space, id).unwrap();
        let (store, mut sealed) = (self.house.haft.store(), Vec::new());
        for info in store.versions(&place, &Page::first(50)).await.unwrap() {
            let version = store.version(&place, Which::Number(info.number)).await.unwrap();
            let body = version.unwrap().body.unwrap_or_else(|| b"{}".to_vec());
            let members: Value = serde_json::from_slice(&body).unwrap();
            sealed.push(members["sealed"].as_str().map(str::to_owned));
        }
        sealed
    }

    async fn delete(&self, path: &str) {
        assert_eq!(self.ann.ask("DELETE", path, &Value::Null).await.0, 200, "{path}");
    }

    /// Has a session call the server, lets it, and returns what came of it.
    pub(crate) async fn who(&self, session: &str) -> String {
        let path = format!("/v1/sessions/{session}/events");
        let before = of_kind(&self.ann.get(&path).await, "agent.mcp_tool_result").len();
        let said = json!({"type": "user.message", "content": [{"type": "text", "text": "go"}]});
        self.ann.post(&path, &json!({"events": [said]})).await;
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            let events = self.ann.get(&path).await;
            let last = events["data"].as_array().unwrap().last().unwrap();
            let results = of_kind(&events, "agent.mcp_tool_result");
            match (last["stop_reason"]["type"].as_str(), results.get(before)) {
                (Some("requires_action"), None) => {
                    let asked = &last["stop_reason"]["event_ids"][0];
                    let yes = json!({
                        "type": "user.tool_confirmation", "tool_use_id": asked, "result": "allow",
                    });
                    self.ann.post(&path, &json!({"events": [yes]})).await;
                }
                (Some(_), Some(result)) => {
                    assert!(!events.to_string().contains("CANARY"), "{events}");
                    return text(&result["content"][0]["text"]);
                }
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("{}", self.ann.get(&path).await)
    }

    /// Has a session call the server, which must come to nothing, and returns why.
    pub(crate) async fn refused(&self, session: &str) -> String {
        let why = self.who(session).await;
        assert!(why.contains("whoever keeps the vault"), "{why}");
        assert!(!self.was_called_by("node"), "nobody else was in its place");
        why
    }
}

// Issue 6: what a session may name as its vaults.
#[tokio::test(flavor = "multi_thread")]
async fn the_vaults_of_a_session_are_checked_and_shown() {
    let ground = Ground::new().await;
    let (one, two) = (empty_vault(&ground.ann).await, empty_vault(&ground.ann).await);
    let session = ground.session(&[&two, &one]).await;
    let path = format!("/v1/sessions/{session}");
    assert_eq!(ground.ann.get(&path).await["vault_ids"], json!([two, one]));
    let listed = ground.ann.get("/v1/sessions").await;
    assert_eq!(listed["data"][0]["vault_ids"], json!([two, one]));
    let without = ground.session(&[]).await;
    let without = ground.ann.get(&format!("/v1/sessions/{without}")).await;
    assert_eq!(without["vault_ids"], json!([]));
    let refused = async |vaults: &[&str], status| {
        ground.ann.refused("POST", "/v1/sessions", &ground.wanted(vaults), status).await
    };
    assert!(refused(&[&one, "vlt_none"], 404).await.contains("no vault `vlt_none`"));
    let eve = ground.house.visitor("other", "eve", &[Scope::Admin]).await;
    let theirs = empty_vault(&eve).await;
    assert!(refused(&[&theirs], 404).await.contains("no vault"));
    ground.ann.post(&format!("/v1/vaults/{one}/archive"), &json!({})).await;
    assert!(refused(&[&one], 400).await.contains("is archived"));
    let variable = json!({
        "type": "environment_variable", "secret_name": "TOKEN", "secret_value": "x",
        "networking": {"type": "unrestricted"},
    });
    ground.put_as(&two, &variable).await;
    assert!(refused(&[&two], 400).await.contains("environment_variable"));
    let change = json!({"vault_ids": []});
    let unchanged = ground.ann.refused("POST", &path, &change, 400).await;
    assert!(unchanged.contains("vault_ids"), "{unchanged}");
}

// A vault has one credential for a server at a time, and one that was deleted is not to be found.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_has_one_credential_for_a_server() {
    let ground = Ground::new().await;
    let (vault, credential) = ground.vault("CANARY-ann-1").await;
    let path = format!("/v1/vaults/{vault}/credentials");
    let url = format!("{}/", ground.named.url);
    let auth = json!({"type": "static_bearer", "mcp_server_url": url, "token": "CANARY-bob-1"});
    let second = ground.ann.refused("POST", &path, &json!({"auth": auth}), 409).await;
    assert!(second.contains("archive it first"), "{second}");
    ground.delete(&credential).await;
    ground.ann.refused("GET", &credential, &Value::Null, 404).await;
    ground.ann.refused("DELETE", &credential, &Value::Null, 404).await;
    ground.put_as(&vault, &auth).await;
    let listed = ground.ann.get(&format!("{path}?include_archived=true")).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
}

// Issues 6 and 8, D17: a session's own credential is shown to the server, the first of its vaults
// counts, another secret counts from the next call on, and nobody reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_server_sees_whom_a_sessions_vaults_say() {
    let ground = Ground::new().await;
    let (ann, credential) = ground.vault("CANARY-ann-1").await;
    let (other, bob) = (empty_vault(&ground.ann).await, empty_vault(&ground.ann).await);
    let elsewhere = json!({
        "type": "static_bearer", "mcp_server_url": "https://other.example/mcp", "token": "other",
    });
    ground.put_as(&other, &elsewhere).await;
    let oauth = json!({
        "type": "mcp_oauth", "mcp_server_url": ground.named.url, "access_token": "CANARY-bob-1",
        "expires_at": "2999-01-01T00:00:00Z",
    });
    ground.put_as(&bob, &oauth).await;
    let (anns, bobs) = (ground.session(&[&ann, &bob]).await, ground.session(&[&other, &bob]).await);
    assert_eq!(ground.who(&anns).await, "you are ann");
    assert_eq!(ground.who(&bobs).await, "you are bob");
    assert!(!ground.was_called_by("node"));
    let without = ground.session(&[&other]).await;
    assert_eq!(ground.who(&without).await, "you are node");
    let rotated = json!({"auth": {"type": "static_bearer", "token": "CANARY-cat-2"}});
    ground.ann.post(&credential, &rotated).await;
    assert_eq!(ground.who(&anns).await, "you are cat");
    assert_eq!(ground.who(&bobs).await, "you are bob");
}

// Issue 8: what was taken away fails the call, and nothing is used in its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_gone_has_nothing_in_its_place() {
    let ground = Ground::new().await;
    let (second, _) = ground.vault("CANARY-bob-1").await;
    let (first, credential) = ground.vault("CANARY-ann-1").await;
    let both = [first.as_str(), second.as_str()];
    let (used, later) = (ground.session(&both).await, ground.session(&both).await);
    assert_eq!(ground.who(&used).await, "you are ann");
    ground.delete(&credential).await;
    assert!(ground.refused(&used).await.contains("is archived or deleted"));
    assert!(!ground.was_called_by("bob"));
    let since = ground.session(&both).await;
    assert_eq!(ground.who(&since).await, "you are bob", "it never had the other one");
    let again = ground.put(&first, "CANARY-cat-1").await;
    assert_eq!(ground.who(&later).await, "you are cat");

    let archived = ground.session(&[&first]).await;
    ground.ann.post(&format!("{again}/archive"), &json!({})).await;
    assert!(ground.refused(&archived).await.contains("is archived or deleted"));
    let session = ground.session(&[&second]).await;
    let gone = ground.session(&[&second]).await;
    ground.ann.post(&format!("/v1/vaults/{second}/archive"), &json!({})).await;
    assert!(ground.refused(&session).await.contains("is archived;"));
    ground.delete(&format!("/v1/vaults/{second}")).await;
    assert!(ground.refused(&gone).await.contains("was deleted;"));

    let late = empty_vault(&ground.ann).await;
    let expired = json!({
        "type": "mcp_oauth", "mcp_server_url": ground.named.url, "access_token": "CANARY-dan-1",
        "expires_at": "2020-01-01T01:00:00+02:00",
    });
    ground.put_as(&late, &expired).await;
    let session = ground.session(&[&late]).await;
    assert!(ground.refused(&session).await.contains("expired at 2019-12-31T23:00:00.000Z"));
    let path = format!("/v1/vaults/{late}/credentials");
    let never = json!({
        "type": "mcp_oauth", "mcp_server_url": "https://x.example", "access_token": "CANARY-dan-2",
        "expires_at": "tomorrow",
    });
    let (status, told) = ground.ann.ask("POST", &path, &json!({"auth": never})).await;
    assert_eq!(status, 400);
    assert!(told.to_string().contains("auth.expires_at: expected a time like"), "{told}");
}

// A secret that was changed, or that nobody may use any more, is nowhere any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_over_is_in_no_version_and_in_no_file() {
    let ground = Ground::new().await;
    let secret = async |credential: &str| ground.sealed(credential).await[0].clone().unwrap();
    let (vault, credential) = ground.vault("CANARY-ann-1").await;
    let first = secret(&credential).await;
    assert!(ground.house.holds(&first));
    let rotated = json!({"auth": {"type": "static_bearer", "token": "CANARY-cat-2"}});
    ground.ann.post(&credential, &rotated).await;
    ground.ann.post(&credential, &json!({"display_name": "renamed"})).await;
    let second = secret(&credential).await;
    assert_eq!(ground.sealed(&credential).await, [Some(second.clone()), None, None]);
    assert!(!ground.house.holds(&first) && ground.house.holds(&second));
    let session = ground.session(&[&vault]).await;
    assert_eq!(ground.who(&session).await, "you are cat");
    ground.ann.post(&format!("{credential}/archive"), &json!({})).await;
    assert_eq!(ground.sealed(&credential).await, [const { None }; 4]);

    let deleted = ground.put(&vault, "CANARY-dan-1").await;
    let third = secret(&deleted).await;
    ground.delete(&deleted).await;
    assert_eq!(ground.sealed(&deleted).await, [None, None]);
    assert!(!ground.house.holds(&second) && !ground.house.holds(&third));
}

// Nothing of a vault that ended is used any more, so that nothing of it is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_ends_takes_its_secrets_along() {
    let ground = Ground::new().await;
    let (archived, of_archived) = ground.vault("CANARY-ann-1").await;
    let (deleted, of_deleted) = ground.vault("CANARY-bob-1").await;
    let mut secrets = ground.sealed(&of_archived).await;
    secrets.extend(ground.sealed(&of_deleted).await);
    let used = ground.session(&[&deleted]).await;
    ground.ann.post(&format!("/v1/vaults/{archived}/archive"), &json!({})).await;
    ground.delete(&format!("/v1/vaults/{deleted}")).await;
    for credential in [&of_archived, &of_deleted] {
        assert_eq!(ground.sealed(credential).await, [None, None]);
    }
    assert!(secrets.iter().flatten().all(|secret| !ground.house.holds(secret)));
    assert_eq!(secrets.iter().flatten().count(), 2);
    assert!(ground.ann.get(&of_archived).await["archived_at"].is_string());
    ground.ann.refused("GET", &of_deleted, &Value::Null, 404).await;
    assert!(ground.refused(&used).await.contains("was deleted;"));
}

// Whichever of them is first, no secret outlives its vault.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_comes_while_its_vault_ends_leaves_no_secret() {
    let ground = Ground::new().await;
    for round in 0..40 {
        let vault = empty_vault(&ground.ann).await;
        let path = format!("/v1/vaults/{vault}");
        let auth = json!({
            "type": "static_bearer", "mcp_server_url": ground.named.url, "token": "CANARY-ann-1",
        });
        let (credentials, wanted) = (format!("{path}/credentials"), json!({"auth": auth}));
        let (method, ending) = match round % 2 {
            0 => ("POST", format!("{path}/archive")),
            _ => ("DELETE", path.clone()),
        };
        let (_, (ended, _)) = tokio::join!(
            ground.ann.ask("POST", &credentials, &wanted),
            ground.ann.ask(method, &ending, &Value::Null),
        );
        assert_eq!(ended, 200);
        let space = credentials.trim_start_matches('/');
        let tenant = Tenant::new("default").unwrap();
        let keys = ground.house.haft.store().keys(&tenant, space, &Page::first(5)).await.unwrap();
        for (key, _) in keys {
            let sealed = ground.sealed(&format!("{credentials}/{key}")).await;
            assert!(sealed.iter().all(Option::is_none), "round {round}");
        }
    }
}

// S2-41: a sub-agent works for the same people.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_a_sub_agent_has_the_vaults_of_the_session_at_the_top() {
    let scout = Scout { model: "scripted/calls", waits: true };
    let free = json!({"name": "glob", "permission_policy": {"type": "always_allow"}});
    let asks = json!({"permission_policy": {"type": "always_ask"}});
    let toolset = json!([
        {"type": "agent_toolset_20260401", "default_config": asks, "configs": [free]},
    ]);
    let house = house(Reach::Public, |builder| builder.tool(scout)).await;
    let ground = Ground::with(house, "scripted/boss", &toolset).await;
    let (vault, _) = ground.vault("CANARY-ann-1").await;
    let session = ground.session(&[&vault]).await;
    let path = format!("/v1/sessions/{session}");
    let said = json!({"type": "user.message", "content": [{"type": "text", "text": "go"}]});
    ground.ann.post(&format!("{path}/events"), &json!({"events": [said]})).await;
    let threads = format!("{path}/threads");
    let listed = until(&ground.ann, &threads, |found| found["data"][1].is_object()).await;
    let events = format!("{threads}/{}/events", text(&listed["data"][1]["id"]));
    let asks = |found: &Value| !of_kind(found, "session.status_idle").is_empty();
    let below = until(&ground.ann, &events, asks).await;
    let asked = &of_kind(&below, "session.status_idle")[0]["stop_reason"]["event_ids"][0];
    let yes = json!({"type": "user.tool_confirmation", "tool_use_id": asked, "result": "allow"});
    ground.ann.post(&format!("{path}/events"), &json!({"events": [yes]})).await;
    let called = |found: &Value| found.to_string().contains("you are ");
    let below = until(&ground.ann, &events, called).await;
    assert!(below.to_string().contains("you are ann"), "{below}");
    assert!(!ground.was_called_by("node"));
}
