//! What a shell text amounts to.

use crate::place::Place;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_tools::read_only_alternative;
use proptest::prelude::*;
use serde_json::{Value, json};

pub(crate) fn workspace(place: &Place) -> (VirtualPath, Mounts) {
    let at = VirtualPath::parse("/workspace", &VirtualPath::top()).unwrap();
    let root = Root { at: at.clone(), host: place.host(), access: Access::ReadWrite };
    (at, Mounts::open([root]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plain_command_amounts_to_says_the_same() {
    let place = Place::new();
    let mut session = place.node();
    let (cwd, mounts) = workspace(&place);
    for (command, tool) in [
        ("cat a.txt", "read"),
        ("head -n 2 a.txt", "read"),
        ("sed -n '2,3p' a.txt", "read"),
        ("grep two a.txt", "grep"),
        ("wc -c a.txt", "bash"),
    ] {
        let found = read_only_alternative(command, &cwd, &mounts).unwrap();
        assert_eq!(found.tool.as_str(), tool, "{command}");
        let looked = session.call(tool, Value::Object(found.arguments)).await.unwrap();
        let ran = session.agreed("shell_run", json!({ "command": command })).await.unwrap();
        let said = ran["output"]["stdout"].as_str().unwrap();
        let told = match tool {
            "bash" => looked["output"]["stdout"].as_str().unwrap(),
            "grep" => looked["output"]["matches"][0]["preview"].as_str().unwrap(),
            _ => looked["text"].as_str().unwrap(),
        };
        assert_eq!(told.trim_end(), said.trim_end(), "{command}");
    }
}

// D26: any operator, substitution, redirection or pattern, and it amounts to nothing but itself.
#[test]
fn d26_a_text_with_an_operator_is_never_a_look() {
    let place = Place::new();
    let (cwd, mounts) = workspace(&place);
    for command in [
        "cat a.txt > b",
        "cat x | sh",
        "cat $(id)",
        "head f && rm -rf g",
        "cat a; rm -rf /",
        "sed -n '1,5p;w out' a",
        "cat *.txt",
        "cat `id`",
        "cat $HOME",
        "LD_PRELOAD=x cat a.txt",
        "cat a.txt &",
        "cat <(id)",
        "cat a.txt\nrm b",
        "cat {a,b}",
        "cat ~/x",
        "! cat a.txt",
    ] {
        let found = read_only_alternative(command, &cwd, &mounts);
        assert_eq!(found, None, "{command}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    // D26, by chance: whatever is around it.
    #[test]
    fn d26_no_text_with_an_operator_by_chance_is_a_look(
        before in "[ -~]{0,24}", operator in r"[|&;<>()$`*?~{}\\\n]", after in "[ a-z./-]{0,12}",
    ) {
        let place = Place::new();
        let (cwd, mounts) = workspace(&place);
        let text = format!("{before}{operator}{after}");
        // Within quotes an operator is a letter.
        prop_assume!(!text.contains(['\'', '"', '#']));
        prop_assert_eq!(read_only_alternative(&text, &cwd, &mounts), None, "{}", text);
    }
}
