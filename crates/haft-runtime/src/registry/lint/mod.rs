//! What is wrong, or could be better, about the registered tools as a whole.
//!
//! Order of registration is free, so what one definition says about others can only be judged
//! when all are there. Nothing is repaired: a finding says what to change.

mod contract;
mod relations;
mod schemas;
mod wording;

use std::fmt;

use haft_core::ToolName;
use haft_core::tool::Definition;

use super::Registry;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Could be better.
    Note,
    /// Makes models choose wrongly.
    Warning,
    /// Wrong, or not to be trusted.
    Error,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A name that does not say verb and noun.
    NameShape,
    /// A description without a trigger condition.
    UseWhenMissing,
    /// A description that is too short to route by.
    TooShort,
    /// A description of more than a few sentences.
    TooLong,
    /// A description that says what comes back and not what is done.
    StartsWithResult,
    /// A description that hedges.
    Hedges,
    /// An argument without a description.
    ArgumentUndescribed,
    /// Arguments that are not in the schema are let through.
    ArgumentsOpen,
    /// A declared category that the facets contradict.
    CategoryContradicted,
    /// Characters that a reader does not see, or that change how text is read.
    InvisibleText,
    /// A word in which letters of two scripts look like one.
    MixedScripts,
    /// A default in a schema that is a secret.
    SecretDefault,
    /// A schema that nothing can fit.
    Unsatisfiable,
    /// Text that instructs the model instead of describing the tool.
    Instruction,
    /// `depends_on` names a tool that is not registered.
    DependencyUnknown,
    /// Tools that depend on each other in a circle.
    DependencyCycle,
    /// A disambiguation names a tool that is not registered.
    AlternativeUnknown,
    /// A disambiguation names a tool that models are not offered.
    AlternativeNotOffered,
    /// The compensating tool is not registered.
    UndoUnknown,
    /// Two tools whose names say the same, without a word on when to use which.
    Overlap,
    /// Two tools with the same description.
    SameDescription,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub code: Code,
    /// The tool.
    pub tool: ToolName,
    /// The field of its definition.
    pub field: &'static str,
    /// What was found.
    pub message: String,
    /// What to do.
    pub fix: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let Self { tool, field, message, fix, .. } = self;
        write!(f, "{severity}: tool `{tool}`, `{field}`: {message}; {fix}")
    }
}

/// Finds what is wrong about one definition, whatever else is registered.
pub fn lint_definition(definition: &Definition) -> Vec<Finding> {
    let mut report = Report { tool: &definition.name, findings: Vec::new() };
    contract::check(definition, &mut report);
    wording::check(definition, &mut report);
    schemas::check(definition, &mut report);
    report.findings
}

/// Finds what keeps a definition from ever working.
pub(super) fn faults(definition: &Definition) -> Vec<Finding> {
    let mut report = Report { tool: &definition.name, findings: Vec::new() };
    schemas::check(definition, &mut report);
    report.findings
}

impl Registry {
    /// Finds what is wrong about the registered tools, one by one and beside each other; what
    /// matters most comes first.
    pub fn lint(&self) -> Vec<Finding> {
        let tools = self.tools();
        let mut findings: Vec<Finding> =
            tools.iter().flat_map(|tool| lint_definition(tool.spec())).collect();
        findings.extend(relations::check(&tools));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

/// Collects what is found about one tool.
struct Report<'a> {
    tool: &'a ToolName,
    findings: Vec<Finding>,
}

impl Report<'_> {
    fn add(
        &mut self,
        (severity, code): (Severity, Code),
        field: &'static str,
        message: impl Into<String>,
        fix: &'static str,
    ) {
        let (tool, message) = (self.tool.clone(), message.into());
        self.findings.push(Finding { severity, code, tool, field, message, fix });
    }
}
