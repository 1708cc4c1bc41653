//! An agent that fixes a failing test in a checkout. It works in a sandbox in which the checkout
//! is all there is, and every edit is shown as a diff and waits for a yes.
//!
//! The model is a script, so this runs without a key; everything that it calls is real.
//!
//! `cargo run -q -p haft-tools --example code-fixer`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "../shared/play.rs"]
mod play;

use std::fs;
use std::path::Path;
use std::time::Duration;

use haft_agent::{Script, ScriptedModel};
use haft_core::permission::{Source, Verdict};
use haft_core::session::Config;
use haft_runtime::{Haft, Opinion, Policy, SealingKey, ToolFuture, Wish};
use haft_sandbox::launcher::{self, Launcher};
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_store::Store;
use haft_tools::{Hands, HandsSettings, Workspace};
use play::Failed;

const CODE: &str = "total=0\nfor n in $(seq 1 $(($1 - 1))); do\n  total=$((total + n))\ndone\n\
                    echo \"$total\"\n";
const TEST: &str = "found=$(bash sum.sh 3)\nif [ \"$found\" = 6 ]; then\n  echo 'all tests \
                    pass'\nelse\n  echo \"expected 6, found $found\"\nfi\n";

// [readme]
/// A person sees every edit before it is made.
struct EditsAsk;

impl Policy for EditsAsk {
    fn source(&self) -> Source {
        Source::Rule("edits are reviewed".to_owned())
    }

    fn judge<'a>(&'a self, wish: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        let reason = "a person reviews what is changed".to_owned();
        let asks = Opinion { verdict: Verdict::Ask, reason };
        Box::pin(async move { Ok((wish.spec.name.as_str() == "edit").then_some(asks)) })
    }
}

/// The checkout is the only directory that the agent's tools see.
fn workspace(checkout: &Path) -> Result<Workspace, String> {
    let at = VirtualPath::parse("/workspace", &VirtualPath::top());
    let at = at.map_err(|error| error.to_string())?;
    let root = Root { at: at.clone(), host: checkout.to_owned(), access: Access::ReadWrite };
    Ok(Workspace::new(Mounts::open([root]).map_err(|error| error.to_string())?, at))
}
// [/readme]

async fn fix(place: &Path) -> Result<(), Failed> {
    let checkout = place.join("checkout");
    fs::create_dir(&checkout)?;
    fs::write(checkout.join("sum.sh"), CODE)?;
    fs::write(checkout.join("test.sh"), TEST)?;
    let settings = HandsSettings::new(Launcher::this_program());
    let there = checkout.clone();
    let hands = Hands::new(settings, move |_| workspace(&there));
    let builder = Haft::builder()
        .sealing_key(SealingKey::new([0; 32])) // a real one is made once and kept
        .model(ScriptedModel::new(Script::from_toml(include_str!("script.toml"))?))
        .policy(EditsAsk);
    let store = Store::open_sqlite(&place.join("data"))?;
    let haft = haft_tools::install(builder, hands).start(store)?;
    play::play(&haft, Config::default(), None, &["The test fails. Please fix it."]).await?;
    haft.shutdown(Duration::from_secs(5)).await;
    print!("{}", fs::read_to_string(checkout.join("sum.sh"))?);
    Ok(())
}

fn main() -> Result<(), Failed> {
    // A sandbox starts this program again as its launcher; nothing may happen before that.
    launcher::main_if_asked();
    let place = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(fix(place.path()))
}
