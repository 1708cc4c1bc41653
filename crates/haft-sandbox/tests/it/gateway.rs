//! The one way out of a sandbox with a gateway: a socket that listens inside and is served outside.

use crate::place::Place;
use crate::process::{launcher, said, script};
use haft_sandbox::layers::{Layer, Standing};
use haft_sandbox::policy::{Gateway, Network, Policy};
use haft_sandbox::process::{Exit, Sandbox};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::channel;

/// A sandbox whose gateway answers every connection with a line and hangs up.
fn open(place: &Place) -> Sandbox {
    let gateway = Gateway::new("an echo", |listener: TcpListener| {
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).unwrap_or(0);
                let first = buffer[..count].split(|byte| *byte == b'\r').next().unwrap_or_default();
                let said = String::from_utf8_lossy(first).into_owned();
                if said == "stop" {
                    return;
                }
                let length = said.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{said}");
                stream.write_all(answer.as_bytes()).ok();
            }
        });
        Ok(Box::new(()))
    });
    let network = Network::Gateway(gateway);
    let policy = Policy { network, ..Policy::new(place.files.mounts().clone()) };
    Sandbox::open(&launcher(), &policy).unwrap()
}

#[test]
fn programs_find_the_gateway_and_nothing_else() {
    let place = Place::new();
    let sandbox = open(&place);
    let network = sandbox.describe().iter().find(|report| report.layer == Layer::Network);
    assert_eq!(network.unwrap().standing, Standing::Enforced);
    let answer = said(&script(&sandbox, "curl -s http://api.example/x"));
    assert_eq!(answer, "GET http://api.example/x HTTP/1.1");
    let python = "python3 -c \"import urllib.request as u; \
                  print(u.urlopen('http://api.example/y').read().decode())\"";
    assert_eq!(said(&script(&sandbox, python)), "GET http://api.example/y HTTP/1.1\n");
    // A listener of the host's loopback, and one of every address of this machine.
    let ears = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap()];
    for ear in &ears {
        let port = ear.local_addr().unwrap().port();
        for host in ["127.0.0.1", "0.0.0.0", "localhost"] {
            let reached = script(&sandbox, &format!("echo x > /dev/tcp/{host}/{port}"));
            assert_ne!(reached.exit, Exit::Exited(0), "{host}");
        }
        ear.set_nonblocking(true).unwrap();
        assert!(ear.accept().is_err(), "nobody of the sandbox reaches the host's own ports");
    }
    let routes = said(&script(&sandbox, "cat /proc/net/route | wc -l; ls /proc/sys/net/ipv4/conf"));
    assert_eq!(routes, "1\nall\ndefault\nlo\n", "there is no way but the loopback interface");
    let udp = script(&sandbox, "echo x > /dev/udp/192.0.2.1/53");
    assert_ne!(udp.exit, Exit::Exited(0));
    said(&script(&sandbox, "printf stop > /dev/tcp/127.0.0.1/3128"));
}

/// What listens in a sandbox is of that sandbox: the development server of a workspace, say.
#[test]
fn commands_of_one_sandbox_reach_each_other() {
    let place = Place::new();
    let sandbox = open(&place);
    let text = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & \
                for i in $(seq 200); do \
                  curl -sf http://127.0.0.1:8000/a.txt && break; sleep 0.05; done; kill %1";
    assert_eq!(said(&script(&sandbox, text)), "one\ntwo\nthree\n");
    said(&script(&sandbox, "printf stop > /dev/tcp/127.0.0.1/3128"));
}

#[test]
fn a_gateway_ends_with_its_sandbox() {
    let place = Place::new();
    let (dropped, told) = channel::<()>();
    let gateway = Gateway::new("nothing", move |listener| {
        let (listener, dropped) = (listener, dropped.clone());
        Ok(Box::new(AtDrop(listener, dropped)))
    });
    let network = Network::Gateway(gateway);
    let policy = Policy { network, ..Policy::new(place.files.mounts().clone()) };
    drop(Sandbox::open(&launcher(), &policy).unwrap());
    told.recv().unwrap();
}

struct AtDrop(TcpListener, std::sync::mpsc::Sender<()>);

impl Drop for AtDrop {
    fn drop(&mut self) {
        self.0.local_addr().unwrap();
        self.1.send(()).ok();
    }
}
