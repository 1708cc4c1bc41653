//! `haft policy explain`.

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse, rows};
use crate::command::over_api;
use crate::resolving::decision;
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
            false => {
                let tool = told["tool"].as_str().unwrap_or_default();
                super::tell(tool, &became(&told), &told["derivation"]);
            }
        }
        Ok(Verdict::Holds)
    })
}

/// What became of a call, by its permissions and by whoever decided.
fn became(told: &Value) -> String {
    let is_over = told["stage"] == "settled";
    match told["derivation"]["decision"].as_str().unwrap_or_default() {
        "allow" if is_over => "was allowed to run".to_owned(),
        "allow" => "is allowed to run".to_owned(),
        "ask" => {
            let decided = &told["decided"];
            let by = match (decided["by"]["kind"].as_str(), decided["by"]["id"].as_str()) {
                (Some("system"), _) | (_, None) => String::new(),
                (_, Some(id)) => format!(" by {id}"),
            };
            match decided["decision"].as_str() {
                Some(word) => format!("waited for a person: {}{by}", decision(word)),
                None if is_over => "waited for a person, and nobody decided".to_owned(),
                None => "waits for a person".to_owned(),
            }
        }
        _ => "was refused".to_owned(),
    }
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
            let id = event["call"].as_str().unwrap_or_default();
            let known = api.get(&format!("/haft/v1/sessions/{session}/calls/{id}")).await?;
            return Ok(json!({
                "call": id, "tool": event["contract"]["tool"], "derivation": event["derivation"],
                "stage": known["stage"], "decided": known["decided"],
            }));
        }
        after = last;
    }
}
