//! Asking a person at the terminal, line by line.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use rustix::termios::QueueSelector;
use serde_json::{Map, Number, Value};
use tokio::sync::mpsc;

use crate::terminal::{Paint, Tone, printable};

/// What someone types, a line at a time. Read by a thread of its own: reading a terminal cannot be
/// given up halfway, and whatever waits for a line may have to stop waiting.
#[derive(Debug)]
pub(crate) struct Lines {
    typed: mpsc::UnboundedReceiver<String>,
}

impl Lines {
    pub(crate) fn of_stdin() -> Self {
        let (sender, typed) = mpsc::unbounded_channel();
        drop(std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_ok_and(|line| sender.send(line).is_ok()) {
                    continue;
                }
                return;
            }
        }));
        Self { typed }
    }

    /// Returns the next line; nothing when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.typed.recv().await
    }

    /// Asks for a line on the terminal.
    pub(crate) async fn ask(&mut self, question: &str) -> Option<String> {
        prompt(question);
        self.next().await
    }

    /// Call it when what is to be decided has been drawn, before asking: only what is typed from
    /// now on counts. Whatever was typed before was meant for something else; it is discarded, and
    /// the person is told.
    pub(crate) async fn discard_what_was_typed_before(&mut self) {
        if !std::io::stdin().is_terminal() {
            return;
        }
        tokio::time::sleep(ARMING).await;
        // What was typed without Enter is still in the terminal, not in the channel.
        rustix::termios::tcflush(std::io::stdin(), QueueSelector::IFlush).ok();
        let mut n_discarded = 0;
        while self.typed.try_recv().is_ok() {
            n_discarded += 1;
        }
        if n_discarded > 0 {
            let note = "what was typed before this question was not taken as an answer";
            eprintln!("  {}", Paint::stderr().paint(Tone::Warn, note));
        }
    }
}

/// How long a new question takes no answer: whoever was typing did not mean it.
const ARMING: Duration = Duration::from_millis(500);

/// Writes a prompt that the cursor stays behind.
pub(crate) fn prompt(text: &str) {
    let mut err = std::io::stderr().lock();
    // Whoever closed their terminal is found out by reading from it.
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    Answer(Value),
    /// They would rather not.
    Declined,
    /// They left.
    Left,
}

/// An answer that did not fit, of which only what misfits is asked again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Earlier {
    answer: Map<String, Value>,
    misfits: Vec<String>,
}

impl Earlier {
    /// Finds the members that a misfit names; `None` when it names none, so that all is asked.
    pub(crate) fn of(answer: &Value, misfit: &str, schema: &Value) -> Option<Self> {
        let is_named = |name: &&String| {
            let place = format!("`/{}", name.replace('~', "~0").replace('/', "~1"));
            misfit.contains(&format!("{place}`")) || misfit.contains(&format!("{place}/"))
        };
        let members = schema["properties"].as_object()?;
        let misfits: Vec<String> = members.keys().filter(is_named).cloned().collect();
        let answer = answer.as_object()?.clone();
        (!misfits.is_empty()).then_some(Self { answer, misfits })
    }
}

/// Asks for a value of a schema: an object member by member, anything else at once.
pub(crate) async fn form(lines: &mut Lines, schema: &Value, earlier: Option<&Earlier>) -> Asked {
    let Some(members) = schema["properties"].as_object() else {
        return one(lines, "answer", schema, Need::Required).await;
    };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut answer = earlier.map(|earlier| earlier.answer.clone()).unwrap_or_default();
    let is_asked = |name: &String| earlier.is_none_or(|earlier| earlier.misfits.contains(name));
    for (name, member) in members.iter().filter(|(name, _)| is_asked(name)) {
        answer.remove(name);
        let need = match required.contains(&name.as_str()) {
            true => Need::Required,
            false => Need::Optional,
        };
        match one(lines, name, member, need).await {
            Asked::Answer(Value::Null) if need == Need::Optional => {}
            Asked::Answer(value) => {
                answer.insert(name.clone(), value);
            }
            over @ (Asked::Declined | Asked::Left) => return over,
        }
    }
    Asked::Answer(Value::Object(answer))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Optional,
    Required,
}

async fn one(lines: &mut Lines, name: &str, schema: &Value, need: Need) -> Asked {
    let paint = Paint::stderr();
    let title = schema["title"].as_str().or_else(|| schema["description"].as_str()).unwrap_or(name);
    let hint = paint.paint(Tone::Dim, &hint(schema, need));
    loop {
        let question = format!("  {} {hint} ", printable(title));
        let Some(typed) = lines.ask(&question).await else { return Asked::Left };
        match read(typed.trim(), schema, need) {
            Ok(value) => return Asked::Answer(value),
            Err(Unread::Declined) => return Asked::Declined,
            Err(Unread::Misfit(why)) => eprintln!("  {}", paint.paint(Tone::Bad, &why)),
        }
    }
}

