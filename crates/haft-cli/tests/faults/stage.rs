//! What every row has in common: work before the fault, trouble during it, and afterwards
//! everything sent again, the server killed, and what is left compared with what was promised.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::cluster::{self, Cluster};
use crate::judge::{self, CallStatus, Violation};
use crate::ledger::{Ledger, RetryBy, Step};
use crate::place::Place;
use crate::serving::Serving;
use crate::table::Row;

/// How long a state may take to come about.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much of each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Short,
    Long,
}

impl Extent {
    pub(crate) const fn of(self, short: u32, long: u32) -> u32 {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// Causes a fault and shows what comes of it.
pub(crate) type Cause = fn(&mut Stage<'_>);

/// A fault of the table, and how it is caused on each store that can have it.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) on_sqlite: Option<Cause>,
    pub(crate) on_postgresql: Option<Cause>,
}

impl Fault {
    pub(crate) const fn on_both(name: &'static str, cause: Cause) -> Self {
        Self { name, on_sqlite: Some(cause), on_postgresql: Some(cause) }
    }

    pub(crate) const fn on_sqlite(name: &'static str, cause: Cause) -> Self {
        Self { name, on_sqlite: Some(cause), on_postgresql: None }
    }

    pub(crate) const fn on_postgresql(name: &'static str, cause: Cause) -> Self {
        Self { name, on_sqlite: None, on_postgresql: Some(cause) }
    }
}

/// What a row works with, and what it found.
pub(crate) struct Stage<'a> {
    pub(crate) place: Place,
    pub(crate) cluster: Option<&'a Cluster>,
    pub(crate) extent: Extent,
    pub(crate) ledger: Ledger,
    pub(crate) row: Row,
    session: Option<String>,
}

/// Plays one row of the table.
pub(crate) fn row(
    fault: &'static str,
    cluster: Option<&Cluster>,
    extent: Extent,
    cause: Cause,
) -> Row {
    let began = Instant::now();
    let row = Row {
        fault,
        store: if cluster.is_some() { "PostgreSQL" } else { "SQLite" },
        effects_wanted: 0,
        effects_counted: 0,
        acknowledged: 0,
        broken: Vec::new(),
        took: Duration::ZERO,
        nothing_shown: None,
    };
    let place = Place::new(cluster.map(fresh_database));
    let ledger = Ledger::default();
    let mut stage = Stage { place, cluster, extent, ledger, row, session: None };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| cause(&mut stage))) {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        stage.row.broken.push(Violation::Lost(format!("the row came to no end: {why}")));
    }
    Row { took: began.elapsed(), ..stage.row }
}

/// Each row has a database of its own.
fn fresh_database(cluster: &Cluster) -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let name = format!("fault_{}", COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let url = cluster.url();
    cluster::sql(&url, &format!("CREATE DATABASE {name}"));
    format!("{}/{name}", url.rsplit_once('/').unwrap().0)
}

