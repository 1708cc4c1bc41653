//! A node on which several sessions of several agents work.

use haft_core::session::{
    Agent, Awaits, ChildOpened, Config, Delegation, Driver, Event, Goal, GoalSet, Hears, Input,
    Learning, LearningKind, Parent, State, decide,
};
use haft_core::{CallId, Digest, MessageId, SessionId, Timestamp};
use haft_runtime::testing::{TestNode, object, user};
use haft_runtime::{Answer, Response, fresh_bits};
use haft_store::{Append, Fence, FollowedBy, NewSession, Tenant};
use haft_tools::{Classifier, Libraries, Library};
use serde_json::{Value, json};

use crate::place::{Place, result};

pub(crate) struct Agency {
    pub(crate) place: Place,
    pub(crate) node: TestNode,
}

fn config(agent: &str) -> Config {
    let agent = Some(Agent {
        id: agent.to_owned(),
        version: 1,
        model: "scripted".to_owned(),
        instructions: Some("Be brief.".to_owned()),
        environment: None,
    });
    Config { driver: Driver::Caller, agent, ..Config::default() }
}

impl Agency {
    pub(crate) fn new() -> Self {
        Self::at(Place::new())
    }

    pub(crate) fn at(place: Place) -> Self {
        let skills = place.outside().join("skills");
        let libraries = Libraries::new(move |_| Library { skills: vec![skills.clone()] });
        let builder = place.builder(Classifier::Known).service(libraries);
        let node = place.store().start(builder);
        Self { place, node }
    }

    pub(crate) async fn session(&self, agent: &str) -> SessionId {
        self.node.session_with(config(agent)).await
    }

    /// A session that another one opened.
    pub(crate) async fn child(&self, agent: &str, of: SessionId) -> SessionId {
        let fresh = || fresh_bits(Timestamp::from_ms(2_000_000)).unwrap();
        let (child, call) = (SessionId::from_bits(fresh()), CallId::from_bits(fresh()));
        let (message, task) = (MessageId::from_bits(fresh()), Vec::new());
        let config = config(agent);
        let events = match decide(
            &State::Unopened,
            Timestamp::from_ms(2_000_000),
            Input::ChildOpened(ChildOpened {
                delegation: std::sync::Arc::new(Delegation {
                    child,
                    message,
                    config: Config { driver: Driver::Model, ..config },
                    task,
                    goal: None,
                    awaits: Awaits::Word,
                }),
                by: user("owner"),
                parent: Parent { session: of, call, root: of, depth: 1, hears: Hears::All },
            }),
        ) {
            // Only the opening: nobody is to answer the task here.
            Ok(decision) => decision.events.into_iter().take(1).collect(),
            Err(refusal) => panic!("{refusal}"),
        };
        let (tenant, at) = (Tenant::new("test").unwrap(), Timestamp::from_ms(2_000_000));
        let new = NewSession { session: child, tenant, at, events, owner: None, request: None };
        self.node.haft().store().create_session(&new).await.unwrap();
        child
    }

    /// A person says what a session is to achieve.
    pub(crate) async fn aim(&self, session: SessionId, title: &str, criteria: &[&str]) {
        let goal = Goal::new(title, None, criteria).unwrap();
        let set = Input::GoalSet(GoalSet { goal, by: user("ann") });
        self.node.haft().driver().input(session, set).await.unwrap();
    }

    /// A session writes something down that it learned, as the loop does for its model.
    pub(crate) async fn learns(&self, session: SessionId, title: &str, at: i64) {
        let store = self.node.haft().store();
        let learning = Learning {
            kind: LearningKind::Lesson,
            title: title.to_owned(),
            detail: "because".to_owned(),
            promote: false,
            dedupe_key: None,
        };
        let loaded = store.load(session).await.unwrap().unwrap();
        let append = Append {
            session,
            fence: Fence::Anyone,
            expected: loaded.head,
            at: Timestamp::from_ms(at),
            events: vec![Event::LearningCaptured { learning }],
            snapshot: None,
            followed_by: FollowedBy::Anyone,
            request: None,
        };
        store.append(&append).await.unwrap();
    }

    /// Makes a call that must not wait for anyone.
    pub(crate) async fn call(
        &self,
        session: SessionId,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        match self.node.haft().call(session, tool, object(arguments)).await {
            Ok(Answer::Done(outcome)) => result(&outcome),
            Ok(other) => panic!("{tool} waits: {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) async fn propose(&self, session: SessionId, tool: &str, arguments: Value) -> CallId {
        self.node.haft().propose(session, tool, object(arguments)).await.unwrap()
    }

    /// Makes a call that must be asked about, and agrees.
    pub(crate) async fn agreed(
        &self,
        session: SessionId,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        let call = self.propose(session, tool, arguments).await;
        match self.node.haft().wait(session, call).await {
            Ok(Answer::Waiting(_)) => {}
            Ok(other) => panic!("{tool} did not ask: {other:?}"),
            Err(error) => return Err(error.to_string()),
        }
        let yes = Response::Approve { arguments: None, note: None, grant: None };
        self.node.haft().resolve(session, call, user("approver"), yes).await.unwrap();
        match self.node.haft().wait(session, call).await {
            Ok(Answer::Done(outcome)) => result(&outcome),
            // What was agreed to is not what it would do any more.
            Ok(Answer::Waiting(waiting)) => Err(format!("asked again: {:?}", waiting.reason)),
            other => panic!("expected an end, found {other:?}"),
        }
    }

    /// Runs a shell text that someone agrees to.
    pub(crate) async fn shell(&self, session: SessionId, command: &str) -> Value {
        self.agreed(session, "shell_run", json!({ "command": command })).await.unwrap()
    }

    pub(crate) fn shared(&self, path: &str) -> std::path::PathBuf {
        self.place.host().parent().unwrap().join("agent").join(path)
    }
}

/// A hash that no content has.
pub(crate) fn no_hash() -> String {
    Digest::ZERO.to_string()
}
