//! `haft tools lint`.

use std::path::PathBuf;

use haft_runtime::registry::{Finding, Severity, lint_definition};
use serde_json::{Value, json};

use super::import::{self, DialectName};
use super::{all, text};
use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::terminal::{Paint, Tone, printable, say, say_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Definitions in a file, in any of the dialects, instead of those of the node.
    file: Option<PathBuf>,
    /// The dialect of the file; found out if not given.
    #[arg(long, requires = "file")]
    dialect: Option<DialectName>,
    #[command(flatten)]
    reach: Reach,
}

/// Ends with 1 where something is wrong, and not only improvable.
pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if let Some(file) = &args.file {
        let lifted = import::read(file, args.dialect)?;
        let findings: Vec<Value> = lifted
            .iter()
            .flat_map(|found| lint_definition(&found.definition))
            .map(|found| shown(&found))
            .collect();
        return tell(args, &findings);
    }
    over_api(&args.reach, StoreUse::Any, async |api| {
        let mut findings = Vec::new();
        for tool in all(api).await? {
            for finding in tool["lint"].as_array().into_iter().flatten() {
                let mut finding = finding.clone();
                finding["tool"] = tool["name"].clone();
                findings.push(finding);
            }
        }
        tell(args, &findings)
    })
}

/// As the API shows it.
fn shown(finding: &Finding) -> Value {
    let severity = match finding.severity {
        Severity::Note => "Note",
        Severity::Warning => "Warning",
        Severity::Error => "Error",
    };
    json!({
        "tool": finding.tool, "code": format!("{:?}", finding.code), "severity": severity,
        "field": finding.field, "message": format!("{}; {}", finding.message, finding.fix),
    })
}

fn tell(args: &Args, findings: &[Value]) -> anyhow::Result<Verdict> {
    let is_wrong = findings.iter().any(|finding| finding["severity"] == "Error");
    let verdict = if is_wrong { Verdict::Broken } else { Verdict::Holds };
    if args.reach.wants_json() {
        say_json(&json!({ "data": findings }))?;
        return Ok(verdict);
    }
    let paint = Paint::stdout();
    for finding in findings {
        let tone = match text(finding, "severity") {
            "Error" => Tone::Bad,
            "Warning" => Tone::Warn,
            _ => Tone::Dim,
        };
        let severity = paint.paint(tone, &text(finding, "severity").to_lowercase());
        let (tool, field) = (text(finding, "tool"), text(finding, "field"));
        let message = printable(text(finding, "message"));
        say(&format!("{severity}: {} {field}: {message}", paint.paint(Tone::Bold, tool)));
    }
    eprintln!("{} findings", findings.len());
    Ok(verdict)
}
