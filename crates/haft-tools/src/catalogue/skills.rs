//! Procedures to read before following them.

use haft_core::tool::{DeclaredEffect, Definition};
use serde_json::json;

use super::{Routed, answers, define, limit, number, object, recalls, text, with};

const SKILLS: &[DeclaredEffect] = &[DeclaredEffect::SkillRead];

pub(super) fn definitions() -> Vec<Definition> {
    vec![list(), search(), read()]
}

fn list() -> Definition {
    let routed = Routed {
        does: "Lists the skills that the agent has, each with a preview",
        use_when: "you want to know whether there is a procedure for the task",
        not_for: &[("finding one by its words", "skills_search")],
    };
    let input = object(&[], json!({}));
    let mut definition = define("skills_list", &routed, &input);
    definition.facets = recalls(SKILLS);
    definition.output_schema = Some(answers("count:i skills:a"));
    definition
}

fn search() -> Definition {
    let routed = Routed {
        does: "Searches skills by name and description",
        use_when: "you know what the task is about and not what its skill is called",
        not_for: &[("the body of one", "skills_read")],
    };
    let input =
        object(&["query"], with(limit(8), json!({ "query": text("What the task is about.") })));
    let mut definition = define("skills_search", &routed, &input);
    definition.facets = recalls(SKILLS);
    definition.output_schema = Some(answers("count:i hits:a"));
    definition
}

fn read() -> Definition {
    let routed = Routed {
        does: "Reads the body of one skill",
        use_when: "a listed skill fits the task and you are about to follow it",
        not_for: &[("finding one", "skills_search")],
    };
    let input = object(
        &["name"],
        json!({
            "name": text("The skill, as listed."),
            "maxChars": number(1, 200_000, "The most characters to give; 24000 unless said."),
        }),
    );
    let mut definition = define("skills_read", &routed, &input);
    definition.facets = recalls(SKILLS);
    definition.output_schema = Some(answers(
        "name:s description:s preview:s? source:s filePath:s baseDir:s content:s truncated:b",
    ));
    definition.max_result_bytes = 1 << 20;
    definition
}
