//! Finding what a person means by the beginning of an id.

use haft_core::Timestamp;
use serde_json::Value;

use super::Api;
use crate::resolving::decision;
use crate::trouble::{Code, Trouble};

/// The fewest characters of an id that are shown: its first ten tell the time.
const SHOWN_MIN: usize = 12;

impl Api {
    /// Everything that waits and that the caller may see, page by page.
    pub(crate) async fn pending(&self) -> Result<Vec<Value>, Trouble> {
        Ok(self.pages("/haft/v1/pending?limit=500", None).await?.rows)
    }

    /// Reads a list to its end, or as much of it as is wanted. Its path has a query already.
    pub(crate) async fn pages(&self, path: &str, most: Option<usize>) -> Result<Listed, Trouble> {
        let (mut listed, mut next) = (Vec::new(), String::new());
        loop {
            let mut page = self.get(&format!("{path}{next}")).await?;
            let cursor = page["next_page"].take();
            listed.extend(rows(page));
            let is_enough = most.is_some_and(|most| listed.len() >= most);
            match cursor.as_str() {
                Some(cursor) if !is_enough => next = format!("&page={cursor}"),
                cursor => {
                    let most = most.unwrap_or(usize::MAX);
                    let has_more = cursor.is_some() || listed.len() > most;
                    listed.truncate(most);
                    return Ok(Listed { rows: listed, has_more });
                }
            }
        }
    }

    /// Finds the wait that an id, or the beginning of one, names. Of a call that no longer waits
    /// it is told who decided what and when.
    pub(crate) async fn wait(&self, id: &str) -> Result<Value, Trouble> {
        match wait_of(id, &self.pending().await?)? {
            Some(wait) => Ok(wait),
            None => Err(over(&self.call(id).await?)),
        }
    }

    /// Finds a call by its id, or the beginning of one, whether it waits or not.
    pub(crate) async fn call(&self, id: &str) -> Result<Value, Trouble> {
        let begins = if id.starts_with("call_") { id.to_owned() } else { format!("call_{id}") };
        let is_an_id = begins.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let found = match is_an_id {
            true => self.get(&format!("/haft/v1/calls?begins={begins}")).await,
            false => Ok(Value::Null),
        };
        let found = match found {
            // What cannot begin an id begins none.
            Err(error) if error.code() == "invalid_request_error" => Vec::new(),
            found => rows(found?),
        };
        let call = one(&begins, "call", &found, |call| call["call"].as_str())?;
        call.cloned().ok_or_else(|| {
            Trouble::new(Code::NoCall, format!("no call begins with `{id}`"))
                .why("the id belongs to something else, or to a session that this key may not see")
                .next("`haft pending` lists what waits; `haft sessions trace` shows a session's calls")
        })
    }

    /// Finds the session that an id, or the beginning of one, names.
    pub(crate) async fn session(&self, id: &str) -> Result<String, Trouble> {
        if id.parse::<haft_core::SessionId>().is_ok() {
            return Ok(id.to_owned());
        }
        let listed = rows(self.get("/haft/v1/sessions?limit=200").await?);
        let found = one(id, "sesn", &listed, |session| session["id"].as_str())?;
        let found = found.and_then(|session| session["id"].as_str()).map(str::to_owned);
        found.ok_or_else(|| {
            Trouble::new(Code::NoSession, format!("no session begins with `{id}`"))
                .why("the last 200 sessions that this key may see were looked at")
                .next("`haft sessions list` lists them")
        })
    }
}

/// As much of a list as was wanted.
pub(crate) struct Listed {
    pub(crate) rows: Vec<Value>,
    /// Whether there is more than that.
    pub(crate) has_more: bool,
}

fn wait_of(id: &str, waits: &[Value]) -> Result<Option<Value>, Trouble> {
    Ok(one(id, "call", waits, |wait| wait["call"].as_str())?.cloned())
}

/// Says what became of a call that nobody has to decide about.
fn over(call: &Value) -> Trouble {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (tool, session) = (text(&call["called"]), text(&call["session"]));
    let decided = &call["decided"];
    let Some(at) = decided["at"].as_i64().map(Timestamp::from_ms) else {
        return Trouble::new(Code::NoCall, format!("this call of {tool} waits for nobody"))
            .why(format!("it is {}", text(&call["stage"])))
            .next(format!("`haft sessions trace {session}` tells what became of it"));
    };
    let (word, by) = (text(&decided["decision"]), text(&decided["by"]["id"]));
    let by = match decided["by"]["kind"].as_str() {
        Some("system") => String::new(),
        _ => format!(" by {by}"),
    };
    Trouble::new(Code::Stale, format!("{tool} was {}{by} at {at}", decision(&word)))
        .why("a wait is ended once")
        .next(format!("nothing is left to decide; `haft sessions trace {session}` tells the rest"))
}

/// The rows of a list.
pub(crate) fn rows(mut list: Value) -> Vec<Value> {
    match list["data"].take() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}

fn one<'a>(
    id: &str,
    prefix: &str,
    rows: &'a [Value],
    named: impl Fn(&Value) -> Option<&str>,
) -> Result<Option<&'a Value>, Trouble> {
    let begins = |row: &Value| {
        named(row)
            .is_some_and(|name| name.starts_with(id) || name.starts_with(&format!("{prefix}_{id}")))
    };
    let found: Vec<&Value> = rows.iter().filter(|row| begins(row)).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, ..] => {
            let what = format!("`{id}` begins {} ids", found.len());
            let next = format!("give more of it, such as `{}`", named(first).unwrap_or_default());
            Err(Trouble::new(Code::AmbiguousId, what).next(next))
        }
    }
}

/// The shortest beginnings that tell these ids apart.
pub(crate) fn short(id: &str, all: &[&str]) -> String {
    let start = id.find('_').map_or(0, |at| at + 1);
    let is_unique = |n: usize| {
        let begin = &id[..n];
        all.iter().filter(|other| **other != id).all(|other| !other.starts_with(begin))
    };
    let fewest = (start + SHOWN_MIN).min(id.len());
    let n = (fewest..id.len()).find(|n| is_unique(*n)).unwrap_or(id.len());
    id[..n].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_shortened_to_what_tells_them_apart() {
        let all = ["call_01k5c3q7xyab1", "call_01k5c3q7xyab2", "call_02k5c3q7xyab1"];
        assert_eq!(short(all[2], &all), "call_02k5c3q7xyab");
        assert_eq!(short(all[0], &all), "call_01k5c3q7xyab1");
    }

    #[test]
    fn a_beginning_names_one_thing_or_nothing() {
        let rows = [json!({ "id": "sesn_01ab" }), json!({ "id": "sesn_02cd" })];
        let find = |id: &str| one(id, "sesn", &rows, |row| row["id"].as_str());
        assert_eq!(find("sesn_01").unwrap(), Some(&rows[0]));
        assert_eq!(find("02").unwrap(), Some(&rows[1]));
        assert_eq!(find("03").unwrap(), None);
        assert_eq!(find("sesn_0").unwrap_err().code(), "ambiguous_id");
    }
}
