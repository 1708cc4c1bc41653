//! How long calls wait: the settings of commands that open a session, and how times are written.

use haft_core::Millis;
use serde_json::{Map, Value};

/// How long the calls of a session wait that a command opens.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionWaits {
    /// How long a call of the new session waits for a person or a client: `300s`, `15m`, `2h`,
    /// `7d`. Default: that of the server, else 300s for an agent's calls, and what the tool
    /// declares for a direct call.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "session")]
    suspend_ttl: Option<Millis>,
}

impl SessionWaits {
    /// Adds the setting to what a session is opened with.
    pub(crate) fn add_to(&self, wanted: &mut Map<String, Value>) {
        if let Some(Millis(ttl)) = self.suspend_ttl {
            wanted.insert("suspend_ttl_ms".to_owned(), ttl.into());
        }
    }
}

/// Reads a time such as `300s`.
pub(crate) fn duration(text: &str) -> Result<Millis, String> {
    let expected =
        || format!("expected a time such as `300s`, `15m`, `2h` or `7d`, found {text:?}");
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return Err(expected()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let total = number.and_then(|number| number.checked_mul(seconds)).ok_or_else(expected)?;
    match total {
        1..=31_536_000 => Ok(Millis::from_secs(total)),
        _ => Err(expected()),
    }
}
