//! The agent toolset of the Managed Agents API, `agent_toolset_20260401`: its own names and
//! arguments in front of the managed tools, so that both run the same code in the same sandbox.
//!
//! Its `bash` is the persistent shell, which the catalogue calls `shell_exec`; the catalogue's
//! `bash` is the hand that only looks. So the toolset's tools are registered under names of their
//! own, and a session calls them by the toolset's.

use haft_core::session::{Preview, Returned};
use haft_core::tool::{Definition, Gate, Schema};
use haft_core::{CallResult, ContentBlock, Millis, ToolName};
use haft_runtime::{HaftBuilder, Need, Tool, ToolArguments, ToolContext, ToolError, ToolFuture};
use serde_json::{Value, json};

use crate::catalogue;
use crate::hands::Hands;
use crate::tools::{self, Managed};

/// How much of a file is read at once, of names or lines found.
const READ_CHARS: u64 = 100_000;
const FOUND_MAX: u64 = 1_000;
/// How long a command is waited for, unless said, and at most.
const COMMAND_WAIT_MS: u64 = 120_000;
const COMMAND_WAIT_MAX_MS: u64 = 600_000;
/// What ending a command and keeping its output may take beside.
const COMMAND_REST: Millis = Millis::from_secs(30);

/// A tool of `agent_toolset_20260401`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentTool {
    /// The persistent shell.
    Bash,
    /// Replaces a text in a file.
    Edit,
    /// Reads a file.
    Read,
    /// Writes a file.
    Write,
    /// Finds files by name.
    Glob,
    /// Finds lines by what is in them.
    Grep,
}

impl AgentTool {
    /// Every tool that there is here, in the toolset's order.
    pub const ALL: [Self; 6] =
        [Self::Bash, Self::Edit, Self::Read, Self::Write, Self::Glob, Self::Grep];

    /// Returns the toolset's name for it.
    pub const fn called(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Edit => "edit",
            Self::Read => "read",
            Self::Write => "write",
            Self::Glob => "glob",
            Self::Grep => "grep",
        }
    }

    /// Returns the name under which it is registered.
    pub fn name(self) -> ToolName {
        catalogue::named(match self {
            Self::Bash => "toolset_bash",
            Self::Edit => "toolset_edit",
            Self::Read => "toolset_read",
            Self::Write => "toolset_write",
            Self::Glob => "toolset_glob",
            Self::Grep => "toolset_grep",
        })
    }

    /// Returns what is declared about it; a call that someone is asked about waits so long.
    pub fn definition(self, suspend_ttl: Millis) -> Definition {
        let mut definition = catalogue::definition(self.managed());
        let (description, input) = self.described();
        definition.name = self.name();
        description.clone_into(&mut definition.description);
        definition.input_schema = schema(&input);
        definition.routing = None;
        definition.output_schema = None;
        definition.tags = vec!["agent_toolset_20260401".to_owned()];
        // Whether someone is asked is the agent's permission policy.
        definition.gate = Gate::Auto;
        definition.suspend_ttl = suspend_ttl;
        if self == Self::Bash {
            definition.exec_timeout = Millis(COMMAND_WAIT_MAX_MS + COMMAND_REST.0);
        }
        definition
    }

    /// The managed tool whose code it is.
    const fn managed(self) -> &'static str {
        match self {
            Self::Bash => "shell_exec",
            Self::Edit => "edit",
            Self::Read => "read",
            Self::Write => "write",
            Self::Glob => "glob",
            Self::Grep => "grep",
        }
    }

    fn described(self) -> (&'static str, Value) {
        let text = |what: &str| json!({ "type": "string", "description": what });
        match self {
            Self::Bash => (
                "Runs a bash command in a shell that stays: directory, variables and functions last from one command to the next.",
                object(
                    &[],
                    json!({
                        "command": text("The command. Needed unless `restart` is true."),
                        "restart": { "type": "boolean", "description": "Whether to end the shell and begin a fresh one first." },
                        "timeout_ms": { "type": "integer", "minimum": 1, "maximum": COMMAND_WAIT_MAX_MS, "description": "How long to wait for it; two minutes unless said." },
                    }),
                ),
            ),
            Self::Edit => (
                "Replaces an exact text in a file by another. The text must be there once, unless `replace_all` is true.",
                object(
                    &["file_path", "old_string", "new_string"],
                    json!({
                        "file_path": text("The file."),
                        "old_string": { "type": "string", "minLength": 1, "description": "What is there." },
                        "new_string": text("What shall be there."),
                        "replace_all": { "type": "boolean", "description": "Whether every place is meant." },
                    }),
                ),
            ),
            Self::Read => (
                "Reads a text file, or a range of its lines.",
                object(
                    &["file_path"],
                    json!({
                        "file_path": text("The file."),
                        "view_range": {
                            "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2,
                            "description": "The first and the last line, from 1; -1 as the last for the end of the file.",
                        },
                    }),
                ),
            ),
            Self::Write => (
                "Writes a whole file, making the directories above it.",
                object(
                    &["file_path", "content"],
                    json!({
                        "file_path": text("The file."),
                        "content": text("All that it shall hold."),
                    }),
                ),
            ),
            Self::Glob => (
                "Finds files by the form of their names, such as `**/*.rs`.",
                object(
                    &["pattern"],
                    json!({
                        "pattern": text("The form."),
                        "path": text("The directory to look in; the current one unless said."),
                    }),
                ),
            ),
            Self::Grep => (
                "Finds lines by a regular expression, with file and line number.",
                object(
                    &["pattern"],
                    json!({
                        "pattern": text("The regular expression."),
                        "path": text("The file, or the directory to look below; the current one unless said."),
                    }),
                ),
            ),
        }
    }

    /// The managed call that a call of the toolset is.
    fn meant(self, arguments: &ToolArguments) -> Result<(&'static str, Value), ToolError> {
        let given = |name: &str| arguments.get(name).cloned();
        let path = || given("path").unwrap_or_else(|| ".".into());
        Ok((
            self.managed(),
            match self {
                Self::Bash => return bash(arguments),
                Self::Edit => json!({
                    "path": given("file_path"),
                    "oldText": given("old_string"),
                    "newText": given("new_string"),
                    "replaceAll": given("replace_all").unwrap_or_else(|| false.into()),
                }),
                Self::Read => window(given("file_path"), arguments.get("view_range"))?,
                Self::Write => json!({ "path": given("file_path"), "content": given("content") }),
                Self::Glob => {
                    json!({ "path": path(), "pattern": given("pattern"), "limit": FOUND_MAX })
                }
                Self::Grep => json!({
                    "path": path(), "query": given("pattern"), "limit": FOUND_MAX,
                    "regex": true, "caseSensitive": true,
                }),
            },
        ))
    }
}

