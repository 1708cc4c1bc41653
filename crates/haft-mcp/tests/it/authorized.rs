//! Authorizations that end elsewhere than they began: nodes over one store.

use std::collections::BTreeMap;
use std::time::Duration;

use haft_core::{Timestamp, ToolName};
use haft_mcp::{Health, MountConfig, MountError, Mounts, OAuth, Peer, Questions, Secrets};
use haft_runtime::registry::Registry;
use haft_runtime::testing::user;
use haft_runtime::{Clock, SealingKey};
use haft_store::{Expected, Page, Place, Put, Store, Tenant, Which};

use crate::gated::PATIENCE;
use crate::guarded::{Guarded, agreed, opened};

/// Where people come back to, whichever node that is.
const BACK_TO: &str = "http://127.0.0.1:1/mcp/authorized";

fn name() -> ToolName {
    ToolName::new("guarded").unwrap()
}

/// A node of a tenant that has the server mounted.
async fn node(store: &Store, tenant: &str, key: u8, url: &str) -> Mounts {
    mounted(store, tenant, key, url).await.unwrap()
}

async fn mounted(store: &Store, tenant: &str, key: u8, url: &str) -> Result<Mounts, MountError> {
    let secrets = Secrets::none().sealed_with(SealingKey::new([key; 32]));
    let tenant = Tenant::new(tenant).unwrap();
    let mounts = Mounts::new(Registry::new(), store.clone(), Questions::new(), secrets, tenant);
    let (headers, oauth) = (BTreeMap::new(), OAuth::default());
    let peer = Peer::Http { url: url.to_owned(), headers, oauth };
    mounts.mount(MountConfig::new(name(), peer), &user("ann")).await?;
    Ok(mounts)
}

fn health(mounts: &Mounts) -> Health {
    mounts.find(&name()).unwrap().health
}

async fn begun(mounts: &Mounts) -> String {
    agreed(&mounts.authorize(&name(), BACK_TO, &user("ann")).await.unwrap())
}

struct Ground {
    guarded: Guarded,
    store: Store,
    _data: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(data.path()).unwrap();
        Self { guarded: Guarded::start(), store, _data: data }
    }

    async fn node(&self) -> Mounts {
        node(&self.store, "test", 7, &self.guarded.url).await
    }

    /// What is kept of the authorization that waits.
    async fn kept(&self) -> (Place, Vec<u8>) {
        let (tenant, space) = (Tenant::new("test").unwrap(), "mcp-authorizations");
        let keys = self.store.keys(&tenant, space, &Page::first(10)).await.unwrap();
        assert_eq!(keys.len(), 1, "{keys:?}");
        let place = Place::new(tenant, space, &keys[0].0).unwrap();
        let found = self.store.version(&place, Which::Latest).await.unwrap().unwrap();
        (place, found.body.unwrap())
    }
}

// Issue 8: whichever node a person comes back to, one answer counts, and the others notice.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_that_are_answered_at_once_one_takes_it_and_both_are_let_in() {
    let ground = Ground::new();
    let (a, b) = (ground.node().await, ground.node().await);
    assert!(matches!(health(&b), Health::Unauthorized { .. }), "{:?}", health(&b));
    let back = begun(&a).await;
    let (on_a, on_b) = tokio::join!(a.authorized(&back), b.authorized(&back));
    assert!(on_a.is_ok() != on_b.is_ok(), "{on_a:?} {on_b:?}");
    let late = a.authorized(&back).await;
    assert!(matches!(late, Err(MountError::NotBegun)), "{late:?}");
    for node in [&a, &b] {
        let is_in = || {
            let mounted = node.find(&name()).unwrap();
            mounted.health == Health::Up && mounted.report.tools.contains_key("reveal")
        };
        let began = std::time::Instant::now();
        while !is_in() && began.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(is_in(), "{:?}", node.find(&name()));
    }
}

// Whoever asks a node that rests need not wait until it tries again by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_rests_looks_whether_another_was_authorized() {
    let ground = Ground::new();
    let (a, b) = (ground.node().await, ground.node().await);
    let back = begun(&a).await;
    b.authorized(&back).await.unwrap();
    a.look_again(&name()).await.unwrap();
    assert_eq!(health(&a), Health::Up);
}

// D17: what waits cannot be read, and is no other tenant's.
#[tokio::test(flavor = "multi_thread")]
async fn d17_an_authorization_that_waits_is_sealed_and_its_tenants() {
    let ground = Ground::new();
    let a = ground.node().await;
    let back = begun(&a).await;
    let (_, kept) = ground.kept().await;
    let state = back.split("state=").nth(1).unwrap();
    for readable in ["guarded", "haft-here", "verifier", state] {
        let readable = readable.as_bytes();
        assert!(!kept.windows(readable.len()).any(|found| found == readable));
    }
    let other = node(&ground.store, "other", 7, &ground.guarded.url).await;
    let unsealed = node(&ground.store, "test", 8, &ground.guarded.url).await;
    for stranger in [other, unsealed] {
        let refused = stranger.authorized(&back).await;
        assert!(matches!(refused, Err(MountError::NotBegun)), "{refused:?}");
    }
    a.authorized(&back).await.unwrap();
}

