//! `haft policy explain`.

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse, rows};
use crate::command::over_api;
use crate::terminal::say_json;
use crate::trouble::{Code, Trouble};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: String,
    /// The session that it belongs to, where that is known.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let (session, call) = match &args.session {
            Some(session) => (api.session(session).await?, args.call.clone()),
            None => {
                let call = api.call(&args.call).await?;
                let text = |member: &str| call[member].as_str().unwrap_or_default().to_owned();
                (text("session"), text("call"))
            }
        };
        let told = recorded(api, &session, &call).await?;
        match args.reach.wants_json() {
            true => say_json(&told)?,
            false => super::tell(told["tool"].as_str().unwrap_or_default(), &told["derivation"]),
        }
        Ok(Verdict::Holds)
    })
}

/// Finds a call in a session's log.
async fn recorded(api: &Api, session: &str, call: &str) -> Result<Value, Trouble> {
    let mut after = 0;
    loop {
        let page =
            rows(api.get(&format!("/haft/v1/sessions/{session}/events?after={after}")).await?);
        let Some(last) = page.last().and_then(|entry| entry["seq"].as_u64()) else {
            return Err(Trouble::new(
                Code::NoCall,
                format!("no call of {session} begins with `{call}`"),
            )
            .next(format!("`haft sessions events {session}` lists what happened in it")));
        };
        let found = page.iter().map(|entry| &entry["event"]).find(|event| {
            let id = event["call"].as_str().unwrap_or_default();
            event["type"] == "call.proposed"
                && (id.starts_with(call) || id.starts_with(&format!("call_{call}")))
        });
        if let Some(event) = found {
            let tool = &event["contract"]["tool"];
            return Ok(
                json!({ "call": event["call"], "tool": tool, "derivation": event["derivation"] }),
            );
        }
        after = last;
    }
}
