//! Finding what a person means by the beginning of an id.

use serde_json::Value;

use super::Api;
use crate::trouble::{Code, Trouble};

/// The fewest characters of an id that are shown: its first ten tell the time.
const SHOWN_MIN: usize = 12;

impl Api {
    /// Everything that waits and that the caller may see.
    pub(crate) async fn pending(&self) -> Result<Vec<Value>, Trouble> {
        Ok(rows(self.get("/haft/v1/pending?limit=500").await?))
    }

    /// Finds the wait that an id, or the beginning of one, names.
    pub(crate) async fn wait(&self, id: &str) -> Result<Value, Trouble> {
        let waits = self.pending().await?;
        let found = one(id, "call", &waits, |wait| wait["call"].as_str())?;
        found.cloned().ok_or_else(|| {
            Trouble::new(Code::NoCall, format!("no call that waits begins with `{id}`"))
                .why("it was decided or has run out of time, or the id belongs to something else")
                .next("`haft pending` lists what waits; `haft sessions trace` tells what became of calls")
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
