//! Faults of the database, of the way to it and of the pooler in front of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::breakage::psql;
use crate::cluster::{self, Cluster};
use crate::pooler::{self, Pooler};
use crate::stage::{Fault, Stage};

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault::on_postgresql("database crashes and comes back", away),
        Fault::on_postgresql("read-only database", read_only),
        Fault::on_postgresql("commits hang (no synchronous standby)", hanging),
        Fault::on_postgresql("connections to the database are cut", cut),
        Fault::on_postgresql("pgbouncer: refused, or killed", behind_pgbouncer),
    ]
}

fn cluster<'a>(stage: &Stage<'a>) -> &'a Cluster {
    stage.cluster.expect("a row of PostgreSQL has a cluster")
}

/// Works before and during a fault that the server says and gets over by itself.
fn during(stage: &mut Stage<'_>, begin: impl Fn(&Cluster), end: impl Fn(&Cluster)) {
    let database = cluster(stage);
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay"), stage.parked(&server, "pay")];
    for round in 0..stage.extent.of(1, 6) {
        begin(database);
        if round % 2 == 1 {
            // Also before anybody has noticed.
            stage.trouble(&server, &[]);
        }
        stage.notices_probe(&server, "/readyz", 503);
        stage.trouble(&server, &parked);
        end(database);
        stage.notices_probe(&server, "/readyz", 200);
        stage.notices_probe(&server, "/healthz", 200);
    }
    stage.conclude(server);
}

fn away(stage: &mut Stage<'_>) {
    during(stage, Cluster::stop, Cluster::start_again);
}

fn read_only(stage: &mut Stage<'_>) {
    let set = |to: &str| format!("ALTER SYSTEM SET default_transaction_read_only = {to}");
    during(stage, |it| psql(it, &set("on")), |it| psql(it, &set("off")));
}

fn hanging(stage: &mut Stage<'_>) {
    let set = |to: &str| format!("ALTER SYSTEM SET synchronous_standby_names = '{to}'");
    during(stage, |it| psql(it, &set("nobody")), |it| psql(it, &set("")));
}

fn cut(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let url = stage.place.url.clone().unwrap();
    let is_over = AtomicBool::new(false);
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                cluster::sql(&url, cut);
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        for _ in 0..stage.extent.of(4, 40) {
            stage.trouble(&server, &[]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    stage.notices_probe(&server, "/readyz", 200);
    stage.conclude(server);
}

fn behind_pgbouncer(stage: &mut Stage<'_>) {
    let database = cluster(stage);
    let (directory, port) = (tempfile::tempdir().unwrap(), pooler::free_port());
    let direct = stage.place.url.clone().unwrap();
    let name = direct.rsplit_once('/').unwrap().1.to_owned();
    let start = |mode: &str| Pooler::start(database, mode, directory.path(), port);
    let refusing = start("transaction");
    let pooled = format!("{}/{name}", refusing.url.rsplit_once('/').unwrap().0);
    stage.place.url = Some(pooled);
    stage.notices_at_start("pool_mode = session");
    drop(refusing);
    let mut keeping = start("session");
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay")];
    for _ in 0..stage.extent.of(1, 6) {
        drop(keeping);
        stage.notices_probe(&server, "/readyz", 503);
        stage.trouble(&server, &parked);
        keeping = start("session");
        stage.notices_probe(&server, "/readyz", 200);
    }
    stage.conclude(server);
}
