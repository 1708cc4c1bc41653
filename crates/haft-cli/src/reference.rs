//! The pages that are written from the commands themselves: the reference, man pages, completions.

use std::path::PathBuf;

use clap::{Command, CommandFactory as _};

use crate::Verdict;
use crate::terminal::{print, say};

/// Prints completions for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Writes man pages, one for each command.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The directory to write them to, such as `~/.local/share/man/man1`.
    directory: PathBuf,
}

/// What keeps each block true.
const MARK: &str = "<!-- tested by: crates/haft-cli/tests/it/golden.rs -->";

const HEAD: &str = "# The command `haft`

Written by `cargo xtask docs cli` from the commands themselves.

Data goes to stdout, everything else to stderr. `--json` prints JSON with members that stay.
Colours are for terminals, and `NO_COLOR` turns them off; whatever moves is for terminals too.

A command that needs Haft asks the server of `--server`, else the one that serves the data
directory (found through a note that `haft serve` leaves there), else opens the store itself: the
same API either way. Ids may be shortened to a beginning that is unique.

| exit code | means |
|---|---|
| 0 | all is well |
| 1 | what was asked for does not hold, or could not be done |
| 2 | the arguments make no sense |
| 3 | something waits for a person |
| 4 | someone else decided first |
| 5 | there is nobody to ask: no server answers, no store is there, or another process has it |

Settings come from flags, then from the environment, then from `haft.toml` (or the file that
`--config` or `HAFT_CONFIG` names). The `haft.toml` of the working directory is obeyed only while
its content is the one that was trusted with `haft trust`. A setting has the name of its flag, with
`_` for `-`, at the top for every command, in a table for the command of that name.

<!-- tested by: crates/haft-cli/tests/it/golden.rs -->
```toml
data = \"/var/lib/haft\"

[serve]
listen = \"127.0.0.1:7800\"
suspend_ttl = \"7d\"
```

Every error has a code, and `haft explain CODE` its page (docs/errors). Arguments that make no sense
are told with the command's usage instead.
";

pub(crate) fn completions(args: &CompletionsArgs) -> Verdict {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Args::command(), "haft", &mut script);
    print(&script);
    Verdict::Holds
}

pub(crate) fn man(args: &ManArgs) -> anyhow::Result<Verdict> {
    std::fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(crate::Args::command(), &args.directory)?;
    Ok(Verdict::Holds)
}

/// The reference: what `--help` says, of every command.
pub(crate) fn reference() -> Verdict {
    let mut command = crate::Args::command().term_width(100);
    command.build();
    let mut page = HEAD.to_owned();
    describe(&mut command, "haft", &mut page);
    say(page.trim_end());
    Verdict::Holds
}

fn describe(command: &mut Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<String> = help.lines().map(|line| without_values(line.trim_end())).collect();
    page.push_str(&format!(
        "\n## `{name}`\n\n{MARK}\n```text\n{}\n```\n",
        lines.join("\n").trim_end()
    ));
    for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
        let below = format!("{name} {}", sub.get_name());
        if sub.get_name() != "help" {
            describe(sub, &below, page);
        }
    }
}

/// A line without what variables happen to hold where the page is written.
fn without_values(line: &str) -> String {
    let Some((before, rest)) = line.split_once("[env: ") else { return line.to_owned() };
    match rest.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(']')?.1))) {
        Some((name, after)) => format!("{before}[env: {name}=]{}", without_values(after)),
        None => line.to_owned(),
    }
}
