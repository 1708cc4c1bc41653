//! Tells the service manager when the server serves and when it stops, as systemd's `Type=notify`
//! expects it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the service manager listens, if one does.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// The server answers now.
pub(super) fn ready() {
    tell("READY=1\n");
}

/// The server was asked to stop and lets what runs end.
pub(super) fn stopping() {
    tell("STOPPING=1\n");
}

/// A service manager that cannot be told is no reason not to serve.
fn tell(state: &str) {
    let Some(socket) = std::env::var_os(VARIABLE).filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "the service manager at NOTIFY_SOCKET was not told");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => {
            let expected = "expected a path or a name that begins with `@`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, expected));
        }
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}
