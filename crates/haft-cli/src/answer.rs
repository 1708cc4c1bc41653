//! `haft answer`: what a question asks for.

use std::io::IsTerminal as _;

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse};
use crate::command::over_api;
use crate::decide::{asked_again, question};
use crate::prompt::Lines;
use crate::resolving::{Patience, json_argument, resolve};
use crate::terminal::{Paint, now, wait_card};
use crate::trouble::{Code, Trouble};

/// Answers a question that a call asks; at a terminal, without a value, its form is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: String,
    /// The answer, as JSON.
    #[arg(value_name = "JSON", value_parser = json_argument)]
    value: Option<Value>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let wait = api.wait(&args.call).await?;
        let Some(value) = &args.value else { return asked(api, args, &wait).await };
        let said = json!({ "type": "answer", "value": value });
        resolve(api, &args.reach, &wait, said, Patience::None).await
    })
}

/// Asks the person at the terminal, and again for what does not fit.
async fn asked(api: &Api, args: &Args, wait: &Value) -> anyhow::Result<Verdict> {
    if !std::io::stdin().is_terminal() {
        return Err(Trouble::new(Code::BadAnswer, "there is no answer")
            .why("no value was given, and nobody sits at a terminal to be asked")
            .next(format!("give it as JSON that fits {}", wait["answer_schema"]))
            .into());
    }
    eprintln!("{}", wait_card(wait, now(), Paint::stderr()));
    let (mut lines, mut earlier) = (Lines::of_stdin(), None);
    loop {
        let Some(said) = question(&mut lines, wait, earlier.as_ref()).await else {
            return Ok(Verdict::Broken);
        };
        match resolve(api, &args.reach, wait, said.clone(), Patience::None).await {
            Ok(verdict) => return Ok(verdict),
            Err(error) => earlier = asked_again(error.downcast()?, &said, wait)?,
        }
    }
}
