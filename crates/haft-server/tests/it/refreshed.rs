//! Credentials of vaults whose access tokens are got anew: at a real token endpoint, for a real
//! server.

use std::time::Duration;

use haft_http::Reach;
use haft_server::Scope;
use serde_json::{Value, json};

use crate::token_endpoint::TokenEndpoint;
use crate::vaults::{Ground, empty_vault, text};

const OVER: &str = "2020-01-01T00:00:00Z";

/// A server that wants a token, and whoever gives them.
struct Refreshing {
    ground: Ground,
    endpoint: TokenEndpoint,
}

impl Refreshing {
    async fn new() -> Self {
        Self { ground: Ground::new().await, endpoint: TokenEndpoint::start() }
    }

    fn auth(&self, access_token: &str, refresh_token: &str, client: &Value) -> Value {
        json!({
            "type": "mcp_oauth", "mcp_server_url": self.ground.named.url,
            "access_token": access_token, "expires_at": OVER,
            "refresh": {
                "client_id": "me", "refresh_token": refresh_token,
                "token_endpoint": self.endpoint.url, "token_endpoint_auth": client,
                "scope": "read write", "resource": "https://mcp.example",
            },
        })
    }

    /// Puts a credential into a vault of its own; returns the vault and the credential's path.
    async fn put(&self, auth: &Value) -> (String, String) {
        let vault = empty_vault(&self.ground.ann).await;
        let credential = self.ground.put_as(&vault, auth).await;
        (vault, credential)
    }

    async fn session(&self, auth: &Value) -> (String, String) {
        let (vault, credential) = self.put(auth).await;
        (self.ground.session(&[&vault]).await, credential)
    }

    fn refresh_tokens(&self) -> Vec<String> {
        self.endpoint.asked().iter().map(|asked| text(&asked["refresh_token"])).collect()
    }
}

fn nobody() -> Value {
    json!({"type": "none"})
}

// Issues 6 and 8, D17: an access token that is over is not shown to the server; the next one is,
// and none of them to anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn d17_a_token_that_is_over_is_refreshed_and_shown_to_nobody() {
    let it = Refreshing::new().await;
    let secret = |kind: &str| json!({"type": kind, "client_secret": "CANARY-secret"});
    let clients = [nobody(), secret("client_secret_basic"), secret("client_secret_post")];
    for (n, client) in clients.iter().enumerate() {
        let name = ["ann", "cat", "dan"][n];
        let auth = it.auth("CANARY-old-1", &format!("CANARY-refresh-{name}-1"), client);
        let (session, credential) = it.session(&auth).await;
        for _ in 0..2 {
            assert_eq!(it.ground.who(&session).await, format!("you are {name}"));
        }
        let shown = it.ground.ann.get(&credential).await;
        assert!(!shown.to_string().contains("CANARY"), "{shown}");
        let refresh = json!({
            "client_id": "me", "token_endpoint": it.endpoint.url,
            "token_endpoint_auth": {"type": client["type"]},
            "scope": "read write", "resource": "https://mcp.example",
        });
        assert_eq!(shown["auth"]["refresh"], refresh);
        assert!(shown["auth"]["expires_at"].as_str().unwrap() > OVER, "{shown}");
    }
    assert!(it.ground.named.did_for("old").is_empty(), "what is over is sent nowhere");
    let asked = it.endpoint.asked();
    assert_eq!(asked.len(), 3, "each once: {asked:?}");
    for (n, asked) in asked.iter().enumerate() {
        assert_eq!(asked["grant_type"], "refresh_token");
        assert_eq!(
            (&asked["scope"], &asked["resource"]),
            (&json!("read write"), &json!("https://mcp.example"))
        );
        let ways = [
            json!(["me", null, ""]),
            json!([null, null, "me:CANARY-secret"]),
            json!(["me", "CANARY-secret", ""]),
        ];
        assert_eq!(json!([asked["client_id"], asked["client_secret"], asked["basic"]]), ways[n]);
    }
    for file in std::fs::read_dir(it.ground.house.data.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(6).any(|found| found == b"CANARY"), "{}", path.display());
    }
}

// A server that does not take a token that nobody said is over: it is refreshed, and the call made.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_server_does_not_take_is_refreshed() {
    let it = Refreshing::new().await;
    let mut auth = it.auth("revoked", "CANARY-refresh-ann-1", &nobody());
    auth["expires_at"] = Value::Null;
    let (session, _) = it.session(&auth).await;
    assert_eq!(it.ground.who(&session).await, "you are ann");
    assert_eq!(it.ground.who(&session).await, "you are ann");
    assert_eq!(it.refresh_tokens(), ["CANARY-refresh-ann-1"]);
    assert!(!it.ground.was_called_by("node"));
}

