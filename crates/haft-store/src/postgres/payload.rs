//! What one node tells the others in a notification: which sessions changed, and whether there are
//! wakes to claim.
//!
//! A payload is `1`, who tells it, `w` or `-`, and then for each session its id in hexadecimal and
//! either where its log ends (`…:12`) or that something beside its log changed (`…:`). A single
//! `*` in their place says that any session may have changed. Earlier versions sent nothing.

use std::collections::HashMap;
use std::fmt::Write as _;

use haft_core::SessionId;

/// PostgreSQL takes payloads of less than 8,000 bytes.
const LEN_MAX: usize = 7_900;

/// The longest form of one session: 32 digits of its id, a colon, 20 digits and a space.
const SESSION_LEN_MAX: usize = 54;

/// How many sessions are remembered while the others cannot be told.
const SESSIONS_MAX: usize = 10_000;

/// What the other nodes have not been told yet, or what one of them has told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Whether there may be something to claim.
    pub(super) has_wakes: bool,
    pub(super) sessions: Sessions,
}

/// Which sessions changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    /// Any of them may have.
    Any,
    /// These.
    These(HashMap<SessionId, Change>),
}

impl Default for Sessions {
    fn default() -> Self {
        Self::These(HashMap::new())
    }
}

/// What changed in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Its log ends with this entry.
    Appended(u64),
    /// Something beside its log, and maybe the log too.
    Touched,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        let nowhere = matches!(&self.sessions, Sessions::These(these) if these.is_empty());
        nowhere && !self.has_wakes
    }

    pub(super) fn add(&mut self, session: SessionId, change: Change) {
        let Sessions::These(these) = &mut self.sessions else { return };
        if these.len() >= SESSIONS_MAX && !these.contains_key(&session) {
            self.sessions = Sessions::Any;
            return;
        }
        let known = these.entry(session).or_insert(change);
        *known = match (*known, change) {
            (Change::Appended(one), Change::Appended(other)) => Change::Appended(one.max(other)),
            (Change::Touched, _) | (_, Change::Touched) => Change::Touched,
        };
    }

    /// Takes in what could not be told.
    pub(super) fn put_back(&mut self, untold: Self) {
        self.has_wakes |= untold.has_wakes;
        match untold.sessions {
            Sessions::Any => self.sessions = Sessions::Any,
            Sessions::These(these) => {
                these.into_iter().for_each(|(session, change)| self.add(session, change));
            }
        }
    }

    /// Writes it down in as many payloads as it takes.
    pub(super) fn payloads(&self, teller: &str) -> Vec<String> {
        let head = |has_wakes: bool| format!("1 {teller} {}", if has_wakes { 'w' } else { '-' });
        let mut current = head(self.has_wakes);
        let these = match &self.sessions {
            Sessions::Any => return vec![current + " *"],
            Sessions::These(these) => these,
        };
        let mut payloads = Vec::new();
        for (session, change) in these {
            if current.len() + SESSION_LEN_MAX > LEN_MAX {
                payloads.push(std::mem::replace(&mut current, head(false)));
            }
            // Writing to a text cannot fail.
            write!(current, " {:x}:", session.bits()).unwrap_or_default();
            if let Change::Appended(seq) = change {
                write!(current, "{seq}").unwrap_or_default();
            }
        }
        payloads.push(current);
        payloads
    }

    /// Reads a payload of another node; `None` for one of this teller's own.
    pub(super) fn read(payload: &str, teller: &str) -> Option<Self> {
        if payload.is_empty() {
            return Some(Self { has_wakes: true, sessions: Sessions::default() });
        }
        let mut words = payload.split(' ');
        let (version, by, wakes) = (words.next(), words.next(), words.next());
        if by == Some(teller) {
            return None;
        }
        let sessions = words.map(read_session).collect::<Option<HashMap<_, _>>>();
        Some(match (version, sessions) {
            (Some("1"), Some(these)) => {
                Self { has_wakes: wakes == Some("w"), sessions: Sessions::These(these) }
            }
            // `*`, or what a later version may write.
            _ => Self { has_wakes: true, sessions: Sessions::Any },
        })
    }
}

fn read_session(word: &str) -> Option<(SessionId, Change)> {
    let (id, seq) = word.split_once(':')?;
    let session = SessionId::from_bits(u128::from_str_radix(id, 16).ok()?);
    let change = match seq {
        "" => Change::Touched,
        seq => Change::Appended(seq.parse().ok()?),
    };
    Some((session, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(n_sessions: u64) -> News {
        let mut news = News { has_wakes: true, ..News::default() };
        for at in 1..=n_sessions {
            let change = if at % 3 == 0 { Change::Touched } else { Change::Appended(at) };
            news.add(SessionId::from_bits(u128::MAX - u128::from(at)), change);
        }
        news
    }

    #[test]
    fn what_is_written_in_payloads_is_read_from_them() {
        for n_sessions in [0, 1, 500] {
            let news = news(n_sessions);
            let payloads = news.payloads("me");
            assert!(payloads.iter().all(|payload| payload.len() < 8_000));
            let mut read = News::default();
            for payload in &payloads {
                assert_eq!(News::read(payload, "me"), None, "this node's own");
                read.put_back(News::read(payload, "you").unwrap());
            }
            assert_eq!(read, news);
        }
    }

    #[test]
    fn too_many_sessions_become_any_session() {
        let mut news = news(SESSIONS_MAX as u64 + 1);
        assert_eq!(news.sessions, Sessions::Any);
        news.add(SessionId::from_bits(1), Change::Touched);
        let payloads = news.payloads("me");
        assert_eq!(payloads, ["1 me w *"]);
        assert_eq!(News::read(&payloads[0], "you").unwrap().sessions, Sessions::Any);
    }

    #[test]
    fn an_earlier_version_tells_of_wakes_and_a_later_one_of_anything() {
        let earlier = News::read("", "me").unwrap();
        assert_eq!(earlier, News { has_wakes: true, sessions: Sessions::default() });
        let later = News::read("2 you x 12:y:z", "me").unwrap();
        assert_eq!(later, News { has_wakes: true, sessions: Sessions::Any });
    }
}
