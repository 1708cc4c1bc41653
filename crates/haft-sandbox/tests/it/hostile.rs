//! What a hostile command may try, and canaries that must not notice.

use crate::corpus::{attacks, text};
use crate::place::{CANARY, Place, at};
use crate::process::{launcher, open, said, script};
use haft_sandbox::layers::{Layer, LayerReport, Standing};
use haft_sandbox::policy::{Network, Policy};
use haft_sandbox::process::{Command, Exit, Finished, Sandbox};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Listeners of the host that nobody in a sandbox may reach.
struct Ears {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
}

impl Ears {
    fn new(place: &Place) -> Self {
        let ears = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(place.outside().join("socket")).unwrap(),
        };
        ears.tcp.set_nonblocking(true).unwrap();
        ears.udp.set_nonblocking(true).unwrap();
        ears.unix.set_nonblocking(true).unwrap();
        ears
    }

    fn heard_nothing(&self) {
        let quiet =
            |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        quiet(self.tcp.accept().unwrap_err());
        quiet(self.udp.recv(&mut [0; 9]).unwrap_err());
        quiet(self.unix.accept().unwrap_err());
    }
}

/// Long enough for whatever ends by itself.
const LONG: Duration = Duration::from_secs(120);

fn run_for(wall: Duration, place: &Place, text: &str) -> Finished {
    let sandbox = open(place);
    let mut command = Command::script(text, at("."));
    command.limits.wall = wall;
    command.limits.grace = Duration::from_millis(300);
    command.limits.cpu = Duration::from_secs(2);
    command.limits.memory_bytes = 512 << 20;
    command.limits.file_bytes = 1 << 20;
    sandbox.run(command).unwrap().wait()
}

#[test]
fn the_network_is_cut_for_every_kind_of_socket() {
    let place = Place::new();
    let ears = Ears::new(&place);
    let (tcp, udp) = (ears.tcp.local_addr().unwrap().port(), ears.udp.local_addr().unwrap().port());
    let socket = place.outside().join("socket");
    let tries = format!(
        "(echo x > /dev/tcp/127.0.0.1/{tcp}); (echo x > /dev/udp/127.0.0.1/{udp}); \
         python3 - <<'E'\nimport socket as s\n\
         def go(*a):\n  try:\n    k=s.socket(*a); print('made', a)\n  except OSError as e: print('refused')\n  else:\n    \
         try: k.connect(('127.0.0.1',{tcp})); print('REACHED')\n    except OSError: pass\n\
         for a in [(s.AF_INET,s.SOCK_STREAM,0),(s.AF_INET,s.SOCK_STREAM,262),(s.AF_INET,s.SOCK_DGRAM,0),(s.AF_INET6,s.SOCK_STREAM,0),(s.AF_NETLINK,s.SOCK_RAW,0),(s.AF_PACKET,s.SOCK_RAW,0),(40,s.SOCK_STREAM,0)]: go(*a)\n\
         try:\n  k=s.socket(s.AF_UNIX); k.connect('{unix}'); print('REACHED')\nexcept OSError as e: print('refused')\nE\n",
        unix = socket.display()
    );
    let finished = run_for(LONG, &place, &tries);
    let told = finished.stdout.text();
    assert!(!told.contains("REACHED") && !told.contains("made"), "{told}");
    assert_eq!(told.matches("refused").count(), 8, "{told} {}", finished.stderr.text());
    ears.heard_nothing();
    std::fs::remove_file(socket).unwrap();
    place.check_canaries();
}

/// Also shows that the listeners of the tests above would have heard.
#[test]
fn the_hosts_network_is_there_when_the_policy_gives_it_and_is_reported() {
    let place = Place::new();
    let ears = Ears::new(&place);
    let policy = Policy { network: Network::Host, ..Policy::new(place.files.mounts().clone()) };
    let sandbox = Sandbox::open(&launcher(), &policy).unwrap();
    let absent = |report: &LayerReport| matches!(report.standing, Standing::Absent { .. });
    assert!(
        sandbox.describe().iter().any(|report| report.layer == Layer::Network && absent(report))
    );
    let (tcp, udp) = (ears.tcp.local_addr().unwrap().port(), ears.udp.local_addr().unwrap().port());
    said(&script(
        &sandbox,
        &format!("echo x > /dev/tcp/127.0.0.1/{tcp}; echo x > /dev/udp/127.0.0.1/{udp}"),
    ));
    ears.tcp.accept().unwrap();
    assert_eq!(ears.udp.recv(&mut [0; 9]).unwrap(), 2);
}

