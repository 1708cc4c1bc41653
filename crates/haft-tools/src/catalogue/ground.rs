//! What a session stands on, and what its calls would be asked about.

use haft_core::tool::{DeclaredEffect, Definition};
use serde_json::json;

use super::{Routed, answers, any_session, define, object, recalls, text};

const RESOURCES: &[DeclaredEffect] = &[DeclaredEffect::ResourceRead];
const BOTH: &[DeclaredEffect] = &[DeclaredEffect::SessionRead, DeclaredEffect::ResourceRead];
const LOOKS: &[DeclaredEffect] =
    &[DeclaredEffect::SessionRead, DeclaredEffect::MemoryRead, DeclaredEffect::SandboxExecute];

pub(super) fn definitions() -> Vec<Definition> {
    vec![
        environment(),
        describe_setup(),
        compare_setup(),
        vaults(),
        resources(),
        permissions_describe(),
        permissions_check(),
    ]
}

fn environment() -> Definition {
    let routed = Routed {
        does: "Describes where the session's commands run: sandbox, network, mounts, fingerprints",
        use_when: "you want to know what commands may reach before relying on it",
        not_for: &[
            ("the session's shell", "shell_describe"),
            ("what another session stood on", "agent_describe_setup"),
        ],
    };
    let input = object(&[], json!({}));
    let mut definition = define("environment_describe", &routed, &input);
    definition.facets = recalls(RESOURCES);
    definition.output_schema = Some(answers(
        "id:s name:s kind:s fingerprint:s resourceContractFingerprint:s agentSetupFingerprint:s? artifactPath:s agentSetupArtifactPath:s sandbox:o workspaceMountDefaults:o mountedResources:a",
    ));
    definition
}

fn describe_setup() -> Definition {
    let routed = Routed {
        does: "Shows what a session was set up with: model, prompts, tools, skills, environment",
        use_when: "you want to know exactly what produced a session's work",
        not_for: &[("whether two setups differ", "agent_compare_setup")],
    };
    let input = object(&[], any_session());
    let mut definition = define("agent_describe_setup", &routed, &input);
    definition.facets = recalls(BOTH);
    definition.output_schema = Some(answers(
        "sessionId:s available:b artifactPath:s artifactMarkdownPath:s agentSetup:o? reason:s?",
    ));
    definition.max_result_bytes = 1 << 18;
    definition
}

fn compare_setup() -> Definition {
    let routed = Routed {
        does: "Compares this session's setup with that of another, section by section",
        use_when: "you are about to use another session's work",
        not_for: &[("the whole of one setup", "agent_describe_setup")],
    };
    let input = object(&[], any_session());
    let mut definition = define("agent_compare_setup", &routed, &input);
    definition.facets = recalls(BOTH);
    definition.output_schema = Some(answers(
        "currentSessionId:s targetSessionId:s sameSetup:b currentFingerprint:s? targetFingerprint:s? changedSections:a currentArtifactPath:s targetArtifactPath:s",
    ));
    definition
}

fn vaults() -> Definition {
    let routed = Routed {
        does: "Lists the vaults that the agent knows of, by name and never by content",
        use_when: "a task needs a credential and you want to know which there are",
        not_for: &[("mounted files", "resources_list")],
    };
    let input = object(&[], json!({}));
    let mut definition = define("vault_list", &routed, &input);
    definition.facets = recalls(RESOURCES);
    definition.output_schema = Some(answers("count:i vaults:a"));
    definition
}

fn resources() -> Definition {
    let routed = Routed {
        does: "Lists what is mounted for the session, where, and whether it can be written",
        use_when: "you do not know which directories there are",
        not_for: &[("the files in one", "glob")],
    };
    let input = object(&[], json!({}));
    let mut definition = define("resources_list", &routed, &input);
    definition.facets = recalls(RESOURCES);
    definition.output_schema = Some(answers("sessionId:s resources:a"));
    definition
}

fn permissions_describe() -> Definition {
    let routed = Routed {
        does: "Shows what waits for someone, which tools ask, and what to do meanwhile",
        use_when: "a call is refused or waits, or you plan something that asks",
        not_for: &[("one tool you have in mind", "permissions_check")],
    };
    let input = object(&[], json!({}));
    let mut definition = define("permissions_describe", &routed, &input);
    definition.facets = recalls(LOOKS);
    definition.output_schema = Some(answers(
        "artifactPaths:o pendingToolConfirmationRequest:o? outcomeEvaluation:o? nextOutcomeStep:o? contextPressure:o? shellMutationPosture:o? readOnlyAlternative:o? nextShellStep:o? shellReadFirstAlternatives:a alwaysAskTools:a outcomeGatedTools:a",
    ));
    definition
}

fn permissions_check() -> Definition {
    let routed = Routed {
        does: "Checks without calling it whether a tool would run, ask or be refused, and what to do first",
        use_when: "you are about to call something that changes things",
        not_for: &[("everything that asks", "permissions_describe")],
    };
    let input = object(
        &["toolName"],
        json!({
            "toolName": text("The tool."),
            "toolArgs": { "type": "object", "description": "What you would give it." },
        }),
    );
    let mut definition = define("permissions_check", &routed, &input);
    definition.facets = recalls(LOOKS);
    definition.output_schema = Some(answers(
        "toolName:s artifactPaths:o exists:b allowed:b permissionPolicy:s? requiresConfirmation:b requiresOutcomePass:b ownership:s? effects:a readOnly:b? destructive:b? interruptBehavior:s? outcomeEvaluation:o? nextOutcomeStep:o? contextPressure:o? pendingToolConfirmationRequest:o? shellMutationPosture:o? readOnlyAlternative:o? shellReadFirstAlternatives:a nextStep:o?",
    ));
    definition
}
