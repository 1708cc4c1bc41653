//! A kernel that lacks something: nothing runs with less than was asked for.
//!
//! A filter on the calling thread refuses system calls, and every stage inherits it: that is what
//! a container's own filter, or an older kernel, does.

use crate::place::{Place, at};
use crate::process::{launcher, said};
use haft_sandbox::environment::Variables;
use haft_sandbox::layers::{Layer, Standing};
use haft_sandbox::policy::{Limits, Policy, Requirement};
use haft_sandbox::process::{Command, Sandbox, SandboxError};
use haft_sandbox::shell::Shell;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;

/// Runs something in a thread for which, and for whose children, these calls fail.
fn without<T: Send>(calls: &[i64], errno: i32, run: impl FnOnce() -> T + Send) -> T {
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        calls.iter().map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(u32::try_from(errno).unwrap());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    std::thread::scope(|scope| {
        let confined = scope.spawn(move || {
            seccompiler::apply_filter(&program).unwrap();
            run()
        });
        confined.join().unwrap()
    })
}

fn policy(place: &Place) -> Policy {
    Policy::new(place.files.mounts().clone())
}

const LANDLOCK: &[i64] = &[libc::SYS_landlock_create_ruleset];

#[test]
fn without_landlock_nothing_runs_where_it_is_required() {
    let place = Place::new();
    let refused = without(LANDLOCK, libc::ENOSYS, || {
        Sandbox::open(&launcher(), &policy(&place)).unwrap_err().to_string()
    });
    assert!(refused.contains("Landlock"), "{refused}");
    let refused = without(LANDLOCK, libc::EOPNOTSUPP, || {
        let opened =
            Shell::open(&launcher(), &policy(&place), Limits::WORK, at("."), Variables::new());
        opened.unwrap_err().to_string()
    });
    assert!(refused.contains("Landlock"), "{refused}");
}

#[test]
fn without_landlock_a_policy_that_can_do_without_is_told_so() {
    let place = Place::new();
    without(LANDLOCK, libc::ENOSYS, || {
        let mut policy = policy(&place);
        policy.landlock = Requirement::WherePresent;
        let sandbox = Sandbox::open(&launcher(), &policy).unwrap();
        let landlock = sandbox.describe().iter().find(|report| report.layer == Layer::Landlock);
        assert!(matches!(landlock.unwrap().standing, Standing::Absent { .. }), "{landlock:?}");
        let command = Command::script("cat a.txt", at("."));
        assert_eq!(said(&sandbox.run(command).unwrap().wait()), "one\ntwo\nthree\n");
    });
}

#[test]
fn without_namespaces_or_mounts_nothing_runs() {
    let place = Place::new();
    for (calls, what) in [
        (&[libc::SYS_unshare][..], "namespace"),
        (&[libc::SYS_mount, libc::SYS_move_mount, libc::SYS_fsmount], "could not"),
        (&[libc::SYS_pivot_root], "could not"),
    ] {
        let refused = without(calls, libc::EPERM, || {
            Sandbox::open(&launcher(), &policy(&place)).unwrap_err().to_string()
        });
        assert!(refused.contains(what), "{calls:?}: {refused}");
    }
}

#[test]
fn without_seccomp_or_dropped_rights_no_command_runs() {
    let place = Place::new();
    for calls in [
        &[libc::SYS_seccomp][..],
        &[libc::SYS_prlimit64, libc::SYS_setrlimit],
        &[libc::SYS_capset],
        &[libc::SYS_landlock_restrict_self],
    ] {
        let ran = without(calls, libc::EPERM, || -> Result<(), SandboxError> {
            let sandbox = Sandbox::open(&launcher(), &policy(&place))?;
            sandbox.run(Command::script("touch ran", at("."))).map(drop)
        });
        assert!(ran.is_err(), "{calls:?}: it ran");
        assert!(!place.host().join("ran").exists(), "{calls:?}: it ran");
    }
}
