//! The programs of the read-only hand and the arguments with which they only look.
//!
//! Left out on purpose: git, awk, sort, uniq, tar, jq, less, xxd, every interpreter and every program
//! that runs another. Each has an option, a file or a variable that makes it write or run something.

use super::grammar::{Operands, Program, Value};
use Value::{Number, Ranges, Text};

const fn plain(name: &'static str, flags: &'static str, operands: Operands) -> Program {
    Program { name, flags, valued: &[], long: &[], long_valued: &[], operands }
}

pub(super) const PROGRAMS: &[Program] = &[
    Program { valued: &[('s', Text)], ..plain("basename", "az", Operands::Texts(64)) },
    plain("cat", "AbeEnstTuv", Operands::Paths),
    Program {
        valued: &[('b', Ranges), ('c', Ranges), ('d', Text), ('f', Ranges)],
        long: &["complement", "only-delimited"],
        ..plain("cut", "s", Operands::Paths)
    },
    Program { valued: &[('d', Text)], long: &["utc"], ..plain("date", "uIR", Operands::Format) },
    plain("dirname", "z", Operands::Texts(64)),
    Program {
        valued: &[('d', Number)],
        long: &["apparent-size", "human-readable", "summarize", "total"],
        long_valued: &[("max-depth", Number)],
        ..plain("du", "abchkmsSx", Operands::Paths)
    },
    plain("env", "", Operands::None),
    Program { long: &["brief", "mime", "mime-type"], ..plain("file", "bhi", Operands::Paths) },
    plain("find", "", Operands::Find),
    Program {
        valued: &[('A', Number), ('B', Number), ('C', Number), ('m', Number), ('e', Text)],
        long: &[
            "count",
            "extended-regexp",
            "files-with-matches",
            "files-without-match",
            "fixed-strings",
            "ignore-case",
            "invert-match",
            "line-number",
            "line-regexp",
            "no-filename",
            "no-messages",
            "only-matching",
            "quiet",
            "recursive",
            "text",
            "with-filename",
            "word-regexp",
        ],
        long_valued: &[
            ("after-context", Number),
            ("before-context", Number),
            ("context", Number),
            ("exclude", Text),
            ("exclude-dir", Text),
            ("include", Text),
            ("max-count", Number),
        ],
        ..plain("grep", "aEFGHILchilnoqrsvwx", Operands::PatternThenPaths)
    },
    Program {
        valued: &[('c', Number), ('n', Number)],
        long: &["quiet", "verbose"],
        long_valued: &[("bytes", Number), ("lines", Number)],
        ..plain("head", "qv", Operands::PathsAfterNumber)
    },
    Program {
        long: &[
            "all",
            "almost-all",
            "directory",
            "human-readable",
            "inode",
            "recursive",
            "reverse",
            "size",
        ],
        ..plain("ls", "1AaBCcdFGghiklmNnopQqRrSstUuvXx", Operands::Paths)
    },
    plain("md5sum", "bt", Operands::Paths),
    Program {
        valued: &[('b', Text), ('n', Text), ('s', Text), ('v', Number), ('w', Number)],
        ..plain("nl", "p", Operands::Paths)
    },
    plain("pwd", "LP", Operands::None),
    plain("realpath", "emqsz", Operands::Paths),
    Program {
        valued: &[
            ('A', Number),
            ('B', Number),
            ('C', Number),
            ('e', Text),
            ('g', Text),
            ('m', Number),
            ('t', Text),
            ('T', Text),
        ],
        long: &[
            "count",
            "files",
            "files-with-matches",
            "fixed-strings",
            "heading",
            "hidden",
            "ignore-case",
            "invert-match",
            "line-number",
            "no-heading",
            "no-ignore",
            "no-line-number",
            "only-matching",
            "smart-case",
            "word-regexp",
        ],
        long_valued: &[
            ("after-context", Number),
            ("before-context", Number),
            ("context", Number),
            ("glob", Text),
            ("max-count", Number),
            ("max-depth", Number),
            ("type", Text),
        ],
        ..plain("rg", "cFHIilNnoSsvwx", Operands::PatternThenPaths)
    },
    plain("sed", "", Operands::Sed),
    plain("sha256sum", "bt", Operands::Paths),
    Program {
        valued: &[('c', Text)],
        long_valued: &[("format", Text)],
        ..plain("stat", "ft", Operands::Paths)
    },
    Program {
        valued: &[('c', Number), ('n', Number)],
        long: &["quiet", "verbose"],
        long_valued: &[("bytes", Number), ("lines", Number)],
        ..plain("tail", "qv", Operands::PathsAfterNumber)
    },
    plain("tr", "cCdst", Operands::Texts(2)),
    Program {
        valued: &[('I', Text), ('L', Number), ('P', Text)],
        ..plain("tree", "adfhips", Operands::Paths)
    },
    plain("uname", "amnoprsv", Operands::None),
    Program {
        long: &["bytes", "chars", "lines", "max-line-length", "words"],
        ..plain("wc", "cLlmw", Operands::Paths)
    },
    plain("whoami", "", Operands::None),
];
