//! Names that are swapped while files are opened: nothing leaves.

use crate::place::{CANARY, Place, at};
use haft_sandbox::files::{Expected, Parents, Window};
use haft_sandbox::search::{Bounds, Case, Glob, Grep, Hidden, Ignores, Query};
use rustix::fs::{CWD, RenameFlags};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `tries` while a directory and a link that leads out are exchanged all the time.
fn while_swapped(place: &Place, tries: impl FnOnce()) {
    place.put("d/f", "inside");
    symlink(place.outside(), place.host().join("link")).unwrap();
    let done = AtomicBool::new(false);
    let (directory, link) = (place.host().join("d"), place.host().join("link"));
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut swaps = 0_u32;
            while !done.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE)
                    .unwrap();
                swaps += 1;
            }
            swaps
        });
        tries();
        done.store(true, Ordering::Relaxed);
        assert!(swapping.join().unwrap() > 100, "the names were swapped under way");
    });
}

// D8
#[test]
fn d8_a_read_never_returns_what_lies_outside() {
    let place = Place::new();
    let mut inside = 0;
    while_swapped(&place, || {
        let mut tries = 0;
        while tries < 20_000 || inside == 0 {
            tries += 1;
            if let Ok(reading) = place.files.read(&at("d/f"), Window::Whole, 100) {
                assert_eq!(reading.bytes, b"inside");
                inside += 1;
            }
        }
    });
    place.check_canaries();
}

// D8
#[test]
fn d8_a_write_never_lands_outside() {
    let place = Place::new();
    let mut written = 0;
    while_swapped(&place, || {
        let mut tries = 0;
        while tries < 1500 || written == 0 {
            tries += 1;
            let write =
                place.files.write(&at("d/f"), b"inside", Expected::Anything, Parents::Create);
            written += u32::from(write.is_ok());
        }
    });
    place.check_canaries();
}

// D8
#[test]
fn d8_a_search_never_shows_what_lies_outside() {
    let place = Place::new();
    let grep = Grep::new(Query::Text(&CANARY[..6]), Case::Sensitive).unwrap();
    let glob = Glob::parse("secret").unwrap();
    let rules = (Hidden::Include, Ignores::Respect);
    while_swapped(&place, || {
        for _ in 0..1500 {
            assert_eq!(
                place.files.grep(&at("."), &grep, rules, Bounds::default()).unwrap().total,
                0
            );
            assert_eq!(
                place.files.glob(&at("."), &glob, None, rules, Bounds::default()).unwrap().total,
                0
            );
        }
    });
    place.check_canaries();
}
