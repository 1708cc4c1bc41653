//! A session of a scripted agent, and somebody who reads along and says yes.

use std::error::Error;
use std::time::Duration;

use haft_core::session::{Config, Event, Goal, GoalSet, Input, SuspensionKind, TurnEnding};
use haft_core::{Actor, ActorId, CallResult, ContentBlock, SessionId};
use haft_runtime::{Haft, Response};
use haft_store::Tenant;

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// How often the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Says one thing after another to a new session, each when the agent is done with the one before.
pub(crate) async fn play(
    haft: &Haft,
    config: Config,
    goal: Option<Goal>,
    messages: &[&str],
) -> Result<(), Failed> {
    let user = Actor::user(ActorId::new("you")?);
    let session = haft.open(Tenant::new("examples")?, config, user.clone()).await?;
    if let Some(goal) = goal {
        let by = user.clone();
        haft.driver().input(session, Input::GoalSet(GoalSet { goal, by })).await?;
    }
    let mut seen = 0;
    for message in messages {
        println!("you: {message}");
        let content = vec![ContentBlock::Text { text: (*message).to_owned() }];
        haft.say(session, user.clone(), content).await?;
        seen = follow_run(haft, session, &user, seen).await?;
    }
    Ok(())
}

/// Follows a session from a place in its log until its run is over, and returns that place.
async fn follow_run(
    haft: &Haft,
    session: SessionId,
    user: &Actor,
    mut seen: u64,
) -> Result<u64, Failed> {
    loop {
        for entry in haft.store().entries(session, seen, 256).await? {
            seen = entry.seq;
            if follow(haft, session, user, entry.event()?).await? == Following::Over {
                return Ok(seen);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[derive(PartialEq)]
enum Following {
    On,
    Over,
}

async fn follow(
    haft: &Haft,
    session: SessionId,
    user: &Actor,
    event: Event,
) -> Result<Following, Failed> {
    match event {
        Event::TurnAnswered { content, .. } => {
            for said in content.iter().filter_map(ContentBlock::as_text) {
                println!("agent: {said}");
            }
        }
        Event::CallSuspended { call, kind: SuspensionKind::Approval, preview, .. } => {
            let diff = preview.and_then(|preview| preview.diff).unwrap_or_default();
            println!("  you are asked, and say yes:");
            diff.lines().for_each(|line| println!("    {line}"));
            let yes = Response::Approve { arguments: None, note: None, grant: None };
            haft.resolve(session, call, user.clone(), yes).await?;
        }
        Event::CallFinished { outcome } => match &outcome.result {
            CallResult::Ok(_) => println!("  {}: done", outcome.tool),
            CallResult::Err(failure) => println!("  {}: {}", outcome.tool, failure.message),
        },
        Event::CallRejected { name, rejection, .. } => println!("  {name}: {}", rejection.message),
        Event::TurnEnded { ending: TurnEnding::Completed, .. } => return Ok(Following::Over),
        Event::TurnEnded { ending: TurnEnding::Failed { failure }, .. } => {
            return Err(failure.message.into());
        }
        _ => {}
    }
    Ok(Following::On)
}
