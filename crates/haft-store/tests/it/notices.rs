//! What is told to others, on both stores.

use haft_core::session::{Event, Input};
use haft_core::tool::{Facets, Gate, Mutates};
use haft_core::{Millis, Timestamp};
use haft_store::{
    Attempted, ClaimedDelivery, DeliveryState, Fence, Moment, NextAttempt, NoticeKind, Page, Store,
    Tenant, Webhook,
};

use crate::backing::on_every_store;
use crate::driver::{START, Session, ann, approval, charge, ok, tool};

const HOLD: Millis = Millis::from_secs(10);

fn webhook(id: &str, tenant: &str, kinds: &[NoticeKind]) -> Webhook {
    Webhook {
        id: id.to_owned(),
        tenant: Tenant::new(tenant).unwrap(),
        url: format!("https://example.org/{id}"),
        kinds: kinds.to_vec(),
        sealed: vec![1, 2, 3],
        by: ann(),
        at: START,
    }
}

async fn claim(store: &Store, now: Timestamp) -> Vec<ClaimedDelivery> {
    store.claim_deliveries(Moment::At(now), HOLD, 100).await.unwrap()
}

fn taken(at: Timestamp) -> Attempted {
    Attempted { next: NextAttempt::Delivered, status: Some(200), error: None, at }
}

/// Takes whatever is due until nothing is, and returns it.
async fn take_all(store: &Store, now: Timestamp) -> Vec<ClaimedDelivery> {
    let mut all = Vec::new();
    loop {
        let claimed = claim(store, now).await;
        if claimed.is_empty() {
            return all;
        }
        for delivery in claimed {
            assert!(store.settle_delivery(delivery.claim, &taken(now)).await.unwrap());
            all.push(delivery);
        }
    }
}

// S1-16
#[test]
fn each_kind_is_told_to_those_of_the_tenant_who_want_it() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        for hook in [
            webhook("whk_all", "acme", &NoticeKind::ALL),
            webhook("whk_ended", "acme", &[NoticeKind::SessionEnded]),
            webhook("whk_other", "other", &NoticeKind::ALL),
        ] {
            store.add_webhook(&hook).await.unwrap();
        }
        let mut asked = Session::create(&store, "acme").await;
        let call = asked.propose(&charge()).await;
        asked.input(approval(call, ann())).await.unwrap();
        asked.finish(call, ok("charged")).await;
        let mut doubtful = Session::create(&store, "acme").await;
        let mail = tool("send_mail", |definition| {
            let mutates = Some(Mutates::Irreversible);
            definition.facets = Facets { mutates, ..Facets::default() };
            definition.gate = Gate::Auto;
        });
        doubtful.propose(&mail).await;
        doubtful.input(Input::Revived).await.unwrap();
        let over = Session::create(&store, "acme").await;
        let fence = Fence::Owner { epoch: over.epoch };
        store.append(&over.append_of(fence, vec![Event::SessionEnded {}])).await.unwrap();

        let all = take_all(&store, START).await;
        let told = |hook: &str| {
            let mine = all.iter().filter(|delivery| delivery.webhook == hook);
            let mut kinds: Vec<_> = mine.map(|delivery| delivery.kind).collect();
            kinds.sort_unstable();
            kinds
        };
        let expected = [
            NoticeKind::CallWaitingApproval,
            NoticeKind::CallInDoubt,
            NoticeKind::CallResolved,
            NoticeKind::CallFinished,
            NoticeKind::SessionIdle,
            NoticeKind::SessionEnded,
        ];
        assert_eq!(told("whk_all"), expected);
        assert_eq!(told("whk_ended"), [NoticeKind::SessionEnded]);
        assert_eq!(told("whk_other"), []);
        for delivery in &all {
            let entries = store.entries(delivery.session, delivery.seq - 1, 1).await.unwrap();
            let event = entries[0].event().unwrap();
            let is_it = match delivery.kind {
                NoticeKind::CallWaitingApproval | NoticeKind::CallInDoubt => "call.suspended",
                NoticeKind::SessionIdle => "turn.ended",
                kind => kind.as_str(),
            };
            assert_eq!(event.name(), is_it, "it names the entry that it tells of");
        }
    });
}

#[test]
fn an_attempt_is_one_nodes_and_what_nobody_settles_is_attempted_again() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        store.add_webhook(&webhook("whk_1", "acme", &NoticeKind::ALL)).await.unwrap();
        store.add_webhook(&webhook("whk_2", "acme", &NoticeKind::ALL)).await.unwrap();
        for _ in 0..20 {
            Session::create(&store, "acme").await.propose(&charge()).await;
        }
        let (one, two) = tokio::join!(claim(&store, START), claim(&other, START));
        let mut claimed: Vec<_> =
            one.iter().chain(&two).map(|it| (it.webhook.clone(), it.session, it.seq)).collect();
        assert!(claimed.iter().filter(|it| it.0 == "whk_1").count() >= 4);
        claimed.sort();
        let n = claimed.len();
        claimed.dedup();
        assert_eq!(claimed.len(), n, "no delivery is claimed twice");
        assert_eq!(claim(&store, START).await, [], "who has something under way is left alone");

        // The node dies; when its claims have lapsed they are attempts of whoever comes next.
        let later = START + HOLD;
        let again = claim(&store, later).await;
        assert!(again.iter().any(|it| it.claim.attempt == 2), "{again:?}");
        let first = one.iter().chain(&two).find(|it| it.session == again[0].session).unwrap();
        let late = store.settle_delivery(first.claim, &taken(later)).await.unwrap();
        assert!(!late || first.webhook != again[0].webhook, "a late word counts for nothing");
        for delivery in again {
            assert!(store.settle_delivery(delivery.claim, &taken(later)).await.unwrap());
        }
        assert_eq!(take_all(&store, later).await.len() + n, 40, "each once, none lost");
    });
}

#[test]
fn what_failed_is_due_later_what_is_over_is_forgotten_and_a_deleted_webhook_takes_all_along() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let acme = Tenant::new("acme").unwrap();
        store.add_webhook(&webhook("whk_1", "acme", &NoticeKind::ALL)).await.unwrap();
        Session::create(&store, "acme").await.propose(&charge()).await;
        let claimed = claim(&store, START).await.remove(0);
        let due = START + Millis::from_secs(60);
        let failed = Attempted {
            next: NextAttempt::At(due),
            status: Some(503),
            error: Some("busy".to_owned()),
            at: START,
        };
        assert!(store.settle_delivery(claimed.claim, &failed).await.unwrap());
        assert_eq!(claim(&store, START + HOLD).await, []);
        let listed = store.deliveries(&acme, "whk_1", &Page::first(10)).await.unwrap();
        assert_eq!((listed[0].state, listed[0].attempts), (DeliveryState::Pending, 1));
        assert_eq!((listed[0].status, listed[0].due_at), (Some(503), Some(due)));
        assert_eq!(take_all(&store, due).await.len(), 1);
        assert_eq!(store.forget_deliveries(due).await.unwrap(), 0);
        assert_eq!(store.forget_deliveries(due + HOLD).await.unwrap(), 1);
        let stranger = Tenant::new("other").unwrap();
        assert!(!store.remove_webhook(&stranger, "whk_1").await.unwrap());
        assert_eq!(store.webhooks(&acme).await.unwrap()[0].kinds.len(), NoticeKind::ALL.len());
        Session::create(&store, "acme").await.propose(&charge()).await;
        assert!(store.remove_webhook(&acme, "whk_1").await.unwrap());
        assert_eq!(take_all(&store, due).await, []);
    });
}