// What is given for the next time is used the next time; and of those who need it at once, one asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_is_used_once() {
    let it = Refreshing::new().await;
    let (vault, _) = it.put(&it.auth("CANARY-old-1", "CANARY-refresh-bob-1", &nobody())).await;
    let session = it.ground.session(&[&vault]).await;
    for _ in 0..2 {
        assert_eq!(it.ground.who(&session).await, "you are bob");
    }
    assert_eq!(it.refresh_tokens(), ["CANARY-refresh-bob-1", "CANARY-refresh-bob-2"]);
    let (vault, _) = it.put(&it.auth("CANARY-old-1", "CANARY-refresh-ann-1", &nobody())).await;
    let (one, two) = (it.ground.session(&[&vault]).await, it.ground.session(&[&vault]).await);
    let both = tokio::join!(it.ground.who(&one), it.ground.who(&two));
    assert_eq!(both, ("you are ann".to_owned(), "you are ann".to_owned()));
    assert_eq!(it.refresh_tokens()[2..], ["CANARY-refresh-ann-1"]);
}

// What the keeper of a vault changes while a token is on its way stays, and so does the token: the
// one that was sent for it is used up.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_during_a_refresh_does_not_lose_the_next_refresh_token() {
    let it = Refreshing::new().await;
    let post = |secret: &str| json!({"type": "client_secret_post", "client_secret": secret});
    let auth = it.auth("CANARY-old-1", "CANARY-refresh-bob-1", &post("CANARY-one"));
    let (session, credential) = it.session(&auth).await;
    let changes = [
        json!({"refresh": {"token_endpoint_auth": post("CANARY-two")}}),
        json!({"access_token": "CANARY-cat-1"}),
    ];
    for (n, mut change) in changes.into_iter().enumerate() {
        change["type"] = json!("mcp_oauth");
        let changing = it.endpoint.meanwhile(n + 1, async || {
            it.ground.ann.post(&credential, &json!({"auth": change})).await;
        });
        let (who, ()) = tokio::join!(it.ground.who(&session), changing);
        assert_eq!(who, format!("you are {}", ["bob", "cat"][n]));
    }
    let over = json!({"auth": {"type": "mcp_oauth", "expires_at": OVER}});
    it.ground.ann.post(&credential, &over).await;
    assert_eq!(it.ground.who(&session).await, "you are bob");
    let sent = ["CANARY-refresh-bob-1", "CANARY-refresh-bob-2", "CANARY-refresh-bob-3"];
    assert_eq!(it.refresh_tokens(), sent);
    assert_eq!(it.endpoint.asked()[1]["client_secret"], "CANARY-two");
}

// What was sent may be used up, so what was given for it is worth some patience with the store.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_outlast_a_store_that_has_trouble() {
    let it = Refreshing::new().await;
    let (session, _) = it.session(&it.auth("x", "CANARY-refresh-ann-1", &nobody())).await;
    let run = |sql: &str| {
        let database = it.ground.house.data.path().join("haft.db");
        rusqlite::Connection::open(database).unwrap().execute_batch(sql).unwrap();
    };
    let who = it.ground.who(&session);
    let mut who = std::pin::pin!(who);
    let trouble = it.endpoint.meanwhile(1, async || {
        run("CREATE TRIGGER trouble BEFORE INSERT ON versions
             BEGIN SELECT RAISE(ABORT, 'trouble'); END");
    });
    let early = tokio::select! {
        who = &mut who => Some(who),
        () = async { trouble.await; tokio::time::sleep(Duration::from_secs(2)).await } => None,
    };
    assert_eq!(early, None, "nobody gave up");
    run("DROP TRIGGER trouble");
    assert_eq!(who.await, "you are ann");
    assert_eq!(it.refresh_tokens(), ["CANARY-refresh-ann-1"]);
}

// Who has to act is told, nothing is used in its place, and new tokens mend it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_that_is_refused_says_who_has_to_act() {
    let it = Refreshing::new().await;
    let (vault, credential) = it.put(&it.auth("CANARY-old-1", "spent", &nobody())).await;
    let why = it.ground.refused(&it.ground.session(&[&vault]).await).await;
    assert!(why.contains("refused with `invalid_grant`"), "{why}");
    assert!(why.contains("authorize it anew"), "{why}");
    assert!(!why.contains("spent"), "what the endpoint says is not repeated: {why}");
    let change = json!({"auth": {"type": "mcp_oauth", "refresh": {"refresh_token": "CANARY-refresh-ann-1"}}});
    it.ground.ann.post(&credential, &change).await;
    // Another one: what only an operator can mend ends the run, and the script goes on after it.
    let session = it.ground.session(&[&vault]).await;
    assert_eq!(it.ground.who(&session).await, "you are ann");
    let tokens = json!({"auth": {"type": "mcp_oauth", "access_token": "CANARY-cat-1", "expires_at": "2999-01-01T00:00:00Z"}});
    it.ground.ann.post(&credential, &tokens).await;
    assert_eq!(it.ground.who(&session).await, "you are cat");
}