fn bash(arguments: &ToolArguments) -> Result<(&'static str, Value), ToolError> {
    let restart = arguments.get("restart") == Some(&Value::Bool(true));
    match arguments.get("command") {
        Some(command) => {
            let wait = arguments.get("timeout_ms").and_then(Value::as_u64);
            let wait = wait.unwrap_or(COMMAND_WAIT_MS);
            let call = json!({ "command": command, "restart": restart, "timeoutMs": wait });
            Ok(("shell_exec", call))
        }
        None if restart => Ok(("shell_restart", json!({}))),
        None => Err(ToolError::invalid("expected `command`, or `restart` as true")),
    }
}

fn window(path: Option<Value>, range: Option<&Value>) -> Result<Value, ToolError> {
    let Some(range) = range else { return Ok(json!({ "path": path, "maxChars": READ_CHARS })) };
    let at = |index: usize| range.get(index).and_then(Value::as_i64).unwrap_or_default();
    let (first, last) = (at(0), at(1));
    let last = if last == -1 { first.saturating_add(999_999) } else { last };
    if first < 1 || last < first {
        let message = format!("expected `view_range` as [first, last] from 1, found {range}");
        return Err(ToolError::invalid(message));
    }
    let count = (last - first + 1).min(1_000_000);
    Ok(json!({ "path": path, "maxChars": READ_CHARS, "startLine": first, "lineCount": count }))
}

/// Gives a node the toolset, beside the managed tools that [`crate::install`] gives it. A call
/// that someone is asked about waits for `suspend_ttl`.
pub fn install_agent_toolset(builder: HaftBuilder, suspend_ttl: Millis) -> HaftBuilder {
    AgentTool::ALL.into_iter().fold(builder, |builder, tool| {
        let needed = [tool.managed(), "shell_restart"];
        let inner = tools::all().into_iter().filter(|inner| needed.contains(&inner.name()));
        builder.tool(InToolset {
            tool,
            definition: tool.definition(suspend_ttl),
            inner: inner.collect(),
        })
    })
}

struct InToolset {
    tool: AgentTool,
    definition: Definition,
    inner: Vec<Managed>,
}

impl InToolset {
    fn meant(&self, arguments: &ToolArguments) -> Result<(&Managed, ToolArguments), ToolError> {
        let (name, meant) = self.tool.meant(arguments)?;
        let inner = self.inner.iter().find(|inner| inner.name() == name);
        let inner = inner.ok_or_else(|| ToolError::internal(format!("`{name}` is missing")))?;
        let meant = match meant {
            Value::Object(members) => members,
            _ => ToolArguments::new(),
        };
        Ok((inner, meant))
    }
}

impl Tool for InToolset {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn needs(&self) -> Vec<Need> {
        vec![Need::of::<Hands>()]
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin(async move {
            let (inner, meant) = self.meant(&arguments)?;
            Ok(in_words(inner.call(meant, context).await?))
        })
    }

    fn preview(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        Box::pin(async move {
            let (inner, meant) = self.meant(&arguments)?;
            inner.preview(meant, context).await
        })
    }
}

/// The model reads the text; what programs read stays beside it.
fn in_words(mut returned: Returned) -> Returned {
    if let CallResult::Ok(output) = &mut returned.result
        && output.content.is_empty()
    {
        let text = output.value.as_ref().and_then(|value| value.get("text"));
        let text = text.and_then(Value::as_str).unwrap_or("done").to_owned();
        output.content.push(ContentBlock::Text { text });
    }
    returned
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

fn schema(value: &Value) -> Schema {
    Schema::from_value(value)
        .unwrap_or_else(|error| unreachable!("a schema of the toolset: {error}"))
}
