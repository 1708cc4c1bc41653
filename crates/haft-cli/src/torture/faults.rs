//! Tools that do not end as they should: their time is up, they are told to stop, or their
//! connection breaks. Half of them had taken effect by then, and nobody can tell which half.

use haft_core::session::{AttemptEnded, AttemptReport, Call, EffectUnknown, Input, Returned};
use haft_core::tool::{InterruptBehavior, Mutates, ToolSpec};
use haft_core::{CallResult, ErrorClass, Failure, Millis};
use haft_runtime::CancellationToken;

use super::life::tool;
use super::world::Pen;

/// How long a call may take that never ends.
const TIME: Millis = Millis(30);

/// The tools with faults, all of which must not be repeated.
pub(super) struct FaultyTools {
    pub(super) slow: ToolSpec,
    pub(super) halted: ToolSpec,
    pub(super) lost: ToolSpec,
}

impl FaultyTools {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            slow: tool(Fault::OutOfTime.tool(), Mutates::Irreversible, |d| d.exec_timeout = TIME)?,
            halted: tool(Fault::Stopped.tool(), Mutates::Irreversible, |d| {
                d.interrupt = InterruptBehavior::Cancel;
                d.exec_timeout = TIME;
            })?,
            lost: tool(Fault::ConnectionLost.tool(), Mutates::Irreversible, |_| {})?,
        })
    }
}

/// How the first attempt of a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It never returns, and does not heed that it should stop.
    OutOfTime,
    /// It waits until it is told to stop, and fails.
    Stopped,
    /// Its connection breaks after the request was sent, or before; it cannot tell.
    ConnectionLost,
}

impl Fault {
    const ALL: [Self; 3] = [Self::OutOfTime, Self::Stopped, Self::ConnectionLost];

    const fn tool(self) -> &'static str {
        match self {
            Self::OutOfTime => "pay_slowly",
            Self::Stopped => "pay_until_stopped",
            Self::ConnectionLost => "pay_by_wire",
        }
    }

    /// Returns what befalls a call. A second attempt, which a person asked for, goes well.
    pub(super) fn of(call: &Call) -> Option<Self> {
        let is_hers = |fault: &Self| fault.tool() == call.contract.tool.as_str();
        Self::ALL.into_iter().find(is_hers).filter(|_| call.attempts == 1)
    }

    /// Takes effect, or does not, and ends without a result.
    pub(super) async fn strike(
        self,
        pen: &Pen,
        call: &Call,
        attempt: u32,
        stop: &CancellationToken,
    ) -> Input {
        let paid = if call.id.bits().is_multiple_of(2) { pen.effect(call.id) } else { Ok(()) };
        let report = match (paid, self) {
            (Err(error), _) => {
                let failure = Failure::new(ErrorClass::ToolError, error.to_string());
                AttemptReport::Returned(Returned::from(CallResult::Err(failure)))
            }
            (Ok(()), Self::OutOfTime) => std::future::pending().await,
            (Ok(()), Self::Stopped) => {
                stop.cancelled().await;
                let failure = Failure::new(ErrorClass::ToolError, "the pipe was closed");
                AttemptReport::Returned(Returned::from(CallResult::Err(failure)))
            }
            (Ok(()), Self::ConnectionLost) => {
                let failure = Failure::new(ErrorClass::Interrupted, "the connection broke");
                AttemptReport::EffectUnknown(EffectUnknown { failure, may_still_run: false })
            }
        };
        Input::AttemptEnded(AttemptEnded { call: call.id, attempt, report })
    }
}
