//! A policy as a file: rules that ask or deny, and examples of what they say.
//!
//! ```toml
//! [[rule]]
//! name = "large refunds"
//! tools = ["refund"]
//! when = [{ field = "/cents", test = { at_least = 10001 } }]
//! verdict = "ask"
//! reason = "a refund above 100"
//!
//! [[example]]
//! tool = "refund"
//! arguments = { cents = 50000 }
//! expect = "ask"
//! ```
//!
//! A rule only ever asks for more. So whatever cannot be told from a call's arguments, because
//! they are not there or secret, is taken as if the rule were about it.

use std::str::FromStr;

use haft_core::permission::{Condition, Source, Verdict};
use haft_core::{Arguments, ToolName};
use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;

use super::policy::{Opinion, Policy, Wish};
use crate::tool::ToolFuture;

/// The rules of a file, which agree with its examples.
#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    rules: Vec<Rule>,
    n_examples: usize,
}

/// What keeps a file from being used, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct PolicyFileError {
    /// The line, from one.
    pub line: usize,
    /// The character in the line, from one.
    pub column: usize,
    /// What was expected and what was found.
    pub problem: String,
}

/// One rule of a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    name: Spanned<String>,
    /// The tools that it is about; all when it does not say.
    tools: Option<Vec<Tools>>,
    #[serde(default)]
    when: Vec<Condition>,
    verdict: Raise,
    reason: String,
}

/// What a rule may say: permission is given elsewhere.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Raise {
    Ask,
    Deny,
}

/// A tool, or all whose names begin alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
enum Tools {
    One(ToolName),
    Beginning(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(default)]
    rule: Vec<Rule>,
    #[serde(default)]
    example: Vec<Spanned<Example>>,
}

/// A call, and what the rules say about it; `allow` where none says anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    tool: ToolName,
    #[serde(default)]
    arguments: Map<String, Value>,
    expect: Verdict,
}

impl FromStr for PolicyFile {
    type Err = PolicyFileError;

    fn from_str(text: &str) -> Result<Self, PolicyFileError> {
        let contents: Contents = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            PolicyFileError::at(text, at, error.message().replace('\n', "; "))
        })?;
        let Contents { rule: rules, example: examples } = contents;
        for (n, rule) in rules.iter().enumerate() {
            let name = rule.name.get_ref();
            if rules[..n].iter().any(|other| other.name.get_ref() == name) {
                let problem = format!("expected a name of its own, found another rule `{name}`");
                return Err(PolicyFileError::at(text, rule.name.span().start, problem));
            }
        }
        let file = Self { rules, n_examples: examples.len() };
        for example in examples {
            let at = example.span().start;
            let problem = file.misjudged(example.into_inner());
            if let Some(problem) = problem {
                return Err(PolicyFileError::at(text, at, problem));
            }
        }
        Ok(file)
    }
}

impl PolicyFile {
    /// Returns how many rules there are.
    pub fn n_rules(&self) -> usize {
        self.rules.len()
    }

    /// Returns how many examples they agree with.
    pub fn n_examples(&self) -> usize {
        self.n_examples
    }

    /// Returns the rules that are about none of these tools, with what they are about.
    pub fn idle<'a>(&'a self, tools: &[&str]) -> Vec<(&'a str, String)> {
        let about = |rule: &'a Rule| rule.tools.iter().flatten().map(move |tools| (rule, tools));
        let named = self.rules.iter().flat_map(about);
        let idle = named.filter(|(_, named)| !tools.iter().any(|tool| named.covers(tool)));
        idle.map(|(rule, named)| (rule.name.get_ref().as_str(), named.to_string())).collect()
    }

    pub(crate) fn into_rules(self) -> Vec<Rule> {
        self.rules
    }

    /// Returns what the rules say about a call, by name.
    pub(crate) fn says(&self, tool: &ToolName, arguments: &Arguments) -> Vec<(Source, Opinion)> {
        let said = self.rules.iter().filter_map(|rule| {
            let opinion = rule.says(tool, arguments)?;
            Some((rule.source(), opinion))
        });
        said.collect()
    }

    fn misjudged(&self, example: Example) -> Option<String> {
        let Example { tool, arguments, expect } = example;
        let said = self.says(&tool, &Arguments::plain(arguments));
        let strictest = said.iter().max_by_key(|(_, opinion)| opinion.verdict);
        let found = strictest.map_or(Verdict::Allow, |(_, opinion)| opinion.verdict);
        let by = match strictest {
            Some((Source::Rule(name), _)) => format!("by the rule `{name}`"),
            _ => "no rule is about it".to_owned(),
        };
        let (expected, seen) = (word(expect), word(found));
        (found != expect).then(|| format!("expected `{expected}`, found `{seen}`: {by}"))
    }
}

impl Rule {
    fn says(&self, tool: &ToolName, arguments: &Arguments) -> Option<Opinion> {
        let covers = |tools: &Vec<Tools>| tools.iter().any(|tools| tools.covers(tool.as_str()));
        let is_about = self.tools.as_ref().is_none_or(covers);
        let applies = is_about && self.when.iter().all(|condition| condition.may_hold(arguments));
        let verdict = match self.verdict {
            Raise::Ask => Verdict::Ask,
            Raise::Deny => Verdict::Deny,
        };
        applies.then(|| Opinion { verdict, reason: self.reason.clone() })
    }
}

