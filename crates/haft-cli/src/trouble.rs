//! What goes wrong, for whoever sits at the terminal: what happened, why, what to do next, and a
//! code under which `haft explain` says more.

use std::fmt;

use serde_json::Value;

/// Something that kept a command from doing what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    code: String,
    what: String,
    why: Option<String>,
    next: Option<String>,
}

/// The codes of the binary itself; the API's are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    AddressInUse,
    AmbiguousId,
    BadAnswer,
    BadArguments,
    BadConfig,
    BadDefinition,
    BadPolicy,
    BadSealingKey,
    BadStore,
    /// What has no code of its own.
    Failed,
    NoCall,
    NoKey,
    NoPage,
    NoSession,
    NoStore,
    NoTerminal,
    NoTool,
    Stale,
    StoreInUse,
    Unreachable,
    Unreadable,
    UntrustedConfig,
}

impl Code {
    /// Every code, for the test that each has its page.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 22] = [
        Self::AddressInUse,
        Self::AmbiguousId,
        Self::BadAnswer,
        Self::BadArguments,
        Self::BadConfig,
        Self::BadDefinition,
        Self::BadPolicy,
        Self::BadSealingKey,
        Self::BadStore,
        Self::Failed,
        Self::NoCall,
        Self::NoKey,
        Self::NoPage,
        Self::NoSession,
        Self::NoStore,
        Self::NoTerminal,
        Self::NoTool,
        Self::Stale,
        Self::StoreInUse,
        Self::Unreachable,
        Self::Unreadable,
        Self::UntrustedConfig,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::AddressInUse => "address_in_use",
            Self::AmbiguousId => "ambiguous_id",
            Self::BadAnswer => "bad_answer",
            Self::BadArguments => "bad_arguments",
            Self::BadConfig => "bad_config",
            Self::BadDefinition => "bad_definition",
            Self::BadPolicy => "bad_policy",
            Self::BadSealingKey => "bad_sealing_key",
            Self::BadStore => "bad_store",
            Self::Failed => "failed",
            Self::NoCall => "no_call",
            Self::NoKey => "no_key",
            Self::NoPage => "no_page",
            Self::NoSession => "no_session",
            Self::NoStore => "no_store",
            Self::NoTerminal => "no_terminal",
            Self::NoTool => "no_tool",
            Self::Stale => "stale",
            Self::StoreInUse => "store_in_use",
            Self::Unreachable => "unreachable",
            Self::Unreadable => "unreadable",
            Self::UntrustedConfig => "untrusted_config",
        }
    }
}

impl Trouble {
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code: code.word().to_owned(), what: what.into(), why: None, next: None }
    }

    pub(crate) fn why(self, why: impl fmt::Display) -> Self {
        Self { why: Some(why.to_string()), ..self }
    }

    pub(crate) fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }

    /// What the API answered instead of doing it.
    pub(crate) fn refused(status: u16, body: &Value) -> Self {
        let error = &body["error"];
        let code = error["details"]["code"].as_str().or_else(|| error["type"].as_str());
        let code = code.unwrap_or("api_error").to_owned();
        let message = error["message"].as_str().map(str::to_owned);
        let what = message.unwrap_or_else(|| format!("the server answered {status}"));
        let next = advice(&code).map(str::to_owned);
        Self { code, what, why: None, next }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The exit code: 4 when someone else was first, 5 when there is nobody to ask.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.code.as_str() {
            "stale" => 4,
            "unreachable" | "no_store" | "store_in_use" => 5,
            _ => 1,
        }
    }
}

/// What a person does about a refusal of the API.
fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        "stale" => "look again: `haft pending` lists what still waits",
        "wrong_kind" => "`haft pending CALL` shows what it waits for and the verb that ends it",
        "misfit" => "change the value to fit and send it again",
        "not_allowed" => "let someone else decide this one",
        "authentication_error" => {
            "set HAFT_API_KEY to a key of this server, or unset it where the server's data is"
        }
        "permission_error" => "use a key with the scope, made by `haft keys create --scope …`",
        "busy" => "wait until the session is idle, or interrupt it",
        "ended" => "open another session with `haft chat`",
        "not_found_error" => {
            "`haft sessions list`, `haft tools list`, `haft pending`, `haft mcp list` and \
             `haft keys list` list what there is"
        }
        "no_tool" => {
            "`haft mcp list` tells whether its server is up; definitions that are new or changed \
             wait for `haft mcp accept`; then decide again"
        }
        "no_undo" => "take it back by hand; `haft tools show TOOL` tells whether it has an undo",
        "nothing_done" => {
            "`haft sessions trace` tells what became of it; what still waits ends with `haft deny`"
        }
        "undo_over" => "take it back by hand; `haft sessions trace` tells what it did",
        "overloaded_error" | "rate_limit_error" => "try again in a moment",
        _ => return None,
    })
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some(why) = &self.why {
            write!(f, "\n  why:  {why}")?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {next}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Trouble {}
