//! Commands that take long hold no thread that others need.

use std::time::Duration;

use haft_runtime::testing::object;
use haft_runtime::{Answer, Haft, Response, testing::user};
use serde_json::json;

use crate::place::{PATIENCE, Place};

/// How many commands run at once: more than there are threads for blocking work.
const N_COMMANDS: usize = 6;

/// Runs a command in a session of its own, until `go` is there.
async fn run(haft: Haft, tool: &'static str, begun: usize) {
    let config = haft_core::session::Config {
        driver: haft_core::session::Driver::Caller,
        ..haft_core::session::Config::default()
    };
    let tenant = haft_store::Tenant::new("test").unwrap();
    let session = haft.open(tenant, config, user("owner")).await.unwrap();
    let command = format!("touch begun-{begun}; until [ -e go ]; do sleep 0.05; done");
    let arguments = json!({ "command": command, "timeoutMs": 60_000 });
    let call = haft.propose(session, tool, object(arguments)).await.unwrap();
    if let Answer::Waiting(_) = haft.wait(session, call).await.unwrap() {
        let yes = Response::Approve { arguments: None, note: None, grant: None };
        haft.resolve(session, call, user("approver"), yes).await.unwrap();
    }
    assert!(matches!(haft.wait(session, call).await.unwrap(), Answer::Done(_)));
}

#[test]
fn commands_that_take_long_leave_threads_for_reads_and_for_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let place = Place::new();
        let session = place.node();
        let haft = session.node.haft().clone();
        let tools = ["shell_run", "shell_exec"];
        let commands: Vec<_> =
            (0..N_COMMANDS).map(|at| tokio::spawn(run(haft.clone(), tools[at % 2], at))).collect();
        let all_run = async {
            while (0..N_COMMANDS).any(|at| !place.host().join(format!("begun-{at}")).exists()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all_run).await.expect("all of them run");
        let n_over = commands.iter().filter(|command| command.is_finished()).count();
        assert_eq!(n_over, 0, "they run at once");
        let read = haft.store().next_due();
        tokio::time::timeout(PATIENCE, read).await.expect("a read is not held up").unwrap();
        place.put("go", "");
        for command in commands {
            command.await.unwrap();
        }
    });
}
