//! How a session stands with its goal, document 002's outcome: graded, evaluated, and how that
//! moved from run to run. Pure, over what the log tells.

mod evaluate;
mod evidence;
mod grade;

pub(crate) use evaluate::{Assessment, assess};
pub(crate) use grade::{GradeStatus, NextStep};

use haft_core::session::Goal;
use serde_json::Value;

use crate::chronicle::Run;

/// Everything that is weighed.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub(crate) goal: Option<&'a Goal>,
    /// Where the goal was set; what stands before it shows nothing.
    pub(crate) since: u64,
    /// The runs, oldest first.
    pub(crate) runs: &'a [Run],
    /// What the session's own notes say.
    pub(crate) notes: &'a [&'a str],
    pub(crate) blocked: Option<Blocked>,
    pub(crate) sleep: Sleep,
    pub(crate) shell: Shell,
}

/// A call that waits for someone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blocked {
    pub(crate) tool: String,
    /// The call that does the same without asking anyone, if there is one.
    pub(crate) alternative: Option<(String, Value)>,
}

/// Whether the session will run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    None,
    Scheduled,
}

/// Whether a command runs in the session's persistent shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Quiet,
    Busy,
}
