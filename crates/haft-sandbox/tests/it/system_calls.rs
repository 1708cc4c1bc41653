//! The list of system calls: what ordinary tools need is on it, and nothing that leads out.

use crate::place::Place;
use crate::process::{launcher, open, said, script};
use haft_sandbox::process::Exit;

/// Programs of this machine, each doing what it is for.
#[test]
fn ordinary_tools_work() {
    let place = Place::new();
    let sandbox = open(&place);
    let tools = [
        (
            "python3",
            "python3 -c 'import threading,subprocess,multiprocessing as m,json,ssl,sqlite3;\n\
          t=threading.Thread(target=print,args=(1,)); t.start(); t.join()\n\
          print(subprocess.check_output([\"echo\",\"x\"]).decode())\n\
          p=m.Process(target=print,args=(2,)); p.start(); p.join()'",
        ),
        (
            "node",
            "node -e 'const w=require(\"worker_threads\"); new w.Worker(\"1\",{eval:true}); \
          require(\"fs\").promises.readFile(\"a.txt\").then(t=>console.log(String(t)))'",
        ),
        (
            "git",
            "cd /tmp && git init -q r && cd r && git config user.email a@b && git config user.name a \
          && echo x > f && git add f && git commit -qm x && git log --oneline | wc -l",
        ),
        (
            "gcc",
            "echo 'int main(void){return 0;}' > /tmp/a.c && gcc -O2 -o a.out /tmp/a.c && ./a.out",
        ),
        ("make", "printf 'all:\\n\\t@echo made\\n' > Makefile && make -j4"),
        ("curl", "curl --version | head -1"),
        ("tar", "tar cf - a.txt | gzip | gunzip | tar tf -"),
        ("perl", "perl -e 'my $p = fork; if (!$p) { exit 0 } waitpid $p, 0; print \"ok\\n\"'"),
        ("find", "find . -name '*.txt' | xargs -P 4 grep -c one | sort"),
        (
            "java",
            "java -Xmx64m -XX:ReservedCodeCacheSize=32m -XX:CompressedClassSpaceSize=64m -version 2>&1 | head -1",
        ),
        ("rustc", "rustc --version"),
    ];
    let mut tried = 0;
    for (program, text) in tools {
        let is_here = script(&sandbox, &format!("command -v {program}"));
        if is_here.exit != Exit::Exited(0) {
            continue;
        }
        let finished = script(&sandbox, text);
        let told = finished.stdout.text() + &finished.stderr.text();
        assert_eq!(finished.exit, Exit::Exited(0), "{program}: {told}");
        assert!(!told.contains("not implemented") && !told.contains("Bad system call"), "{told}");
        tried += 1;
    }
    assert!(tried >= 6, "only {tried} tools are on this machine");
}

/// X16: what is not on the list does not exist, also under the numbers of x32; what leads out is refused.
#[test]
fn x16_whatever_is_not_on_the_list_is_refused() {
    let place = Place::new();
    let sandbox = open(&place);
    let call = |number: i64| {
        let text = format!(
            "python3 -c 'import ctypes,os\nc=ctypes.CDLL(None,use_errno=True)\n\
             c.syscall.restype=ctypes.c_long\n\
             c.syscall(ctypes.c_long({number}),0,0,0,0,0,0)\nprint(os.strerror(ctypes.get_errno()))'"
        );
        said(&script(&sandbox, &text)).trim().to_owned()
    };
    let (missing, refused) = ("Function not implemented", "Operation not permitted");
    // `io_setup`, `set_mempolicy`, `process_madvise`, and numbers that no kernel has.
    for number in [206, 238, 440, 500, 1000] {
        assert_eq!(call(number), missing, "{number}");
    }
    // `ptrace`, `mount`, `unshare`, `io_uring_setup`, `bpf`, `keyctl`, `process_vm_readv`.
    for number in [101, 165, 272, 425, 321, 250, 310] {
        assert_eq!(call(number), refused, "{number}");
    }
    // The same, and harmless ones, by the numbers of x32.
    for number in [101, 165, 272, 39, 521, 539] {
        assert_eq!(call(number | 0x4000_0000), missing, "x32 {number}");
    }
    // `clone` with a new user namespace, and `personality` without the randomness of addresses.
    let namespace = "python3 -c 'import ctypes,os,sys\nc=ctypes.CDLL(None,use_errno=True)\n\
                     r=c.syscall(56,0x10000000|17,0,0,0,0)\nos._exit(0 if r>=0 else 9)'";
    assert_eq!(script(&sandbox, namespace).exit, Exit::Exited(9));
}

/// X16: while a command of the shell runs, the nonce of its report is nowhere in the sandbox.
#[test]
fn x16_a_command_reads_nothing_of_what_its_shell_is_told() {
    use haft_sandbox::environment::Variables;
    use haft_sandbox::policy::{Limits, Policy};
    use haft_sandbox::shell::{End, Script, Shell};
    let place = Place::new();
    let policy = Policy::new(place.files.mounts().clone());
    let cwd = crate::place::absolute("/workspace");
    let shell = Shell::open(&launcher(), &policy, Limits::WORK, cwd, Variables::new()).unwrap();
    let run = |text: &str| {
        let executing = shell.exec(Script::new(text)).unwrap();
        executing.wait_for(std::time::Duration::from_secs(60)).unwrap()
    };
    let attack = "for fd in 0 3 10 11 12 13 14 15 255; do \
                  read -t 0.2 -r -u $fd line 2>/dev/null && echo \"$fd: $line\"; done; \
                  timeout 1 cat /proc/$$/fd/* 2>/dev/null; (exit 7)";
    let executed = run(attack);
    assert_eq!(executed.stdout.text(), "", "{:?}", executed.stderr.text());
    assert_eq!(executed.end, End::Exited(7));
    // A command that says that it has ended, and takes what the shell is asked then, is found to end.
    let forged = "for fd in 3 10 11 12 13 14 15; do printf '\\1%s\\0' 0 >&$fd; done 2>/dev/null; \
                  read -t 1 -r -u 11 line; (exit 9)";
    assert_eq!(run(forged).end, End::Exited(9));
    assert_eq!(run("echo still; cd sub; export A=b").stdout.text(), "still\n");
    assert_eq!(run("echo $PWD $A").stdout.text(), "/workspace/sub b\n");
}