// A person who comes back after ten minutes begins again, and what nobody came back from is gone
// when the next one begins.
#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_waits_for_ten_minutes() {
    let ground = Ground::new();
    let a = ground.node().await;
    let back = begun(&a).await;
    let (place, body) = ground.kept().await;
    let long_ago = Timestamp::from_ms(Clock::System.now().ms() - 11 * 60 * 1000);
    let put = Put { place: place.clone(), expected: Expected::Version(1), body: Some(body) };
    ground.store.put_versions(vec![put], &user("ann"), long_ago).await.unwrap();
    let late = a.authorized(&back).await;
    assert!(matches!(late, Err(MountError::NotBegun)), "{late:?}");
    let again = begun(&a).await;
    assert_ne!(ground.kept().await.0, place, "the old one is gone");
    a.authorized(&again).await.unwrap();
}

// What was begun for one address is of no use to what has its name at another.
#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_is_for_the_address_that_was_mounted() {
    let (ground, elsewhere) = (Ground::new(), Guarded::start());
    let a = ground.node().await;
    let back = begun(&a).await;
    let moved = node(&ground.store, "test", 7, &elsewhere.url).await;
    let refused = moved.authorized(&back).await.unwrap_err().to_string();
    assert!(refused.contains("mounted at another address"), "{refused}");
    a.authorized(&back).await.unwrap();
}

// Whoever was asked again may have agreed to more than what is being refreshed.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_that_ends_late_does_not_replace_what_a_person_agreed_to_meanwhile() {
    let ground = Ground::new();
    let a = ground.node().await;
    let peer = ground.guarded.url.trim_end_matches("/mcp");
    let place = Place::new(Tenant::new("test").unwrap(), "mcp-tokens", "guarded").unwrap();
    let latest = async || {
        let found = ground.store.version(&place, Which::Latest).await.unwrap().unwrap();
        assert!(found.body.is_some());
        found.info.number
    };
    let fleeting = "http://127.0.0.1:1/mcp/fleeting";
    let back = agreed(&a.authorize(&name(), fleeting, &user("ann")).await.unwrap());
    let meanwhile = async {
        while opened(&format!("{peer}/refreshing")).contains("\"tries\": 0") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let b = ground.node().await;
        let back = begun(&b).await;
        b.authorized(&back).await.unwrap();
        let number = latest().await;
        opened(&format!("{peer}/release"));
        number
    };
    let (on_a, agreed_to) = tokio::join!(a.authorized(&back), meanwhile);
    on_a.unwrap();
    a.look_again(&name()).await.unwrap();
    assert_eq!(health(&a), Health::Up);
    assert_eq!(latest().await, agreed_to);
}

// A refresh is for what was granted: whoever asks for more is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_asks_for_nothing_but_what_was_granted() {
    let ground = Ground::new();
    let a = ground.node().await;
    let peer = ground.guarded.url.trim_end_matches("/mcp");
    opened(&format!("{peer}/release"));
    let fleeting = "http://127.0.0.1:1/mcp/fleeting";
    let back = agreed(&a.authorize(&name(), fleeting, &user("ann")).await.unwrap());
    a.authorized(&back).await.unwrap();
    a.look_again(&name()).await.unwrap();
    assert_eq!(health(&a), Health::Up);
    let refreshing = opened(&format!("{peer}/refreshing"));
    assert!(refreshing.contains("\"tries\": 1"), "{refreshing}");
}

// D17: a server that stops naming who gave the tokens does not get them in their place.
#[tokio::test(flavor = "multi_thread")]
async fn d17_tokens_are_not_shown_once_the_server_does_not_say_who_gave_them() {
    let ground = Ground::new();
    let a = ground.node().await;
    let back = begun(&a).await;
    a.authorized(&back).await.unwrap();
    opened(&format!("{}/forget", ground.guarded.url.trim_end_matches("/mcp")));
    let told = match mounted(&ground.store, "test", 7, &ground.guarded.url).await {
        Ok(mounts) => format!("{:?}", mounts.find(&name())),
        Err(error) => error.to_string(),
    };
    assert!(told.contains("no longer says who gives its tokens"), "{told}");
}

// D17: of tokens that others took the place of nothing is kept, sealed or not.
#[tokio::test(flavor = "multi_thread")]
async fn d17_tokens_that_were_replaced_are_erased() {
    let ground = Ground::new();
    let a = ground.node().await;
    for _ in 0..2 {
        let back = begun(&a).await;
        a.authorized(&back).await.unwrap();
    }
    let place = Place::new(Tenant::new("test").unwrap(), "mcp-tokens", "guarded").unwrap();
    let versions = ground.store.versions(&place, &Page::first(50)).await.unwrap();
    let kept: Vec<bool> = versions.iter().map(|version| version.digest.is_some()).collect();
    assert!(kept.len() >= 2 && kept[0], "{versions:?}");
    assert!(!kept[1..].contains(&true), "{versions:?}");
}
