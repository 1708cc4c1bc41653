//! The judge of `cargo xtask faults` finds each kind of broken promise.

#[path = "../faults/judge.rs"]
mod judge;

use judge::{Acknowledgement, CallStatus, ObservedCall, ObservedWord, Violation, call, word};

fn approved(effects: usize, told: CallStatus) -> ObservedCall {
    ObservedCall {
        token: "t".to_owned(),
        acknowledged: Acknowledgement::Approved,
        approval_sent: true,
        effects,
        told,
    }
}

fn failed(class: &str) -> CallStatus {
    CallStatus::Failed { class: class.to_owned() }
}

#[test]
fn what_was_promised_and_holds_is_no_finding() {
    let unasked = ObservedCall {
        acknowledged: Acknowledgement::Proposed,
        approval_sent: false,
        ..approved(0, CallStatus::Waiting)
    };
    let unheard =
        ObservedCall { acknowledged: Acknowledgement::Nothing, ..approved(0, CallStatus::Missing) };
    let kept = [
        approved(1, CallStatus::Done),
        approved(1, CallStatus::InDoubt),
        approved(0, CallStatus::InDoubt),
        approved(0, failed("timeout")),
        approved(1, failed("interrupted")),
        unasked,
        unheard,
    ];
    for seen in kept {
        assert_eq!(call(&seen), [], "{seen:?}");
    }
    let said = ObservedWord { token: "w".to_owned(), is_acknowledged: true, recorded: 1 };
    assert_eq!(word(&said), None);
    assert_eq!(word(&ObservedWord { is_acknowledged: false, recorded: 0, ..said }), None);
}

#[test]
fn what_was_acknowledged_and_is_gone_is_lost() {
    let proposed = ObservedCall {
        acknowledged: Acknowledgement::Proposed,
        ..approved(0, CallStatus::Missing)
    };
    let stays = CallStatus::Unfinished { stage: "running".to_owned() };
    for seen in [proposed, approved(0, CallStatus::Waiting), approved(1, stays)] {
        assert!(matches!(call(&seen)[..], [Violation::Lost(_)]), "{seen:?}");
    }
    let said = ObservedWord { token: "w".to_owned(), is_acknowledged: true, recorded: 0 };
    assert!(matches!(word(&said), Some(Violation::Lost(_))));
}

#[test]
fn what_happened_twice_or_unasked_is_repeated() {
    let unasked = ObservedCall { approval_sent: false, ..approved(1, CallStatus::Done) };
    for seen in [approved(2, CallStatus::Done), approved(3, CallStatus::InDoubt), unasked] {
        assert!(matches!(call(&seen)[..], [Violation::Repeated(_)]), "{seen:?}");
    }
    let said = ObservedWord { token: "w".to_owned(), is_acknowledged: false, recorded: 2 };
    assert!(matches!(word(&said), Some(Violation::Repeated(_))));
}

#[test]
fn an_outcome_that_the_world_contradicts_is_claimed_wrongly() {
    let early = ObservedCall {
        acknowledged: Acknowledgement::Proposed,
        ..approved(1, CallStatus::Waiting)
    };
    for seen in [approved(0, CallStatus::Done), approved(1, failed("timeout")), early] {
        assert!(matches!(call(&seen)[..], [Violation::Certain(_)]), "{seen:?}");
    }
}

#[test]
fn a_broken_promise_names_its_column() {
    let what = || "it".to_owned();
    let broken = [
        Violation::Lost(what()),
        Violation::Repeated(what()),
        Violation::Certain(what()),
        Violation::Silent(what()),
    ];
    let shown = broken.map(|broken| broken.to_string());
    assert_eq!(shown, ["lost: it", "repeated: it", "claimed certain wrongly: it", "silent: it"]);
}
