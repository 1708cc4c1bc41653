//! Changing arguments before they run: in the person's own editor, else line by line.

use std::io::{Read as _, Seek as _, Write as _};

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::prompt::Lines;
use crate::terminal::{Paint, Tone};

/// Returns the changed arguments; nothing when they were left alone.
pub(crate) async fn edited(lines: &mut Lines, arguments: &Value) -> anyhow::Result<Option<Value>> {
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let changed = match editor.filter(|editor| !editor.trim().is_empty()) {
        Some(editor) => in_editor(&editor, arguments)?,
        None => inline(lines, arguments).await,
    };
    Ok(changed.filter(|changed| changed != arguments))
}

fn in_editor(editor: &str, arguments: &Value) -> anyhow::Result<Option<Value>> {
    let mut file = tempfile::Builder::new().prefix("haft-").suffix(".json").tempfile()?;
    file.write_all(serde_json::to_string_pretty(arguments)?.as_bytes())?;
    // The variable may hold arguments, as `code --wait` does; a shell is what reads it as such.
    #[expect(clippy::disallowed_methods, reason = "the person's own editor, at their own terminal")]
    let status = std::process::Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .with_context(|| format!("starting `{editor}`"))?;
    if !status.success() {
        return Ok(None);
    }
    let mut text = String::new();
    let mut file = std::fs::File::open(file.path())?;
    file.rewind()?;
    file.read_to_string(&mut text)?;
    match serde_json::from_str(&text) {
        Ok(changed) => Ok(Some(changed)),
        Err(error) => {
            let why = format!("  what you wrote is not JSON: {error}");
            eprintln!("{}", Paint::stderr().paint(Tone::Bad, &why));
            Ok(None)
        }
    }
}

async fn inline(lines: &mut Lines, arguments: &Value) -> Option<Value> {
    let mut changed: Map<String, Value> = arguments.as_object()?.clone();
    eprintln!("  a new value, or nothing to leave it as it is");
    for (name, value) in arguments.as_object()? {
        let named = crate::terminal::shortened(name, 80);
        let typed = lines.ask(&format!("  {named} > ")).await?;
        if typed.is_empty() {
            continue;
        }
        let read = match value {
            Value::String(_) => Value::String(typed),
            _ => serde_json::from_str(&typed).unwrap_or(Value::String(typed)),
        };
        changed.insert(name.clone(), read);
    }
    Some(Value::Object(changed))
}
