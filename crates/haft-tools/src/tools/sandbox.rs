//! `sandbox_describe`, and what `sandbox_execute` does itself: `stat` and `mkdir`.

use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::Parents;
use haft_sandbox::layers::LayerReport;
use haft_sandbox::mounts::Access;
use haft_sandbox::policy::Network;
use haft_sandbox::process::Sandbox;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Action;
use super::answer::{apart, done, plain, refused, taken};
use super::command::policy_words;
use super::search::word;
use crate::catalogue;
use crate::hands::{Hand, Hands};

#[derive(Debug, Deserialize)]
struct Wanted {
    name: String,
    #[serde(default)]
    input: Input,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: Option<String>,
    recursive: Option<bool>,
}

pub(super) async fn execute(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let missing = || ToolError::invalid("the action needs `input.path`");
    let path = wanted.input.path.ok_or_else(missing)?;
    let recursive = wanted.input.recursive.unwrap_or(true);
    match Action::named(&wanted.name) {
        Some(Action::Stat) => apart(move || stat(&hand, &path)).await,
        Some(Action::Mkdir) => apart(move || mkdir(&hand, &path, recursive)).await,
        _ => Err(ToolError::internal("this action is run as the tool that it stands for")),
    }
}

fn stat(hand: &Hand, path: &str) -> Result<Returned, ToolError> {
    let path = hand.path(path).map_err(refused(Action::Stat))?;
    let stat = hand.files().stat(&path).map_err(refused(Action::Stat))?;
    let output = json!({
        "path": path.to_string(),
        "mountPath": hand.mount_of(&path),
        "kind": word(stat.kind),
        "size": stat.size,
        "mode": format!("{:o}", stat.mode),
        "links": stat.links,
        "modifiedMs": i64::try_from(stat.modified_ns / 1_000_000).unwrap_or_default(),
    });
    Ok(done(Action::Stat, format!("{path}: {}, {} bytes", word(stat.kind), stat.size), output))
}

fn mkdir(hand: &Hand, path: &str, recursive: bool) -> Result<Returned, ToolError> {
    let path = hand.path(path).map_err(refused(Action::Mkdir))?;
    let parents = if recursive { Parents::Create } else { Parents::MustExist };
    hand.files().mkdir(&path, parents).map_err(refused(Action::Mkdir))?;
    let output = json!({ "path": path.to_string(), "mountPath": hand.mount_of(&path) });
    Ok(done(Action::Mkdir, format!("made {path}"), output))
}

pub(super) async fn describe(context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    apart(move || {
        // What holds is what a sandbox that is really built says, not what was asked for.
        let built = Sandbox::open(&hand.settings().launcher, &hand.policy());
        let (layers, trouble) = match &built {
            Ok(sandbox) => (sandbox.describe().iter().map(layer).collect(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let summary = match &trouble {
            None => {
                "Commands run in namespaces of their own, behind Landlock and seccomp.".to_owned()
            }
            Some(trouble) => format!("No command runs here: {trouble}"),
        };
        let resources = resources(&hand);
        Ok(plain(json!({
            "kind": "linux_namespaces",
            "summary": summary,
            "provisionedResourceCount": resources.len(),
            "resources": resources,
            "layers": layers,
            "constraints": constraints(&hand),
            "actions": Action::ALL.map(described),
            "commandPolicy": policy_words(),
            "actionExamples": [
                { "name": "stat", "input": { "path": hand.workspace().home.to_string() } },
                { "name": "list_dir", "input": { "path": hand.workspace().home.to_string() } },
            ],
        })))
    })
    .await
}

fn layer(report: &LayerReport) -> Value {
    json!({ "layer": format!("{:?}", report.layer), "standing": format!("{:?}", report.standing) })
}

fn resources(hand: &Hand) -> Vec<Value> {
    let roots = hand.workspace().mounts.roots();
    let shown = roots.map(|root| {
        let access = match root.access {
            Access::ReadOnly => "read_only",
            Access::ReadWrite => "read_write",
        };
        json!({ "mountPath": root.at.to_string(), "access": access })
    });
    shown.collect()
}

fn constraints(hand: &Hand) -> Vec<String> {
    let network = match hand.workspace().network {
        Network::Off => "Commands have no network.",
        Network::Host => "Commands have the host's network.",
    };
    vec![
        "Paths are resolved by the kernel below the mounted roots; links that lead out are refused."
            .to_owned(),
        "Nothing named `.git` is written by the file tools.".to_owned(),
        network.to_owned(),
    ]
}

/// An action with the tool that it is, and whether that asks.
fn described(action: Action) -> Value {
    let tool = action.tool().unwrap_or("sandbox_execute");
    let definition = catalogue::definition(tool);
    json!({
        "name": action.name(),
        "tool": tool,
        "asks": definition.gate.asks(),
        "readOnly": definition.resolved_facets().is_read_only() || action == Action::Stat,
    })
}
