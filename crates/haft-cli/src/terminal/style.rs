//! Colours, where they are wanted.

use std::io::IsTerminal;

/// What something is, as far as a colour can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Accent,
    Bad,
    Bold,
    Dim,
    Good,
    Warn,
}

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Coloured,
    Plain,
}

impl Paint {
    /// For what is written to a stream: a terminal is coloured unless `NO_COLOR` or a dumb `TERM`
    /// says otherwise.
    pub(crate) fn for_stream(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match stream.is_terminal() && !unwanted && !dumb {
            true => Self::Coloured,
            false => Self::Plain,
        }
    }

    pub(crate) fn stdout() -> Self {
        Self::for_stream(&std::io::stdout())
    }

    pub(crate) fn stderr() -> Self {
        Self::for_stream(&std::io::stderr())
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Accent => "36",
            Tone::Bad => "31",
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
        };
        match self {
            Self::Coloured if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Coloured | Self::Plain => text.to_owned(),
        }
    }
}
