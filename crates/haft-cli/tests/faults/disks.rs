//! Faults of the embedded store's disk and files.

use std::path::{Path, PathBuf};

use crate::breakage::{FailingSyncs, SmallDisk};
use crate::judge::Violation;
use crate::stage::{Fault, Stage};

/// The files of the embedded store.
const FILES: [&str; 3] = ["haft.db", "haft.db-wal", "haft.db-shm"];

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault::on_sqlite("full disk", full_disk),
        Fault::on_sqlite("failed fsync", failed_sync),
        Fault::on_sqlite("database files taken away while it runs", taken_away),
        Fault::on_sqlite("database file replaced while it runs", replaced),
        Fault::on_sqlite("log of changes removed after a kill", log_removed),
        Fault::on_sqlite("derived rows removed after a kill", rows_removed),
        Fault::on_sqlite("two servers on one directory", two_servers),
    ]
}

fn full_disk(stage: &mut Stage<'_>) {
    let Some(disk) = SmallDisk::mount(48) else {
        return stage.leave_out("this machine does not allow for a small disk");
    };
    stage.place.data = disk.path().join("data");
    std::fs::create_dir(&stage.place.data).unwrap();
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay"), stage.parked(&server, "pay")];
    for _ in 0..stage.extent.of(1, 6) {
        disk.fill();
        stage.notices_probe(&server, "/readyz", 503);
        stage.trouble(&server, &parked);
        disk.clear();
        stage.notices_probe(&server, "/readyz", 200);
    }
    stage.conclude(server);
}

fn failed_sync(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay"), stage.parked(&server, "pay")];
    let Some(failing) = FailingSyncs::of(&server) else {
        return stage.leave_out("there is no strace here");
    };
    stage.trouble(&server, &parked);
    // Writes go on until a sync fails.
    let began = std::time::Instant::now();
    while stage.trouble(&server, &[]) > 0 {
        assert!(began.elapsed().as_secs() < 120, "syncs do not fail");
    }
    stage.notices_probe(&server, "/healthz", 503);
    drop(failing);
    stage.notices_probe(&server, "/healthz", 503);
    drop(server);
    let server = stage.place.start(&[]);
    stage.conclude(server);
}

/// Keeps the files of the store aside, under further names of the same files.
fn kept_aside(data: &Path) -> PathBuf {
    let aside = data.join("aside");
    std::fs::create_dir(&aside).unwrap();
    for name in FILES {
        std::fs::hard_link(data.join(name), aside.join(name)).unwrap();
    }
    aside
}

fn put_back(data: &Path, aside: &Path) {
    for name in FILES {
        // What was never taken away has both names, and would keep them.
        drop(std::fs::remove_file(data.join(name)));
        std::fs::rename(aside.join(name), data.join(name)).unwrap();
    }
    std::fs::remove_dir(aside).unwrap();
}

/// Nothing may be acknowledged while the files are not where they belong: it would be gone.
fn acknowledges_nothing(stage: &mut Stage<'_>, server: &crate::serving::Serving, parked: &[usize]) {
    let n = stage.trouble(server, parked);
    if n > 0 {
        let what = format!("{n} requests were acknowledged without a file to keep them");
        stage.row.broken.push(Violation::Lost(what));
    }
}

fn taken_away(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay")];
    let data = stage.place.data.clone();
    let aside = kept_aside(&data);
    for name in FILES {
        std::fs::remove_file(data.join(name)).unwrap();
    }
    acknowledges_nothing(stage, &server, &parked);
    stage.notices_probe(&server, "/healthz", 503);
    stage.notices_probe(&server, "/readyz", 503);
    drop(server);
    stage.notices_at_start("haft.db` is missing");
    put_back(&data, &aside);
    let server = stage.place.start(&[]);
    stage.conclude(server);
}

fn replaced(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay")];
    let data = stage.place.data.clone();
    let aside = kept_aside(&data);
    // As an editor or a copied backup does it: another file under the same name.
    std::fs::copy(data.join("haft.db"), data.join("other")).unwrap();
    std::fs::rename(data.join("other"), data.join("haft.db")).unwrap();
    acknowledges_nothing(stage, &server, &parked);
    stage.notices_probe(&server, "/healthz", 503);
    stage.notices_probe(&server, "/readyz", 503);
    drop(server);
    put_back(&data, &aside);
    let server = stage.place.start(&[]);
    stage.conclude(server);
}

fn log_removed(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    stage.parked(&server, "pay");
    drop(server);
    let log = stage.place.data.join("haft.db-wal");
    let aside = stage.place.data.join("aside");
    std::fs::rename(&log, &aside).unwrap();
    stage.notices_at_start("writes that were acknowledged are missing");
    let audit = stage.place.haft(&["audit", "verify"]);
    if audit.status.success() {
        stage.silent("`haft audit verify` finds nothing");
    }
    std::fs::rename(&aside, &log).unwrap();
    let server = stage.place.start(&[]);
    stage.conclude(server);
}

fn rows_removed(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    stage.parked(&server, "pay");
    // Nothing may run when the rows go, or it would be in doubt.
    stage.ledger.calls_seen(&server, &stage.place);
    drop(server);
    let database = rusqlite::Connection::open(stage.place.data.join("haft.db")).unwrap();
    database.execute_batch("DELETE FROM calls").unwrap();
    drop(database);
    if stage.place.haft(&["audit", "verify"]).status.success() {
        stage.silent("`haft audit verify` finds nothing");
    }
    let repair = stage.place.haft(&["repair"]);
    assert!(repair.status.success(), "{}", String::from_utf8_lossy(&repair.stderr));
    let server = stage.place.start(&[]);
    stage.conclude(server);
}

fn two_servers(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    stage.work(&server, 2);
    let parked = [stage.parked(&server, "pay")];
    for name in ["haft.lock", "server.json"] {
        std::fs::remove_file(stage.place.data.join(name)).unwrap();
    }
    stage.notices_at_start("error[store_in_use]");
    stage.trouble(&server, &parked);
    stage.conclude(server);
}
