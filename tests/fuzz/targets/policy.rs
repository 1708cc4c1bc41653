//! Policy files: whatever somebody wrote, it is read or refused with a reason.
#![no_main]

use haft_runtime::PolicyFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<PolicyFile>() {
        Ok(policy) => {
            let again: PolicyFile = text.parse().expect("it is read the same way twice");
            assert_eq!(policy.n_rules(), again.n_rules());
            drop(policy.idle(&["write", "refund"]));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
