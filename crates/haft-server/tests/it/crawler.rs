//! Every path with another tenant's and another person's ids: never content, and the same answer as
//! for an id that nobody has.
//!
//! A path that this does not know fails the test: whoever adds one says whose the things are that
//! it names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use haft_core::{ArtifactId, ArtifactRef};
use haft_runtime::{Clock, SealingKey};
use haft_server::Scope;
use haft_store::{NewArtifact, Tenant};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::house::{House, Visitor, asking_agent, unattended};

/// Whose the things are that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Nobody's: the path names nothing that somebody made.
    Nobodys,
    /// Their owner's, and the tenant's admins'. Approvers see sessions.
    Owners,
    /// Everyone's in the tenant.
    Tenants,
}

use Whose::{Nobodys, Owners, Tenants};

const PATHS: &[(&str, Whose)] = &[
    ("/v1/agents", Nobodys),
    ("/v1/agents/{agent}", Tenants),
    ("/v1/agents/{agent}/archive", Tenants),
    ("/v1/agents/{agent}/versions", Tenants),
    ("/v1/environments", Nobodys),
    ("/v1/environments/{environment}", Tenants),
    ("/v1/environments/{environment}/archive", Tenants),
    ("/v1/sessions", Owners),
    ("/v1/sessions/{session}", Owners),
    ("/v1/sessions/{session}/archive", Owners),
    ("/v1/sessions/{session}/events", Owners),
    ("/v1/sessions/{session}/events/stream", Owners),
    ("/v1/sessions/{session}/resources", Owners),
    ("/v1/sessions/{session}/resources/{resource}", Owners),
    ("/v1/sessions/{session}/threads", Owners),
    ("/v1/sessions/{session}/threads/{thread}", Owners),
    ("/v1/sessions/{session}/threads/{thread}/archive", Owners),
    ("/v1/sessions/{session}/threads/{thread}/events", Owners),
    ("/v1/sessions/{session}/threads/{thread}/stream", Owners),
    ("/v1/files", Owners),
    ("/v1/files/{file}", Owners),
    ("/v1/files/{file}/content", Owners),
    ("/v1/memory_stores", Nobodys),
    ("/v1/memory_stores/{store}", Tenants),
    ("/v1/memory_stores/{store}/archive", Tenants),
    ("/v1/memory_stores/{store}/memories", Tenants),
    ("/v1/memory_stores/{store}/memories/{memory}", Tenants),
    ("/v1/memory_stores/{store}/memory_versions", Tenants),
    ("/v1/memory_stores/{store}/memory_versions/{version}", Tenants),
    ("/v1/memory_stores/{store}/memory_versions/{version}/redact", Tenants),
    ("/v1/vaults", Owners),
    ("/v1/vaults/{vault}", Owners),
    ("/v1/vaults/{vault}/archive", Owners),
    ("/v1/vaults/{vault}/credentials", Owners),
    ("/v1/vaults/{vault}/credentials/{credential}", Owners),
    ("/v1/vaults/{vault}/credentials/{credential}/archive", Owners),
    ("/v1/vaults/{vault}/credentials/{credential}/mcp_oauth_validate", Owners),
    ("/v1/skills", Nobodys),
    ("/v1/skills/{skill}", Tenants),
    ("/v1/skills/{skill}/versions", Tenants),
    ("/v1/skills/{skill}/versions/{version}", Tenants),
    ("/v1/skills/{skill}/versions/{version}/content", Tenants),
    ("/haft/v1/me", Nobodys),
    ("/haft/v1/login", Nobodys),
    ("/haft/v1/keys", Nobodys),
    ("/haft/v1/keys/{key}", Tenants),
    ("/haft/v1/agents", Nobodys),
    ("/haft/v1/pending", Owners),
    ("/haft/v1/calls", Owners),
    ("/haft/v1/pending/stream", Nobodys),
    ("/haft/v1/sessions", Owners),
    ("/haft/v1/sessions/{session}", Owners),
    ("/haft/v1/sessions/{session}/export", Owners),
    ("/haft/v1/sessions/{session}/stream", Owners),
    ("/haft/v1/sessions/{session}/events", Owners),
    ("/haft/v1/sessions/{session}/events/stream", Owners),
    ("/haft/v1/sessions/{session}/spans", Owners),
    ("/haft/v1/sessions/{session}/messages", Owners),
    ("/haft/v1/sessions/{session}/interrupt", Owners),
    ("/haft/v1/sessions/{session}/grants", Owners),
    ("/haft/v1/sessions/{session}/grants/preview", Owners),
    ("/haft/v1/sessions/{session}/grants/{grant}", Owners),
    ("/haft/v1/sessions/{session}/calls/{call}", Owners),
    ("/haft/v1/sessions/{session}/calls/{call}/cancel", Owners),
    ("/haft/v1/sessions/{session}/calls/{call}/resolve", Owners),
    ("/haft/v1/sessions/{session}/calls/{call}/undo", Owners),
    ("/haft/v1/grants", Nobodys),
    ("/haft/v1/grants/preview", Nobodys),
    ("/haft/v1/grants/{grant}", Tenants),
    ("/haft/v1/mcp/servers", Nobodys),
    ("/haft/v1/mcp/servers/{server}", Tenants),
    ("/haft/v1/mcp/servers/{server}/accept", Tenants),
    ("/haft/v1/mcp/servers/{server}/authorize", Tenants),
    ("/haft/v1/mcp/servers/{server}/refresh", Tenants),
    ("/haft/v1/tools", Nobodys),
    ("/haft/v1/tools/{tool}/call", Nobodys),
    ("/haft/v1/tools/{tool}/preview", Nobodys),
    ("/haft/v1/rules", Nobodys),
    ("/haft/v1/rules/check", Nobodys),
    ("/haft/v1/wakes", Owners),
    ("/haft/v1/wakes/{session}", Owners),
    ("/haft/v1/wakes/{session}/{wake}", Owners),
    ("/haft/v1/versions/{kind}/{id}", Owners),
    ("/haft/v1/audit", Owners),
    ("/haft/v1/backup", Nobodys),
    ("/haft/v1/erasures", Nobodys),
    ("/haft/v1/webhooks", Nobodys),
    ("/haft/v1/webhooks/{webhook}", Tenants),
    ("/haft/v1/webhooks/{webhook}/deliveries", Tenants),
    ("/haft/v1/workers/register", Nobodys),
    ("/haft/v1/workers/poll", Nobodys),
    ("/haft/v1/workers/beat", Nobodys),
    ("/haft/v1/workers/done", Nobodys),
    ("/haft/v1/workers/keep", Nobodys),
    ("/haft/v1/artifacts/{artifact}", Owners),
];