// What may be changed of how a credential is refreshed, as the API has it.
#[tokio::test(flavor = "multi_thread")]
async fn how_a_credential_is_refreshed_changes_in_its_secrets_and_its_scope() {
    let it = Refreshing::new().await;
    let post = json!({"type": "client_secret_post", "client_secret": "CANARY-one"});
    let (session, credential) = it.session(&it.auth("x", "CANARY-refresh-ann-1", &post)).await;
    let change = |refresh: Value| json!({"auth": {"type": "mcp_oauth", "refresh": refresh}});
    let basic = json!({"type": "client_secret_basic", "client_secret": "CANARY-two"});
    let changed = change(json!({"scope": "", "token_endpoint_auth": basic}));
    let shown = it.ground.ann.post(&credential, &changed).await;
    assert_eq!(shown["auth"]["refresh"]["scope"], Value::Null);
    assert_eq!(
        shown["auth"]["refresh"]["token_endpoint_auth"],
        json!({"type": "client_secret_post"})
    );
    assert_eq!(shown["auth"]["expires_at"], OVER);
    let refused = async |path: &str, refresh: Value| {
        it.ground.ann.refused("POST", path, &change(refresh), 400).await
    };
    let fixed = refused(&credential, json!({"client_id": "you"})).await;
    assert!(fixed.contains("auth.refresh.client_id"), "{fixed}");
    assert_eq!(it.ground.who(&session).await, "you are ann");
    let asked = it.endpoint.asked();
    assert_eq!(
        (&asked[0]["client_secret"], &asked[0]["scope"]),
        (&json!("CANARY-two"), &Value::Null)
    );
    let (_, public) = it.put(&it.auth("x", "CANARY-refresh-cat-1", &nobody())).await;
    let none = refused(&public, json!({"token_endpoint_auth": basic})).await;
    assert!(none.contains("has no secret"), "{none}");
    let plain = json!({
        "type": "mcp_oauth", "mcp_server_url": it.ground.named.url, "access_token": "CANARY-dan-1",
    });
    let (_, plain) = it.put(&plain).await;
    let late = refused(&plain, json!({"refresh_token": "CANARY-refresh-dan-1"})).await;
    assert!(late.contains("created without it"), "{late}");
}

// Whoever may write into a vault leads this server to nobody but the public internet.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_is_on_the_public_internet_unless_the_operator_says_otherwise() {
    let ground = Ground::reaching(Reach::Public).await;
    let it = Refreshing { ground, endpoint: TokenEndpoint::start() };
    let vault = empty_vault(&it.ground.ann).await;
    let path = format!("/v1/vaults/{vault}/credentials");
    let mut auth = it.auth("x", "CANARY-refresh-ann-1", &nobody());
    let plain = it.ground.ann.refused("POST", &path, &json!({"auth": auth}), 400).await;
    assert!(plain.contains("`auth.refresh.token_endpoint`: expected `https://`"), "{plain}");
    auth["refresh"]["token_endpoint"] = json!("https://169.254.169.254/token");
    let inside = it.ground.ann.refused("POST", &path, &json!({"auth": auth}), 400).await;
    assert!(inside.contains("not an address of the public internet"), "{inside}");
    // A name is looked at when it is called.
    auth["refresh"]["token_endpoint"] = json!("https://localhost/token");
    let (session, _) = it.session(&auth).await;
    let why = it.ground.refused(&session).await;
    assert!(why.contains("not an address of the public internet"), "{why}");
    assert!(it.endpoint.asked().is_empty());
}

impl Refreshing {
    async fn validated(&self, auth: &Value) -> Value {
        let (vault, credential) = self.put(auth).await;
        let shown =
            self.ground.ann.post(&format!("{credential}/mcp_oauth_validate"), &json!({})).await;
        assert_eq!(shown["type"], "vault_credential_validation");
        assert_eq!(shown["vault_id"], vault.as_str());
        assert!(credential.ends_with(shown["credential_id"].as_str().unwrap()), "{shown}");
        assert!(shown["validated_at"].as_str().unwrap() > OVER, "{shown}");
        assert!(!shown.to_string().contains("CANARY"), "{shown}");
        shown
    }
}

