//! `haft policy`: what may run, and why.

mod check;
mod explain;

use serde_json::Value;

use crate::Verdict;
use crate::terminal::{Paint, Tone, printable, say};

/// Tells why calls run, wait or are refused: which sources of permission say so.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Checks a policy file and its examples; tells what would happen to a call.
    Check(check::Args),
    /// Tells why a call that was made ran, waited or was refused.
    Explain(explain::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
    }
}

/// Prints what becomes of a call, and what each source says; those that decided are marked.
fn tell(tool: &str, words: &str, derivation: &Value) {
    let paint = Paint::stdout();
    let decision = derivation["decision"].as_str().unwrap_or_default();
    let tone = match decision {
        "allow" => Tone::Good,
        "ask" => Tone::Warn,
        _ => Tone::Bad,
    };
    say(&format!("{} {}", paint.paint(Tone::Bold, tool), paint.paint(tone, words)));
    for finding in derivation["findings"].as_array().into_iter().flatten() {
        let verdict = finding["verdict"].as_str().unwrap_or_default();
        let mark = if verdict == decision { "▸" } else { " " };
        let source = source(&finding["source"]);
        let reason = printable(finding["reason"].as_str().unwrap_or_default());
        say(&format!("  {mark} {verdict:<5}  {source:<18}  {reason}"));
    }
}

/// A source of permission, as it is called.
fn source(source: &Value) -> String {
    match source {
        Value::String(name) => name.clone(),
        Value::Object(named) => {
            let each = named
                .iter()
                .map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or_default()));
            each.collect()
        }
        other => other.to_string(),
    }
}