/// The paths that no document describes. `/chat` and `/ag-ui` name an agent of the tenant and a
/// thread that follows from who calls, so that nobody can name another person's.
const UNDESCRIBED: &[(&str, Whose)] = &[
    ("/ag-ui/{agent}", Tenants),
    ("/chat/{agent}", Tenants),
    ("/chat/{agent}/{chat}/stream", Tenants),
    ("/steerable/{session}/stream", Owners),
];

/// Paths outside the API: of the console, of probes, and of MCP, whose sessions have a test of their
/// own.
const OTHERS: &[&str] =
    &["/", "/healthz", "/metrics", "/openapi.json", "/readyz", "/console/{*path}"];

#[tokio::test(flavor = "multi_thread")]
async fn every_path_is_known_to_the_crawler() {
    let house = House::start().await;
    let document = house.stranger().get("/openapi.json").await;
    let described: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = PATHS.iter().map(|(path, _)| *path).collect();
    assert_eq!(known, described, "say in `PATHS` whose the things are that a path names");
    let sources = [
        include_str!("../../src/routes/fronts/mod.rs"),
        include_str!("../../src/routes/mod.rs"),
        include_str!("../../src/routes/mcp.rs"),
        include_str!("../../src/console.rs"),
    ];
    let undescribed = UNDESCRIBED.iter().map(|(path, _)| *path).chain(OTHERS.iter().copied());
    let undescribed: BTreeSet<&str> = undescribed.collect();
    for source in sources {
        for rest in source.split(".route(").skip(1) {
            let Some(path) = rest.trim_start().strip_prefix('"') else { continue };
            let path = path.split('"').next().unwrap();
            assert!(undescribed.contains(path), "the crawler does not know `{path}`");
        }
    }
}