impl Policy for Rule {
    fn source(&self) -> Source {
        Source::Rule(self.name.get_ref().clone())
    }

    fn judge<'a>(&'a self, wish: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        let said = self.says(&wish.spec.name, wish.arguments);
        Box::pin(async move { Ok(said) })
    }

    fn weighs_arguments(&self) -> bool {
        !self.when.is_empty()
    }
}

impl Tools {
    fn covers(&self, name: &str) -> bool {
        match self {
            Self::One(tool) => tool.as_str() == name,
            Self::Beginning(with) => name.starts_with(with),
        }
    }
}

impl TryFrom<String> for Tools {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let expected = "expected a tool's name, or the beginning of one and a `*`";
        let name = |text: &str| {
            ToolName::new(text).map_err(|error| format!("{expected}, found {text:?}: {error}"))
        };
        match text.strip_suffix('*') {
            None => name(&text).map(Self::One),
            Some(with) => name(with).map(|with| Self::Beginning(with.as_str().to_owned())),
        }
    }
}

impl std::fmt::Display for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(tool) => write!(f, "{tool}"),
            Self::Beginning(with) => write!(f, "{with}*"),
        }
    }
}

impl PolicyFileError {
    fn at(text: &str, offset: usize, problem: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column, problem }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

#[cfg(test)]
mod tests {
    use haft_core::tool::Redaction;
    use serde_json::json;

    use super::*;

    const RULES: &str = r#"
        [[rule]]
        name = "large"
        tools = ["refund"]
        when = [{ field = "/cents", test = { at_least = 10001 } }]
        verdict = "ask"
        reason = "a refund above 100"

        [[rule]]
        name = "not from there"
        tools = ["github_*"]
        verdict = "deny"
        reason = "not from this server"
    "#;

    fn said(file: &PolicyFile, tool: &str, arguments: Value) -> Option<Verdict> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let said = file.says(&ToolName::new(tool).unwrap(), &Arguments::plain(arguments));
        said.into_iter().map(|(_, opinion)| opinion.verdict).max()
    }

    #[test]
    fn a_rule_is_about_its_tools_and_its_conditions() {
        let file: PolicyFile = RULES.parse().unwrap();
        assert_eq!(said(&file, "refund", json!({"cents": 10001})), Some(Verdict::Ask));
        assert_eq!(said(&file, "refund", json!({"cents": 10000})), None);
        assert_eq!(said(&file, "github_push", json!({})), Some(Verdict::Deny));
        assert_eq!(said(&file, "gitlab_push", json!({})), None);
        assert_eq!(file.idle(&["refund"]), [("not from there", "github_*".to_owned())]);
    }

    // D22: what cannot be told counts against the call.
    #[test]
    fn d22_what_is_missing_masked_or_of_another_kind_is_taken_to_be_meant() {
        let file: PolicyFile = RULES.parse().unwrap();
        for arguments in [json!({}), json!({"cents": Redaction::MASK}), json!({"cents": "9"})] {
            assert_eq!(said(&file, "refund", arguments), Some(Verdict::Ask));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let refused = |text: &str| text.parse::<PolicyFile>().unwrap_err().to_string();
        let rule = |rest: &str| {
            format!("[[rule]]\nname = \"a\"\nreason = \"b\"\nverdict = \"ask\"\n{rest}")
        };
        let cases = [
            (
                "[[rule]]\nname = 3\n",
                "line 2, column 8: invalid type: integer `3`, expected a string",
            ),
            ("[[rule]]\nname = \"a\n", "line 2, column 10: "),
            (
                "[[rules]]\n",
                "line 1, column 3: unknown field `rules`, expected `rule` or `example`",
            ),
        ];
        for (text, expected) in cases {
            assert!(refused(text).starts_with(expected), "{}", refused(text));
        }
        let allow = rule("").replace("ask", "allow");
        assert_eq!(
            refused(&allow),
            "line 4, column 11: unknown variant `allow`, expected `ask` or `deny`"
        );
        let field = rule("when = [{ field = \"cents\", test = { at_most = 3 } }]");
        assert!(refused(&field).contains("expected a JSON pointer"), "{}", refused(&field));
        let tool = rule("tools = [\"Refund\"]");
        assert!(
            refused(&tool).starts_with("line 5, column 9: expected a tool's name"),
            "{}",
            refused(&tool)
        );
        let twice = format!("{0}\n{0}", rule(""));
        assert_eq!(
            refused(&twice),
            "line 7, column 8: expected a name of its own, found another rule `a`"
        );
    }

    #[test]
    fn an_example_that_does_not_hold_is_refused() {
        let wrong = format!(
            "{RULES}\n[[example]]\ntool = \"refund\"\narguments = {{ cents = 5 }}\nexpect = \"ask\"\n"
        );
        let error = wrong.parse::<PolicyFile>().unwrap_err();
        assert_eq!(error.problem, "expected `ask`, found `allow`: no rule is about it");
        assert_eq!(wrong.lines().nth(error.line - 1), Some("[[example]]"));
        let right = wrong.replace("cents = 5 ", "cents = 50000 ");
        assert_eq!(right.parse::<PolicyFile>().unwrap().n_examples(), 1);
    }
}