fn hint(schema: &Value, need: Need) -> String {
    let choices: Vec<String> = schema["enum"].as_array().into_iter().flatten().map(word).collect();
    let what = match (choices.is_empty(), schema["type"].as_str()) {
        (false, _) => choices
            .iter()
            .enumerate()
            .map(|(at, choice)| format!("{}) {choice}", at + 1))
            .collect::<Vec<_>>()
            .join("  "),
        (true, Some("boolean")) => "y/n".to_owned(),
        (true, Some("integer" | "number")) => bounds(schema),
        (true, _) => String::new(),
    };
    let may = if need == Need::Optional { "or nothing" } else { "" };
    let inside = [what.as_str(), may]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    if inside.is_empty() { ">".to_owned() } else { format!("[{inside}] >") }
}

fn bounds(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(least), Value::Number(most)) => format!("{least} to {most}"),
        (Value::Number(least), _) => format!("at least {least}"),
        (_, Value::Number(most)) => format!("at most {most}"),
        _ => "a number".to_owned(),
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[derive(Debug, PartialEq)]
enum Unread {
    Declined,
    Misfit(String),
}

/// Reads what was typed as the schema has it. Whether it fits altogether the server says.
fn read(typed: &str, schema: &Value, need: Need) -> Result<Value, Unread> {
    let misfit = |why: &str| Err(Unread::Misfit(why.to_owned()));
    if typed == "/decline" {
        return Err(Unread::Declined);
    }
    if typed.is_empty() {
        return match need {
            Need::Optional => Ok(Value::Null),
            Need::Required => misfit("this one is needed; `/decline` answers nothing at all"),
        };
    }
    if let Some(choices) = schema["enum"].as_array() {
        let by_number = typed.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
        let chosen = choices.iter().find(|choice| word(choice) == typed).or(by_number);
        return chosen
            .cloned()
            .ok_or_else(|| Unread::Misfit("choose one by its word or number".to_owned()));
    }
    match schema["type"].as_str() {
        Some("boolean") => match typed.to_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(Value::Bool(true)),
            "n" | "no" | "false" => Ok(Value::Bool(false)),
            _ => misfit("type `y` or `n`"),
        },
        Some("integer" | "number") => match typed.parse::<Number>() {
            Ok(number) if is_within(&number, schema) => Ok(Value::Number(number)),
            Ok(_) => misfit(&format!("type a number, {}", bounds(schema))),
            Err(_) => misfit("type a number"),
        },
        Some("string") => Ok(Value::String(typed.to_owned())),
        _ => serde_json::from_str(typed).or_else(|_| Ok(Value::String(typed.to_owned()))),
    }
}

fn is_within(number: &Number, schema: &Value) -> bool {
    let Some(number) = number.as_f64() else { return true };
    let is_enough = schema["minimum"].as_f64().is_none_or(|least| number >= least);
    let is_too_much = schema["maximum"].as_f64().is_some_and(|most| number > most);
    is_enough && !is_too_much
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_misfits_is_asked_again() {
        let schema = json!({ "properties": { "reader": {}, "readers": {}, "tone": {} } });
        let answer = json!({ "reader": "x", "tone": "plain" });
        let misfit = "`/reader`: expected at least 2 characters, found \"x\"";
        let earlier = Earlier::of(&answer, misfit, &schema).unwrap();
        assert_eq!(earlier.misfits, ["reader"]);
        assert_eq!(Earlier::of(&answer, "expected an object, found null", &schema), None);
    }

    #[test]
    fn what_is_typed_becomes_what_the_schema_asks_for() {
        let number = json!({ "type": "integer", "minimum": 1, "maximum": 40 });
        let tone = json!({ "type": "string", "enum": ["plain", "formal"] });
        assert_eq!(read("7", &number, Need::Required), Ok(json!(7)));
        let too_many = Unread::Misfit("type a number, 1 to 40".to_owned());
        assert_eq!(read("41", &number, Need::Required), Err(too_many));
        assert_eq!(hint(&number, Need::Optional), "[1 to 40, or nothing] >");
        assert_eq!(read("2", &tone, Need::Required), Ok(json!("formal")));
        assert_eq!(read("plain", &tone, Need::Required), Ok(json!("plain")));
        assert!(matches!(read("loud", &tone, Need::Required), Err(Unread::Misfit(_))));
        assert_eq!(read("", &tone, Need::Optional), Ok(Value::Null));
        assert_eq!(read("/decline", &tone, Need::Required), Err(Unread::Declined));
        assert_eq!(read("yes", &json!({ "type": "boolean" }), Need::Required), Ok(json!(true)));
    }
}
