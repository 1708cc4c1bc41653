//! What the next question costs after a short and after a long history: it should be the same.

#![expect(clippy::print_stdout, reason = "the ratios are what a reader wants")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use divan::Bencher;
use haft_agent::transcript::{Budget, History, View};
use haft_core::session::Event;
use haft_core::tool::Retention;
use haft_core::{ContentBlock, MessageId};

fn main() {
    divan::main();
    // Tests run this once, unoptimised, to see that it runs.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios();
    }
}

const TEXT: &str = "The tide is out until noon, and the boats lie on the sand of the bay. ";
const BUDGET: Budget = Budget { tokens: 2000 };

/// One exchange: a message, a turn, an answer.
fn exchange(n: u64) -> [Event; 3] {
    let message = MessageId::from_bits(u128::from(n));
    let content = vec![ContentBlock::Text { text: TEXT.repeat(3) }];
    let turn = n as u32;
    let by = haft_core::Actor::system();
    [
        Event::MessageReceived { message, from: by, content: content.clone() },
        Event::TurnStarted { turn, messages: vec![message], wakes: Vec::new() },
        Event::TurnAnswered {
            turn,
            content,
            advertised: None,
            narrowed: Vec::new(),
            usage: None,
            provider_meta: None,
            context: None,
        },
    ]
}

fn history(n_events: u64) -> History {
    let mut history = History::of((1..=n_events / 3).flat_map(exchange));
    ask(&mut history, n_events / 3);
    history
}

/// The next question: what is new is read, and what is shown is chosen.
fn ask(history: &mut History, n: u64) {
    for event in exchange(n + 1) {
        history.take(history.seq() + 1, event);
    }
    let retention = |_: &str| Retention::NeverEvict;
    black_box(history.view(&View { turn: n as u32, budget: BUDGET, retention: &retention }));
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn next_question(bencher: Bencher<'_, '_>, n_events: u64) {
    let mut history = history(n_events);
    let mut n = n_events;
    bencher.bench_local(|| {
        n += 1;
        ask(&mut history, n);
    });
}

fn ratios() {
    let timed = |n_events: u64| {
        let mut history = history(n_events);
        let mut best = Duration::MAX;
        for n in 0..200 {
            let start = Instant::now();
            ask(&mut history, n_events + n);
            best = best.min(start.elapsed());
        }
        best
    };
    let floor = timed(30);
    for n_events in [100, 1_000, 10_000] {
        let ratio = timed(n_events).as_secs_f64() / floor.as_secs_f64();
        println!("the next question after {n_events} events costs {ratio:.2} times one after 30");
    }
}
