//! What a service manager such as systemd is told, as `Type=notify` expects it.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::serving::{PATIENCE, Serving};
use crate::stopping::terminate;

fn heard(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let n = manager.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..n].to_vec()).unwrap()
}

/// Starts and stops a server, and returns what its manager heard of both.
fn told(manager: &UnixDatagram, socket: &str) -> [String; 2] {
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut command = Serving::command(data.path(), &[]);
    let mut server =
        Serving::answering(command.env("NOTIFY_SOCKET", socket).spawn().unwrap(), None).unwrap();
    let ready = heard(manager);
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200, "it serves when it says so");
    terminate(&server);
    let stopping = heard(manager);
    assert!(server.process.wait().unwrap().success());
    [ready, stopping]
}

#[test]
fn a_service_manager_is_told_when_the_server_serves_and_when_it_stops() {
    let expected = ["READY=1\n", "STOPPING=1\n"];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    assert_eq!(told(&manager, path.to_str().unwrap()), expected);
    let name = format!("haft-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    assert_eq!(told(&manager, &format!("@{name}")), expected);
}

#[test]
fn a_server_whose_manager_is_gone_serves_all_the_same() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Serving::command(data.path(), &[]);
    let gone = data.path().join("nobody");
    let server =
        Serving::answering(command.env("NOTIFY_SOCKET", gone).spawn().unwrap(), None).unwrap();
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200);
}