/// What ann made, by the names that paths have for it.
async fn made(house: &House, ann: &Visitor) -> BTreeMap<&'static str, String> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    let mut agent = asking_agent();
    agent["name"] = json!("CANARY-agent");
    let agent = text(&ann.post("/v1/agents", &agent).await["id"]);
    let environment = json!({"name": "CANARY-environment", "config": {"type": "cloud"}});
    let environment = text(&ann.post("/v1/environments", &environment).await["id"]);
    let vault = text(&ann.post("/v1/vaults", &json!({"display_name": "CANARY-vault"})).await["id"]);
    let auth = json!({"type": "static_bearer", "mcp_server_url": "https://a.example/CANARY",
                      "token": "CANARY-token"});
    let at = format!("/v1/vaults/{vault}/credentials");
    let credential = text(&ann.post(&at, &json!({"auth": auth})).await["id"]);
    let store = json!({"name": "CANARY-store"});
    let store = text(&ann.post("/v1/memory_stores", &store).await["id"]);
    let memory = json!({"path": "/a", "content": "CANARY-memory"});
    let memory = ann.post(&format!("/v1/memory_stores/{store}/memories"), &memory).await;
    let file = crate::gate::uploaded(ann).await;
    let session = json!({"agent": "agent_demo", "environment_id": "env_demo",
        "title": "CANARY-session", "vault_ids": [vault],
        "resources": [{"type": "file", "file_id": file}]});
    let opened = ann.post("/v1/sessions", &session).await;
    let session = text(&opened["id"]);
    let (call_session, call) = ann.call("refund").await;
    let wish = json!({"after_ms": 3_600_000, "reason": "CANARY-wake"});
    let wake = ann.post(&format!("/haft/v1/wakes/{session}"), &wish).await;
    let artifact = ArtifactId::from_bits(11);
    let (media_type, title) = ("text/plain".to_owned(), Some("CANARY-artifact".to_owned()));
    let new = NewArtifact {
        reference: ArtifactRef { id: artifact, media_type, bytes: 6, title },
        tenant: Tenant::new("default").unwrap(),
        session: Some(session.parse().unwrap()),
        at: Clock::System.now(),
    };
    house.haft.store().put_artifact(&new, b"CANARY".to_vec()).await.unwrap();
    BTreeMap::from([
        ("agent", agent),
        ("environment", environment),
        ("vault", vault.clone()),
        ("credential", credential),
        ("store", store),
        ("memory", text(&memory["id"])),
        ("version", text(&memory["memory_version_id"])),
        ("file", file),
        ("resource", text(&opened["resources"][0]["id"])),
        ("thread", session.replace("sesn_", "sthr_")),
        ("session", session),
        ("call_session", call_session),
        ("call", call),
        ("wake", text(&wake["wake"])),
        ("artifact", artifact.to_string()),
        ("kind", "vaults".to_owned()),
        ("id", vault),
        ("chat", "chat-1".to_owned()),
        ("grant", "grant_00000000000000000000000001".to_owned()),
        ("key", "key_0000000000000000".to_owned()),
        ("server", "files".to_owned()),
        ("skill", "skill_00000000000000000000000001".to_owned()),
        ("tool", "refund".to_owned()),
        ("webhook", "whk_00000000000000000000000001".to_owned()),
    ])
}

/// Puts ids into a path.
fn filled(path: &str, ids: &BTreeMap<&str, String>) -> String {
    let mut filled = path.to_owned();
    let is_of_call = path.contains("{call}");
    for (name, id) in ids {
        let id = match *name {
            "session" if is_of_call => &ids["call_session"],
            _ => id,
        };
        filled = filled.replace(&format!("{{{name}}}"), id);
    }
    filled
}

