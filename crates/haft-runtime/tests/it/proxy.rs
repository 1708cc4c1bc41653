//! A wire between a node and its database that can be cut: at any time, or around a commit, so
//! that the node cannot know whether it happened. Or it swallows what is sent, without a word.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When the wire is cut by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Never,
    /// The next commit does not reach the database.
    BeforeCommit,
    /// The next commit reaches the database, and its answer gets lost.
    AfterCommit,
}

/// What the wire does after it was cut by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Heals,
    StaysCut,
}

pub(crate) struct Proxy {
    address: SocketAddr,
    wire: Arc<Mutex<Wire>>,
}

/// What becomes of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Whole,
    Cut,
    /// Whoever connects is let in and hears nothing; so do those who were connected, for ever.
    Swallows,
}

struct Wire {
    condition: Condition,
    next: (Cut, Then),
    n_cuts: u32,
    /// The client's end and the database's, by turns.
    streams: Vec<TcpStream>,
}

impl Wire {
    fn hang_up(&mut self) {
        for stream in self.streams.drain(..) {
            // It may be closed already.
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

impl Proxy {
    /// Listens in front of the database at a loopback port.
    pub(crate) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let next = (Cut::Never, Then::Heals);
        let wire = Wire { condition: Condition::Whole, next, n_cuts: 0, streams: vec![] };
        let wire = Arc::new(Mutex::new(wire));
        let accepting = Arc::clone(&wire);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                connect(client.unwrap(), port, &accepting);
            }
        });
        Self { address, wire }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn cut(&self) {
        let mut wire = self.wire.lock().unwrap();
        wire.condition = Condition::Cut;
        wire.hang_up();
    }

    /// From here on nothing arrives on any connection that there is or will be, and nobody is told.
    pub(crate) fn swallow(&self) {
        self.wire.lock().unwrap().condition = Condition::Swallows;
    }

    /// New connections work again.
    pub(crate) fn heal(&self) {
        self.wire.lock().unwrap().condition = Condition::Whole;
    }

    pub(crate) fn cut_next(&self, cut: Cut, then: Then) {
        self.wire.lock().unwrap().next = (cut, then);
    }

    /// Returns how often it was cut by itself.
    pub(crate) fn n_cuts(&self) -> u32 {
        self.wire.lock().unwrap().n_cuts
    }
}

fn connect(client: TcpStream, port: u16, wire: &Arc<Mutex<Wire>>) {
    let mut open = wire.lock().unwrap();
    if open.condition == Condition::Cut {
        return;
    }
    // Nobody is there any more once a test is over: then the client is hung up on.
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let twin = |stream: &TcpStream| stream.try_clone().unwrap();
    open.streams.extend([twin(&client), twin(&server)]);
    let (up, down) = ((twin(&client), twin(&server)), (server, client));
    let lost = Arc::new(AtomicBool::new(false));
    let (watched, lost_too) = (Arc::clone(wire), Arc::clone(&lost));
    std::thread::spawn(move || {
        pump(up.0, up.1, |chunk, server| match swallows(&watched, &lost_too) {
            true => Pass::Nothing,
            false => watch(&watched, chunk, server),
        });
    });
    let watched = Arc::clone(wire);
    std::thread::spawn(move || {
        pump(down.0, down.1, |_, _| match swallows(&watched, &lost) {
            true => Pass::Nothing,
            false => Pass::On,
        });
    });
}

/// A connection that has lost something is of no use any more, also when the wire is whole again.
fn swallows(wire: &Mutex<Wire>, lost: &AtomicBool) -> bool {
    if wire.lock().unwrap().condition == Condition::Swallows {
        lost.store(true, Ordering::SeqCst);
    }
    lost.load(Ordering::SeqCst)
}

enum Pass {
    On,
    Nothing,
    Stop,
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    mut look: impl FnMut(&[u8], &mut TcpStream) -> Pass,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n_read = match from.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
            Ok(n_read) => n_read,
        };
        let chunk = &buffer[..n_read];
        match look(chunk, &mut to) {
            Pass::Nothing => {}
            Pass::On if to.write_all(chunk).is_ok() => {}
            Pass::On | Pass::Stop => break,
        }
    }
    for stream in [from, to] {
        stream.shutdown(Shutdown::Both).unwrap_or_default();
    }
}

/// A commit travels with the statements before it, and as their last message.
fn watch(wire: &Arc<Mutex<Wire>>, chunk: &[u8], server: &mut TcpStream) -> Pass {
    const COMMIT: &[u8] = b"COMMIT\0";
    if !chunk.windows(COMMIT.len()).any(|window| window == COMMIT) {
        return Pass::On;
    }
    let mut wire = wire.lock().unwrap();
    let (cut, then) = std::mem::replace(&mut wire.next, (Cut::Never, Then::Heals));
    match cut {
        Cut::Never => return Pass::On,
        Cut::BeforeCommit => {}
        Cut::AfterCommit => {
            // A server that is gone has not committed, and says nothing either.
            server.write_all(chunk).unwrap_or_default();
            // The answer is on its way back and is not passed on: the client's side goes first.
            for client in wire.streams.iter().step_by(2) {
                client.shutdown(Shutdown::Both).unwrap_or_default();
            }
            // The database works on what it has; it commits although nobody listens any more.
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    wire.n_cuts += 1;
    if then == Then::StaysCut {
        wire.condition = Condition::Cut;
    }
    wire.hang_up();
    Pass::Stop
}
