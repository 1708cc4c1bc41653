//! The files that every session of an agent shares.

use haft_core::tool::{DeclaredEffect, Definition, Idempotency, Scope};
use serde_json::{Value, json};

use super::memory::{gated, shared};
use super::{
    Routed, answers, changes, define, flag, keeps, limit, looks, number, object, text, with,
};

const READS: &[DeclaredEffect] = &[DeclaredEffect::ResourceRead];
const WRITES: &[DeclaredEffect] = &[DeclaredEffect::ResourceWrite];
const BOTH: &[DeclaredEffect] = &[DeclaredEffect::ResourceRead, DeclaredEffect::ResourceWrite];

fn expecting() -> Value {
    json!({
        "expectedVersionId": text("Only if this is still the latest version."),
        "expectedContentHash": text("Only if the shared file still has this hash."),
    })
}

pub(super) fn definitions() -> Vec<Definition> {
    vec![stage(), list_drafts(), compare(), promote(), list_versions(), read_version(), restore()]
}

fn stage() -> Definition {
    let routed = Routed {
        does: "Copies a shared file into the session's workspace, to be changed there",
        use_when: "a file below `agent/` is to be changed, which no other tool can",
        not_for: &[("reading it", "read")],
    };
    let input = object(
        &["sourcePath"],
        json!({
            "sourcePath": text("The shared file, relative to `agent/`."),
            "targetPath": text("Where to put it; the same name unless said."),
            "overwrite": flag("Whether a file that is there is replaced."),
        }),
    );
    let mut definition = define("resources_stage_from_substrate", &routed, &input);
    definition.facets = changes(Idempotency::Idempotent, BOTH);
    definition.output_schema = Some(answers(
        "sessionId:s sourcePath:s targetPath:s bytes:i reusedExisting:b divergedFromSource:b sourceContentHash:s targetContentHash:s",
    ));
    definition
}

fn list_drafts() -> Definition {
    let routed = Routed {
        does: "Lists the drafts of shared files in this session, and whether they changed",
        use_when: "you want to know what is staged and not promoted yet",
        not_for: &[("how one differs", "resources_compare_with_substrate")],
    };
    let input = object(&[], json!({}));
    let mut definition = define("resources_list_staged_drafts", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(answers("count:i drafts:a"));
    definition
}

fn compare() -> Definition {
    let routed = Routed {
        does: "Compares a draft with the shared file, and gives what promoting must expect",
        use_when: "you are about to promote a draft",
        not_for: &[("promoting it", "resources_promote_to_substrate")],
    };
    let input = object(
        &["sessionPath"],
        json!({
            "sessionPath": text("The draft."),
            "substratePath": text("The shared file; the one it was staged from unless said."),
            "maxPreviewLines": number(1, 200, "How many lines to show; 12 unless said."),
        }),
    );
    let mut definition = define("resources_compare_with_substrate", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(answers(
        "sessionId:s sessionPath:s substratePath:s substrateExists:b identical:b sessionCharCount:i substrateCharCount:i sessionContentHash:s substrateContentHash:s? latestVersionId:s? latestVersionCreatedAt:s? latestVersionContentHash:s? latestVersionWakeId:s? promotePrecondition:o differingLineCount:i preview:a",
    ));
    definition
}

fn promote() -> Definition {
    let routed = Routed {
        does: "Puts a draft in the place of a shared file, after someone agreed, as a new version",
        use_when: "the draft is done, compared, and the outcome has passed",
        not_for: &[("comparing first", "resources_compare_with_substrate")],
    };
    let input = object(
        &["sourcePath"],
        with(
            json!({
                "sourcePath": text("The draft."),
                "targetPath": text("The shared file; the one it was staged from unless said."),
                "overwrite": flag("False refuses if the shared file exists."),
            }),
            with(expecting(), gated()),
        ),
    );
    let mut definition = define("resources_promote_to_substrate", &routed, &input);
    definition.facets = keeps(Scope::Shared, WRITES);
    definition.output_schema = Some(answers(
        "sessionId:s sourcePath:s targetPath:s bytes:i versionId:s previousVersionId:s? contentHash:s outcomeEvaluation:o?",
    ));
    shared(definition)
}

fn list_versions() -> Definition {
    let routed = Routed {
        does: "Lists the versions of a shared file, newest first",
        use_when: "you want to know who changed it, or a version to go back to",
        not_for: &[("the content of one", "resources_read_version")],
    };
    let input =
        object(&["targetPath"], with(json!({ "targetPath": text("The shared file.") }), limit(10)));
    let mut definition = define("resources_list_versions", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(answers("count:i versions:a"));
    definition
}

fn read_version() -> Definition {
    let routed = Routed {
        does: "Reads one version of a shared file as it was promoted",
        use_when: "you have a `versionId` and want its content",
        not_for: &[("the file as it is", "read")],
    };
    let input =
        object(&["versionId"], json!({ "versionId": text("From `resources_list_versions`.") }));
    let mut definition = define("resources_read_version", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(answers("version:o content:s"));
    definition.max_result_bytes = 1 << 20;
    definition
}

fn restore() -> Definition {
    let routed = Routed {
        does: "Puts an earlier version of a shared file back, after someone agreed, as a new version",
        use_when: "a promoted change was wrong and an earlier version is right",
        not_for: &[("reading it first", "resources_read_version")],
    };
    let input = object(
        &["versionId"],
        with(json!({ "versionId": text("The version to put back.") }), with(expecting(), gated())),
    );
    let mut definition = define("resources_restore_version", &routed, &input);
    definition.facets = keeps(Scope::Shared, WRITES);
    definition.output_schema = Some(answers(
        "sessionId:s restoredFromVersionId:s targetPath:s bytes:i versionId:s previousVersionId:s? contentHash:s outcomeEvaluation:o?",
    ));
    shared(definition)
}
