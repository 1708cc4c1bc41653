//! The table: a row for each fault on each store, and what all of them come to.

use std::fmt;
use std::time::Duration;

use crate::judge::Violation;

/// What one fault on one store came to.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) store: &'static str,
    /// How many calls are done or, as far as the server knows, may be.
    pub(crate) effects_wanted: usize,
    pub(crate) effects_counted: usize,
    pub(crate) acknowledged: usize,
    pub(crate) broken: Vec<Violation>,
    pub(crate) took: Duration,
    /// Why nothing was shown, if that is so.
    pub(crate) nothing_shown: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held,
    Broken,
    /// The machine does not allow for the fault.
    LeftOut,
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "BROKEN",
            Self::LeftOut => "left out",
        }
    }
}

impl Row {
    pub(crate) fn verdict(&self) -> Verdict {
        match (&self.nothing_shown, self.broken.as_slice()) {
            (None, []) if self.acknowledged > 0 => Verdict::Held,
            (Some(_), []) => Verdict::LeftOut,
            // A row in which nothing succeeded proves nothing.
            _ => Verdict::Broken,
        }
    }

    fn count(&self, is: fn(&Violation) -> bool) -> usize {
        self.broken.iter().filter(|broken| is(broken)).count()
    }

    fn counts(&self) -> [usize; 4] {
        [
            self.count(|broken| matches!(broken, Violation::Lost(_))),
            self.count(|broken| matches!(broken, Violation::Repeated(_))),
            self.count(|broken| matches!(broken, Violation::Certain(_))),
            self.count(|broken| matches!(broken, Violation::Silent(_))),
        ]
    }
}

/// The first two lines of the table.
pub(crate) fn head() -> String {
    let titles = line([
        "fault",
        "store",
        "effects wanted/counted",
        "acknowledged/lost",
        "repeated",
        "claimed certain wrongly",
        "silent",
        "verdict",
    ]);
    let rule: String = titles.chars().map(|c| if c == '|' { '|' } else { '-' }).collect();
    format!("{titles}\n{rule}")
}

fn line(cells: [&str; 8]) -> String {
    let [fault, store, effects, acknowledged, repeated, certain, silent, verdict] = cells;
    format!(
        "| {fault:<42} | {store:<10} | {effects:>22} | {acknowledged:>17} | {repeated:>8} | \
         {certain:>23} | {silent:>6} | {verdict:<16} |"
    )
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [lost, repeated, certain, silent] = self.counts();
        let effects = format!("{}/{}", self.effects_wanted, self.effects_counted);
        let acknowledged = format!("{}/{lost}", self.acknowledged);
        let verdict = format!("{}, {:.0} s", self.verdict().as_str(), self.took.as_secs_f64());
        let (repeated, certain, silent) =
            (repeated.to_string(), certain.to_string(), silent.to_string());
        let cells = [self.fault, self.store, &effects, &acknowledged, &repeated, &certain, &silent];
        let [a, b, c, d, e, g, h] = cells;
        f.write_str(&line([a, b, c, d, e, g, h, &verdict]))?;
        for broken in &self.broken {
            write!(f, "\n    {broken}")?;
        }
        match &self.nothing_shown {
            Some(why) => write!(f, "\n    left out: {why}"),
            None if self.acknowledged == 0 => f.write_str("\n    nothing was acknowledged"),
            None => Ok(()),
        }
    }
}

/// One line over all rows.
pub(crate) fn summary(rows: &[Row]) -> String {
    let total = |at: usize| rows.iter().map(|row| row.counts()[at]).sum::<usize>();
    let n = |verdict: Verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    format!(
        "faults: {} held, {} broken, {} left out; {} acknowledged, {} lost, {} repeated, {} claimed \
         certain wrongly, {} silent",
        n(Verdict::Held),
        n(Verdict::Broken),
        n(Verdict::LeftOut),
        rows.iter().map(|row| row.acknowledged).sum::<usize>(),
        total(0),
        total(1),
        total(2),
        total(3),
    )
}
