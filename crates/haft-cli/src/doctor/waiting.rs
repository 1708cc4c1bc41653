//! What waits for someone.

use haft_core::session::SuspensionKind;
use haft_store::Standing;

use super::finding::Finding;

const NAME: &str = "waiting";

pub(super) fn told(standing: &Standing) -> Finding {
    let of = |wanted: fn(&SuspensionKind) -> bool| -> u64 {
        let counted = standing.waiting.iter().filter(|(kind, _)| wanted(kind));
        counted.map(|(_, n)| n).sum()
    };
    let n_doubt = of(|kind| *kind == SuspensionKind::Settlement);
    // What another session works on waits for nobody outside.
    let n_all = of(|kind| *kind != SuspensionKind::Child);
    counted(n_all, n_doubt)
}

/// The same of numbers: how many calls wait, and how many of them are in doubt.
pub(super) fn counted(n_all: u64, n_doubt: u64) -> Finding {
    let message = format!("calls that wait for someone: {n_all}, in doubt: {n_doubt}");
    match n_doubt {
        0 => Finding::ok(NAME, message),
        _ => Finding::warning(
            NAME,
            message,
            "`haft pending` lists them; `haft settle CALL` says what became of one in doubt",
        ),
    }
}
