//! Where the chains of a store end, to be kept elsewhere and held against it later.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use haft_core::journal::Head;
use haft_core::{Digest, SessionId, Timestamp};
use haft_runtime::Clock;
use haft_store::{AuditFinding, AuditReport, Damage};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Verdict;
use crate::api::Reach;
use crate::terminal::say;
use crate::trouble::{Code, Trouble};

/// What a store had at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// The version of this form.
    format: u32,
    at: Timestamp,
    /// The record of keys, grants and policies.
    authority: Head,
    /// How many sessions were erased.
    erasures: u64,
    sessions: Vec<SeenLog>,
}

/// Where a session's log ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenLog {
    session: SessionId,
    #[serde(flatten)]
    head: Head,
}

const FORMAT: u32 = 1;

/// Verifies the store and prints where its chains end. A store that is not whole gives none: a
/// checkpoint says that all was well.
pub(super) fn write(reach: &Reach) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(reach.place().audit())?;
    if !report.is_whole() {
        for finding in &report.findings {
            say(&finding.message);
        }
        eprintln!("there is no checkpoint of a store that is not whole; see `haft audit verify`");
        return Ok(Verdict::Broken);
    }
    let checkpoint = Checkpoint::of(&report, Clock::System.now());
    say(&json!(checkpoint).to_string());
    Ok(Verdict::Holds)
}

impl Checkpoint {
    fn of(report: &AuditReport, at: Timestamp) -> Self {
        let hash = report.authority.last().copied().unwrap_or(Digest::ZERO);
        let authority = Head { seq: report.authority.len() as u64, hash };
        let logs = report.logs.iter();
        let sessions = logs.map(|log| SeenLog { session: log.session, head: log.head }).collect();
        Self { format: FORMAT, at, authority, erasures: report.erasures, sessions }
    }

    pub(super) fn read(path: &Path) -> Result<Self, Trouble> {
        let bad = |why: String| {
            Trouble::new(Code::BadArguments, format!("`{}` is no checkpoint", path.display()))
                .why(why)
                .next("name a file that `haft audit checkpoint` wrote")
        };
        let text = fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let read: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        match read.format {
            FORMAT => Ok(read),
            other => Err(bad(format!("its format is {other}, and this haft reads {FORMAT}"))),
        }
    }

    /// Where the logs of the sessions ended.
    pub(super) fn logs(&self) -> BTreeMap<SessionId, Head> {
        self.sessions.iter().map(|log| (log.session, log.head)).collect()
    }

    /// Adds what is not as it was when the checkpoint was made, beside the logs.
    pub(super) fn hold_against(&self, report: &mut AuditReport) {
        let (at, mut found) = (self.at, Vec::new());
        if !report.has_authority(self.authority) {
            let n = self.authority.seq;
            let message = format!(
                "the record of authority does not have entry {n} as the checkpoint of {at} saw it"
            );
            found.push((Damage::Authority, message));
        }
        if report.erasures < self.erasures {
            let message = format!(
                "{} sessions were erased when the checkpoint of {at} was made, and {} are now",
                self.erasures, report.erasures
            );
            found.push((Damage::Log, message));
        }
        let findings = found.into_iter();
        report.findings.extend(findings.map(|(damage, message)| AuditFinding {
            damage,
            session: None,
            message,
        }));
    }
}
