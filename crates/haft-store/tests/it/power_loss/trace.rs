//! What a process did to its files, in order, as `strace` saw it.

use std::collections::HashMap;
use std::path::Path;

/// One thing that happened to a directory, or to whoever was told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happening {
    Opened {
        file: String,
    },
    Written {
        file: String,
        offset: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: String,
        len: usize,
    },
    Synced {
        file: String,
    },
    Unlinked {
        file: String,
    },
    DirectorySynced,
    /// A line that was told to the outside; whatever it acknowledges must last.
    Told(String),
}

/// What is asked of `strace`: every way in which SQLite changes a file.
pub(super) const CALLS: &str = "trace=openat,pwrite64,write,fsync,fdatasync,ftruncate,fallocate,\
    unlink,unlinkat,rename,renameat,renameat2,pwritev,writev,copy_file_range";

/// Reads a trace of what happened inside `directory`, and of what was written to the file `told`.
pub(super) fn read(trace: &str, directory: &Path, told: &Path) -> Vec<Happening> {
    let mut unfinished = HashMap::new();
    let mut happenings = Vec::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(pid.to_owned(), begun.to_owned());
            continue;
        }
        let whole = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            // What was under way counts from when it was over.
            Some((_, end)) => unfinished.remove(pid).unwrap_or_default() + end,
            None => rest.to_owned(),
        };
        happenings.extend(happening(&whole, directory, told));
    }
    happenings
}

fn happening(line: &str, directory: &Path, told: &Path) -> Option<Happening> {
    let (call, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') {
        return None;
    }
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let inside = |path: String| {
        let name = Path::new(&path).strip_prefix(directory).ok()?.to_str()?.to_owned();
        // The index of the log is shared memory, made anew by whoever opens the database first.
        (!name.ends_with("-shm") && name != "haft.lock").then_some(name)
    };
    match call {
        "openat" if arguments.contains("O_CREAT") => {
            let file = inside(quoted(arguments)?)?;
            Some(Happening::Opened { file })
        }
        "openat" => None,
        "write" if described(arguments)? == told.to_str()? => {
            let line = String::from_utf8(quoted_bytes(arguments)?).ok()?;
            Some(Happening::Told(line.trim_end().to_owned()))
        }
        "pwrite64" => {
            let file = inside(described(arguments)?)?;
            let offset = arguments.rsplit_once(", ")?.1.parse().ok()?;
            Some(Happening::Written { file, offset, bytes: quoted_bytes(arguments)? })
        }
        "ftruncate" => {
            let file = inside(described(arguments)?)?;
            Some(Happening::Cut { file, len: arguments.rsplit_once(", ")?.1.parse().ok()? })
        }
        "fsync" | "fdatasync" => {
            let path = described(arguments)?;
            if Path::new(&path) == directory {
                return Some(Happening::DirectorySynced);
            }
            Some(Happening::Synced { file: inside(path)? })
        }
        "unlink" => Some(Happening::Unlinked { file: inside(quoted(arguments)?)? }),
        other => {
            let elsewhere = described(arguments).or_else(|| quoted(arguments)).and_then(inside);
            assert!(elsewhere.is_none(), "`{other}` is not understood: {arguments}");
            None
        }
    }
}

/// The path of a file descriptor: `7<\x2f…>`.
fn described(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once('<')?;
    String::from_utf8(bytes(rest.split_once('>')?.0)).ok()
}

fn quoted(arguments: &str) -> Option<String> {
    String::from_utf8(quoted_bytes(arguments)?).ok()
}

fn quoted_bytes(arguments: &str) -> Option<Vec<u8>> {
    let (_, rest) = arguments.split_once('"')?;
    let (text, rest) = rest.split_once('"')?;
    assert!(!rest.starts_with("..."), "the trace leaves bytes out");
    Some(bytes(text))
}

/// `\x2f\x74` and so on.
fn bytes(hex: &str) -> Vec<u8> {
    hex.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn a_trace_is_read_in_the_order_in_which_things_were_over() {
    let trace = concat!(
        "11 openat(AT_FDCWD<\\x2f>, \"\\x2f\\x64\\x2f\\x61\", O_RDWR|O_CREAT, 0644) = 3<\\x2f\\x64\\x2f\\x61>\n",
        "11 pwrite64(3<\\x2f\\x64\\x2f\\x61>, \"\\x01\\x02\", 2, 512) = 2\n",
        "11 fdatasync(3<\\x2f\\x64\\x2f\\x61> <unfinished ...>\n",
        "12 write(4<\\x2f\\x74>, \"\\x68\\x69\\x0a\", 3) = 3\n",
        "11 <... fdatasync resumed>) = 0\n",
        "11 fdatasync(5<\\x2f\\x64>) = 0\n",
    );
    let file = || "a".to_owned();
    assert_eq!(
        read(trace, Path::new("/d"), Path::new("/t")),
        [
            Happening::Opened { file: file() },
            Happening::Written { file: file(), offset: 512, bytes: vec![1, 2] },
            Happening::Told("hi".to_owned()),
            Happening::Synced { file: file() },
            Happening::DirectorySynced,
        ]
    );
}