// Issue 6: a credential is tried at its server, and refreshed there if the server wants another.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_validated_at_its_server() {
    let it = Refreshing::new().await;
    let auth = |token: &str| {
        let url = &it.ground.named.url;
        json!({"type": "mcp_oauth", "mcp_server_url": url, "access_token": token})
    };
    let valid = it.validated(&auth("CANARY-ann-1")).await;
    assert_eq!(valid["status"], "valid", "{valid}");
    assert_eq!((&valid["mcp_probe"], &valid["refresh"]), (&Value::Null, &Value::Null));
    assert_eq!(valid["has_refresh_token"], false);
    assert_eq!(it.ground.named.did_for("ann"), ["initialize", "tools/list"]);

    let invalid = it.validated(&auth("revoked")).await;
    assert_eq!(invalid["status"], "invalid", "{invalid}");
    let said = json!({
        "status_code": 401, "content_type": "application/json", "body": "{}",
        "body_truncated": false,
    });
    assert_eq!(invalid["mcp_probe"], json!({"method": "initialize", "http_response": said}));
    let without = json!({"status": "no_refresh_token", "http_response": null});
    assert_eq!(invalid["refresh"], without);

    let refreshed = it.validated(&it.auth("revoked", "CANARY-refresh-cat-1", &nobody())).await;
    assert_eq!(refreshed["status"], "valid", "{refreshed}");
    assert_eq!(refreshed["has_refresh_token"], true);
    assert_eq!(refreshed["mcp_probe"], Value::Null);
    assert_eq!(refreshed["refresh"], json!({"status": "succeeded", "http_response": null}));

    let failed = it.validated(&it.auth("revoked", "spent-refresh-token", &nobody())).await;
    assert_eq!(
        (&failed["status"], &failed["refresh"]["status"]),
        (&json!("invalid"), &json!("failed"))
    );
    let said = &failed["refresh"]["http_response"];
    assert_eq!(said["status_code"], 400, "{failed}");
    assert_eq!((&said["body"], &said["body_truncated"]), (&json!(""), &json!(true)));
    assert!(!failed.to_string().contains("spent-refresh-token"), "{failed}");
}

// What cannot be reached says nothing about a credential; and what is no such credential, or is
// somebody else's, is not tried.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_tried_is_not_called_invalid() {
    let it = Refreshing::new().await;
    let nowhere = "http://127.0.0.1:9/nobody";
    let mut auth = it.auth("revoked", "CANARY-refresh-ann-1", &nobody());
    auth["refresh"]["token_endpoint"] = json!(nowhere);
    let unknown = it.validated(&auth).await;
    assert_eq!(unknown["status"], "unknown", "{unknown}");
    assert_eq!(unknown["refresh"], json!({"status": "connect_error", "http_response": null}));
    auth["mcp_server_url"] = json!("https://nowhere.invalid/mcp");
    let unknown = it.validated(&auth).await;
    assert_eq!(unknown["status"], "unknown", "{unknown}");
    assert_eq!(unknown["mcp_probe"], json!({"method": "initialize", "http_response": null}));
    assert_eq!(unknown["refresh"], Value::Null);

    let (_, bearer) = it.ground.vault("CANARY-ann-1").await;
    let path = format!("{bearer}/mcp_oauth_validate");
    let other = it.ground.ann.refused("POST", &path, &json!({}), 400).await;
    assert!(other.contains("`mcp_oauth`"), "{other}");
    let eve = it.ground.house.visitor("other", "eve", &[Scope::Admin]).await;
    let reader = it.ground.house.visitor("default", "bob", &[Scope::Read]).await;
    eve.refused("POST", &path, &json!({}), 404).await;
    reader.refused("POST", &path, &json!({}), 403).await;
}

// Nobody has a token tried where only this machine gets to, but at what the operator has mounted.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_tried_at_public_servers_and_at_mounted_ones() {
    for reach in [Reach::Public, Reach::Anywhere] {
        let ground = Ground::reaching(reach).await;
        let it = Refreshing { ground, endpoint: TokenEndpoint::start() };
        let auth = |url: &str| json!({"type": "mcp_oauth", "mcp_server_url": url, "access_token": "CANARY-ann-1"});
        assert_eq!(it.validated(&auth(&it.ground.named.url)).await["status"], "valid");
        let refused = async |url: &str| {
            let (_, inside) = it.put(&auth(url)).await;
            let path = format!("{inside}/mcp_oauth_validate");
            it.ground.ann.refused("POST", &path, &json!({}), 400).await
        };
        let inside = refused("https://127.0.0.1/mcp").await;
        assert!(inside.contains("not an address of the public internet"), "{inside}");
        assert!(inside.contains("can mount the server"), "{inside}");
        assert!(refused(&it.endpoint.url).await.contains("expected `https://`"));
        assert_eq!(it.validated(&auth("https://localhost/mcp")).await["status"], "unknown");
        assert!(it.endpoint.asked().is_empty());
    }
}