impl Stage<'_> {
    /// Says why nothing is shown.
    pub(crate) fn leave_out(&mut self, why: &str) {
        self.row.nothing_shown = Some(why.to_owned());
    }

    /// The session that messages go to.
    pub(crate) fn session(&mut self, server: &Serving) -> String {
        self.session.get_or_insert_with(|| server.session()).clone()
    }

    /// Has calls run and words recorded, all acknowledged.
    pub(crate) fn work(&mut self, server: &Serving, n_calls: u32) {
        for _ in 0..n_calls {
            let call = self.approved(server, "pay");
            let was_entered = || self.place.was_entered(self.ledger.token(call)).then_some(());
            until("a call runs", was_entered);
        }
        let session = self.session(server);
        for again in [RetryBy::Key, RetryBy::Count] {
            let (message, opened) =
                (self.ledger.message(&session, again, 0), self.ledger.open(again));
            self.ledger.insist(server, Step::Say(message));
            self.ledger.insist(server, Step::Say(opened));
        }
    }

    /// Has a call proposed and approved, both acknowledged.
    pub(crate) fn approved(&mut self, server: &Serving, tool: &'static str) -> usize {
        let call = self.parked(server, tool);
        self.ledger.insist(server, Step::Approve(call));
        call
    }

    /// Has a call wait for its approval.
    pub(crate) fn parked(&mut self, server: &Serving, tool: &'static str) -> usize {
        let call = self.ledger.call(tool);
        self.ledger.insist(server, Step::Propose(call));
        call
    }

    /// Asks for everything once, whatever comes of it; returns how much was acknowledged.
    pub(crate) fn trouble(&mut self, server: &Serving, parked: &[usize]) -> usize {
        let session = self.session.clone().expect("there was work before the trouble");
        // What was acknowledged before would be answered from the record.
        let parked = parked.iter().filter(|call| !self.ledger.is_approved(**call));
        let mut steps: Vec<Step> = parked.map(|call| Step::Approve(*call)).collect();
        for again in [RetryBy::Key, RetryBy::Count] {
            steps.push(Step::Say(self.ledger.message(&session, again, 0)));
            steps.push(Step::Say(self.ledger.open(again)));
        }
        let call = self.ledger.call("pay");
        let n = steps.into_iter().filter(|step| self.ledger.send(server, *step)).count();
        if !self.ledger.send(server, Step::Propose(call)) {
            return n;
        }
        n + 1 + usize::from(self.ledger.send(server, Step::Approve(call)))
    }

    /// Something that must come about for a fault to be known.
    pub(crate) fn notices(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            if began.elapsed() > PATIENCE {
                return self.silent(what);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a probe answers with a status; if it does not, the fault is silent.
    pub(crate) fn notices_probe(&mut self, server: &Serving, path: &str, status: u16) {
        let what = format!("{path} does not answer {status}");
        self.notices(&what, || {
            let answer = server.attempt(("GET", path), "", "", PATIENCE);
            answer.is_some_and(|(found, ..)| found == status)
        });
    }

    /// Has a start refused in words that name the trouble.
    pub(crate) fn notices_at_start(&mut self, words: &str) {
        match self.place.refused_start() {
            None => self.silent("the server started as if nothing had happened"),
            Some(said) if said.contains(words) => {}
            Some(said) => self.silent(&format!("the start was refused without `{words}`: {said}")),
        }
    }

    pub(crate) fn silent(&mut self, what: &str) {
        self.row.broken.push(Violation::Silent(what.to_owned()));
    }

    /// Sends everything again, works on, kills the server, and compares.
    pub(crate) fn conclude(&mut self, server: Serving) {
        self.ledger.insist_on_all(&server);
        self.work(&server, 1);
        // Whatever still runs comes to an end first, so that this kill is no fault of its own.
        self.ledger.calls_seen(&server, &self.place);
        drop(server);
        let audit = self.place.haft(&["audit", "verify"]);
        if !audit.status.success() {
            let said = String::from_utf8_lossy(&audit.stdout).into_owned();
            let said = said + &String::from_utf8_lossy(&audit.stderr);
            self.row.broken.push(Violation::Lost(format!("the audit finds: {said}")));
        }
        let server = self.place.start(&[]);
        let calls = self.ledger.calls_seen(&server, &self.place);
        let words = self.ledger.words_seen(&server);
        let row = &mut self.row;
        let is_done = |told: &CallStatus| matches!(told, CallStatus::Done);
        row.effects_wanted = calls.iter().filter(|call| is_done(&call.told)).count();
        let counted = calls.iter().filter(|call| is_done(&call.told)).map(|call| call.effects);
        row.effects_counted = counted.sum();
        row.acknowledged = self.ledger.n_acknowledged();
        row.broken.extend(calls.iter().flat_map(judge::call));
        row.broken.extend(words.iter().filter_map(judge::word));
        row.broken.append(&mut self.ledger.broken);
        if row.effects_wanted == 0 {
            row.broken.push(Violation::Lost("no call was done, which proves nothing".to_owned()));
        }
    }
}

/// Waits for a state.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "not yet: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
