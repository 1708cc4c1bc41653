//! `cargo xtask faults`: the fault table, which the test program `faults` of haft-cli plays against
//! the real binary.

use std::path::Path;

use anyhow::Context as _;

use crate::{Verdict, metadata};

/// Which rows are played, and for how long.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Order {
    is_long: bool,
    /// Part of the name of the faults to cause; all of them without it.
    only: Option<String>,
}

impl Order {
    pub(crate) fn parse(args: &[&str]) -> Option<Self> {
        let only = |name: &str| (!name.starts_with('-')).then(|| name.to_owned());
        Some(match args {
            [] => Self::default(),
            ["--long"] => Self { is_long: true, only: None },
            ["--long", name] => Self { is_long: true, only: Some(only(name)?) },
            [name] => Self { is_long: false, only: Some(only(name)?) },
            _ => return None,
        })
    }
}

/// Plays the table; it prints what it finds.
pub(crate) fn run(root: &Path, order: &Order) -> anyhow::Result<Verdict> {
    let mut play = metadata::cargo();
    play.args(["test", "--quiet", "-p", "haft-cli", "--test", "faults", "--"]);
    play.args(order.is_long.then_some("--long")).args(&order.only);
    let status = play.current_dir(root).status().context("starting the fault table")?;
    Ok(if status.success() { Verdict::Clean } else { Verdict::Wanting })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_short_or_long_and_whole_or_of_one_fault() {
        assert_eq!(Order::parse(&[]), Some(Order::default()));
        let long = Order { is_long: true, only: None };
        assert_eq!(Order::parse(&["--long"]), Some(long));
        let one = Order { is_long: true, only: Some("fsync".to_owned()) };
        assert_eq!(Order::parse(&["--long", "fsync"]), Some(one));
        assert_eq!(Order::parse(&["--lnog"]), None);
        assert_eq!(Order::parse(&["a", "b"]), None);
    }
}