#[test]
fn a_command_sees_itself_and_nothing_of_the_host() {
    let place = Place::new();
    let sandbox = open(&place);
    let run = |text: &str| said(&script(&sandbox, text));
    assert_eq!(run("grep NoNewPrivs /proc/self/status | cut -f2"), "1\n");
    assert_eq!(run("grep CapEff /proc/self/status | cut -f2"), "0000000000000000\n");
    assert_eq!(run("grep Seccomp: /proc/self/status | cut -f2"), "2\n");
    assert_eq!(
        run("ls /proc/self/fd | head -c 6"),
        "0\n1\n2\n",
        "no other file is open but the listing's own"
    );
    assert_eq!(run("ls /proc/self/fd | wc -l"), "4\n");
    let processes = run("ps -e -o stat=,args=");
    assert_eq!(processes.lines().count(), 2, "init and ps, which bash became: {processes}");
    assert_eq!(run("cat /proc/1/environ 2>&1 >/dev/null | grep -c denied"), "1\n");
    assert_eq!(
        run("env | cut -d= -f1 | sort | tr '\\n' ' '"),
        "HOME LANG PATH PWD SHLVL TERM TMPDIR _ "
    );
    assert_eq!(run("ls / | tr '\\n' ' ' | grep -c -E 'root|home|work|var|sys'; true"), "0\n");
    assert_eq!(run("cat /etc/passwd | wc -l"), "1\n");
    assert_eq!(
        run("test -e /dev/tty || test -e /dev/ptmx || test -e /dev/kmsg || echo none"),
        "none\n"
    );
    assert_eq!(run("hostname"), "sandbox\n");
    assert_ne!(run("id -u"), "0\n");
}

#[test]
fn the_ways_out_are_closed() {
    let place = Place::new();
    let tries = [
        "unshare -U true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw /usr",
        "chroot / true",
        "nsenter -t 1 -a true",
        "dmesg",
        "cat /proc/1/root/etc/shadow",
        "cat /proc/1/mem",
        "readlink /proc/1/fd/0",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "echo x > /usr/PWNED",
        "echo x > /etc/PWNED",
        "echo x > /PWNED",
        "echo x > agent/PWNED",
        "mknod d b 8 0",
        "stty -a < /dev/tty",
        "strace true",
        "python3 -c 'import fcntl,termios;fcntl.ioctl(0,termios.TIOCSTI,b\"x\")'",
        "python3 -c 'import ctypes,sys;sys.exit(ctypes.CDLL(None).syscall(425,1,0)==-1)'",
        "ip link add d type dummy",
        "kill -9 1; ps -p 1 >/dev/null && false",
    ];
    for text in tries {
        let finished = run_for(LONG, &place, text);
        assert_ne!(finished.exit, Exit::Exited(0), "{text}: {}", finished.stdout.text());
    }
    place.check_canaries();
}

#[test]
fn what_the_hosts_git_runs_is_kept() {
    let place = Place::new();
    place.put(".git/config", "[core]\n");
    place.put(".git/hooks/pre-commit.sample", "");
    place.put(".git/HEAD", "ref: refs/heads/main\n");
    for text in [
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "mv .git .g && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "rm -rf .git/hooks",
        "mv .git/hooks .git/h",
        "ln -sf /tmp .git/hooks",
    ] {
        assert_ne!(run_for(LONG, &place, text).exit, Exit::Exited(0), "{text}");
    }
    assert_eq!(place.content(".git/config"), "[core]\n");
    assert!(!place.host().join(".git/hooks/pre-commit").exists());
    assert_eq!(run_for(LONG, &place, "echo x > .git/HEAD").exit, Exit::Exited(0));
}

/// The corpus's commands for the approved, writable hand; what it gates is not this crate's.
#[test]
fn no_attack_by_a_shell_command_leaves_the_sandbox() {
    let place = Place::new();
    let ears = Ears::new(&place);
    let mut tried = 0;
    for attack in attacks("shell") {
        let command = text(&attack.input["call"]["args"]["command"]);
        let Some(command) = command.filter(|_| attack.input["approved"] == true) else { continue };
        if command.contains('\0') {
            continue; // Refused before anything is started: see `process.rs`.
        }
        // Some never end. One that gets no further on a busy machine does no more harm.
        let finished = run_for(Duration::from_secs(3), &place, &command);
        let told = finished.stdout.text() + &finished.stderr.text();
        assert!(!told.contains(CANARY) && !told.contains("root:x:"), "{}: {told}", attack.id);
        tried += 1;
    }
    assert!(tried >= 18, "only {tried} were tried");
    ears.heard_nothing();
    std::fs::remove_file(place.outside().join("socket")).unwrap();
    place.check_canaries();
}
