//! `sandbox_describe`; an action of `sandbox_execute` is always the call of another tool.

use haft_core::session::Returned;
use haft_runtime::{ToolContext, ToolError};
use haft_sandbox::layers::LayerReport;
use haft_sandbox::mounts::Access;
use haft_sandbox::policy::Network;
use haft_sandbox::process::Sandbox;
use serde_json::{Value, json};

use super::Action;
use super::answer::{apart, plain};
use super::command::policy_words;
use crate::catalogue;
use crate::hands::{Hand, Hands};

/// Never run: every action stands for the call of a tool, and is that call.
pub(super) async fn execute() -> Result<Returned, ToolError> {
    Err(ToolError::internal("an action of the sandbox runs as the tool that it stands for"))
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
    shown.chain(hand.vaults().shown()).collect()
}

fn constraints(hand: &Hand) -> Vec<String> {
    let network = match &hand.workspace().network {
        Network::Off => "Commands have no network.".to_owned(),
        Network::Gateway(gateway) => format!(
            "Commands reach {} through the proxy that HTTP_PROXY and HTTPS_PROXY name, and nothing \
             else: no address of this machine, of private networks or of a cloud's metadata. \
             Programs of one command reach each other on 127.0.0.1. `bash` has no network.",
            gateway.reaches()
        ),
        Network::Host => "Commands have the host's own network. `bash` has none.".to_owned(),
    };
    vec![
        "Paths are resolved by the kernel below the mounted roots; links that lead out are refused."
            .to_owned(),
        "Nothing named `.git` is written by the file tools.".to_owned(),
        network,
    ]
}

/// An action with the tool that it is, and whether that asks.
fn described(action: Action) -> Value {
    let definition = catalogue::definition(action.tool());
    json!({
        "name": action.name(),
        "tool": action.tool(),
        "asks": definition.gate.asks(),
        "readOnly": definition.resolved_facets().is_read_only() || action == Action::Stat,
    })
}
