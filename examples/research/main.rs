//! A research agent. A person says what is to be found out and by what that is told; the agent
//! reads sources, and may share a note only once a source has shown it; a later session of the
//! agent, in another process, remembers.
//!
//! The model is a script, so this runs without a key; everything that it calls is real.
//!
//! `cargo run -q -p haft-tools --example research`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "../shared/play.rs"]
mod play;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_agent::{Script, ScriptedModel};
use haft_core::session::{Agent, Config, Goal};
use haft_runtime::{Haft, SealingKey};
use haft_sandbox::launcher::{self, Launcher};
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_store::Store;
use haft_tools::{Hands, HandsSettings, Workspace};
use play::Failed;

/// Sessions of one agent share notes; those of another see nothing of them.
fn researcher() -> Config {
    let agent = Agent {
        id: "researcher".to_owned(),
        version: 1,
        model: "scripted".to_owned(),
        instructions: None,
        environment: None,
    };
    Config { agent: Some(agent), ..Config::default() }
}

/// Where the sources are, and, read-only, what all sessions of the agent share.
fn workspace(place: &Path) -> Result<Workspace, String> {
    let at = |path: &str| VirtualPath::parse(path, &VirtualPath::top());
    let (home, shared) = (at("/workspace"), at("/workspace/agent"));
    let (home, shared) = home.and_then(|home| Ok((home, shared?))).map_err(|e| e.to_string())?;
    let roots = [
        Root { at: home.clone(), host: place.join("work"), access: Access::ReadWrite },
        Root { at: shared, host: place.join("agent"), access: Access::ReadOnly },
    ];
    Ok(Workspace::new(Mounts::open(roots).map_err(|error| error.to_string())?, home))
}

fn start(place: &Path, script: &str) -> Result<Haft, Failed> {
    let there: PathBuf = place.to_owned();
    let settings = HandsSettings::new(Launcher::this_program());
    let hands = Hands::new(settings, move |_| workspace(&there));
    let builder = Haft::builder()
        .sealing_key(SealingKey::new([0; 32])) // a real one is made once and kept
        .model(ScriptedModel::new(Script::from_toml(script)?));
    let store = Store::open_sqlite(&place.join("data"))?;
    Ok(haft_tools::install(builder, hands).start(store)?)
}

/// What one process does: it serves a session of the agent, and stops.
fn process(place: &Path, script: &str, goal: Option<Goal>, said: &[&str]) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let haft = start(place, script)?;
        play::play(&haft, researcher(), goal, said).await?;
        haft.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

fn main() -> Result<(), Failed> {
    // A sandbox starts this program again as its launcher; nothing may happen before that.
    launcher::main_if_asked();
    let place = tempfile::tempdir()?;
    let place = place.path();
    fs::create_dir_all(place.join("work/sources"))?;
    fs::create_dir(place.join("agent"))?;
    let source = "The harbour bridge was opened to traffic in 1932 after eight years of work.\n";
    fs::write(place.join("work/sources/harbour.txt"), source)?;

    // A person's goal, and what a result must show before it counts as reached.
    let goal = Goal::new("When was it opened?", None, ["opened to traffic in 1932"])?;
    let said = ["When was the harbour bridge opened?", "Then keep that for later, please."];
    process(place, include_str!("find.toml"), Some(goal), &said)?;

    println!("\nanother day, another process");
    let said = ["Remind me: when was the bridge opened?"];
    process(place, include_str!("recall.toml"), None, &said)
}