/// The same ids, of nothing that there is.
fn unknown(ids: &BTreeMap<&'static str, String>) -> BTreeMap<&'static str, String> {
    let kept = ["chat", "kind", "tool"];
    let other = |id: &String| {
        let digits = id.rfind('_').map_or(0, |at| at + 1);
        format!("{}{}", &id[..digits], "0".repeat(id.len() - digits))
    };
    ids.iter()
        .map(|(name, id)| (*name, if kept.contains(name) { id.clone() } else { other(id) }))
        .collect()
}

/// A body that is right for a path, so that nothing but the ids is wrong.
fn body(path: &str) -> Value {
    let auth = json!({"type": "static_bearer", "mcp_server_url": "https://b.example/mcp",
                      "token": "x"});
    match path.rsplit('/').next().unwrap() {
        "messages" => json!({"text": "hi"}),
        "events" => json!({"events": [{"type": "user.interrupt"}]}),
        "resources" => json!({"type": "file", "file_id": "file_x"}),
        "memories" => json!({"path": "/b", "content": "x"}),
        "{memory}" => json!({"content": "x"}),
        "credentials" => json!({"auth": auth}),
        "resolve" => json!({"type": "deny"}),
        "grants" | "preview" if path.contains("{session}") => json!({"tool": "refund"}),
        "accept" => json!({"tool": "x", "digest": format!("sha256:{}", "0".repeat(64))}),
        "authorize" => json!({"origin": "http://localhost"}),
        "{session}" if path.contains("wakes") => json!({"after_ms": 60_000, "reason": "x"}),
        "{agent}" if path.starts_with("/v1") => json!({"version": 1, "name": "x"}),
        "{agent}" => json!({"messages": [], "threadId": "t", "runId": "r"}),
        _ => json!({}),
    }
}

/// What someone is answered, without what differs between two requests for the same.
async fn answered(who: &Visitor, method: &str, path: &str, body: &Value) -> (u16, String) {
    let body = match method {
        "POST" => body.to_string(),
        _ => String::new(),
    };
    let mut connection = who.opened("", method, path, &body).await;
    let mut answer = Vec::new();
    let read = connection.read_to_end(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(60), read).await;
    assert!(read.is_ok(), "{method} {path} is answered with a stream that goes on");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// The words of a refusal, without the ids in it.
fn words(answer: &str, ids: &BTreeMap<&str, String>) -> String {
    let body: Value = serde_json::from_str(answer).unwrap_or_default();
    let mut message = body["error"]["message"].as_str().unwrap_or(answer).to_owned();
    let mut ids: Vec<&str> = ids.values().map(String::as_str).collect();
    ids.sort_by_key(|id| std::cmp::Reverse(id.len()));
    for id in ids {
        message = message.replace(id, "ID");
    }
    format!("{} {message}", body["error"]["type"])
}

// X16: no path leads to what is somebody else's, and none tells whether it is there.
#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_to_what_is_somebody_elses() {
    let sealing =
        |builder: haft_runtime::HaftBuilder| builder.sealing_key(SealingKey::new([7; 32]));
    let house = House::configured(sealing, &[], |_| unattended()).await;
    let all = [Scope::Read, Scope::Write];
    let ann = house.visitor("default", "ann", &all).await;
    let ids = made(&house, &ann).await;
    let nothing = unknown(&ids);
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    let environment = json!({"name": "x", "config": {"type": "cloud"}});
    eve.post("/v1/environments", &environment).await;
    let bob = house.visitor("default", "bob", &all).await;
    let document = house.stranger().get("/openapi.json").await;
    let mut wrong = Vec::new();
    for (path, whose) in PATHS.iter().chain(UNDESCRIBED) {
        let methods: Vec<String> = match document["paths"][path].as_object() {
            Some(methods) => methods.keys().map(|method| method.to_uppercase()).collect(),
            None if path.ends_with("stream") => vec!["GET".to_owned()],
            None => vec!["POST".to_owned()],
        };
        // A stream of one's own goes on, and what is not named cannot be somebody else's.
        if *path == "/haft/v1/pending/stream" || *path == "/haft/v1/backup" {
            continue;
        }
        for method in methods {
            for (who, name) in [(&eve, "another tenant"), (&bob, "another person")] {
                if name == "another person" && *whose != Owners {
                    continue;
                }
                let (body, at) = (body(path), filled(path, &ids));
                let (status, answer) = answered(who, &method, &at, &body).await;
                if answer.contains("CANARY") {
                    wrong.push(format!("{name}: {method} {at}: {status} shows {answer}"));
                }
                let names_something = at != *path && *whose != Nobodys;
                if !names_something {
                    continue;
                }
                let (expected, otherwise) =
                    answered(who, &method, &filled(path, &nothing), &body).await;
                let (found, known) = (words(&answer, &ids), words(&otherwise, &nothing));
                // What a key may not do at all it may not do to anything; 204 says that there is
                // nothing to go on with.
                let is_form = method == "POST" && path.starts_with("/v1/skills");
                let is_refused =
                    matches!(status, 204 | 403 | 404 | 405) || (is_form && status == 400);
                if !is_refused || (status, &found) != (expected, &known) {
                    let said = format!("{status} {found}, and of nothing {expected} {known}");
                    wrong.push(format!("{name}: {method} {at}: {said}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What is theirs is there for whoever it belongs to.
    for path in ["/v1/vaults/{vault}", "/v1/sessions/{session}", "/v1/files/{file}"] {
        ann.get(&filled(path, &ids)).await;
    }
}
