//! Where the database is, how connections to it are made, and how long anything may take.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::link::{described, trouble};
#[cfg(not(feature = "tls"))]
use super::plain::{Encrypted, Tls, encryption};
#[cfg(feature = "tls")]
use super::tls::{Encrypted, Tls, encryption};
use crate::error::{Error, ErrorKind};

/// How long it may take to connect, the greetings included.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long an answer is waited for. A network that loses everything without a word, or something
/// in between that holds everything back, looks like a database that thinks: so it is given up
/// some time after the server itself would have ended the statement.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// As [`ANSWER_MAX`], for changes of the schema, which may move much.
const MIGRATION_MAX: Duration = Duration::from_secs(3_600);

/// Settings of every connection. A node that is frozen inside a transaction holds rows that the
/// others need, and whoever waits for them holds up everything behind it on its connection: both
/// are ended by the server.
const LIMITS: &[Setting] = &[
    ("idle_in_transaction_session_timeout", "5s"),
    ("lock_timeout", "2s"),
    ("statement_timeout", STATEMENT_MAX),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "2"),
];

/// Settings of connections whose commits are acknowledged. A server that ends a commit which waits
/// for a synchronous standby says that it succeeded: so we hang up before that, and what became of
/// the commit counts as not known.
pub(super) const COMMITS: &[Setting] = &[("statement_timeout", "60s")];

/// The name of a setting of the session and its value.
pub(super) type Setting = (&'static str, &'static str);

/// Whom to believe about who is at the other end of an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Accepts any certificate, so the other end is not authenticated.
    Anyone,
    /// Who is vouched for by an authority that the system trusts.
    System,
    /// Who is vouched for by an authority in this file.
    File(String),
}

/// What [`LIMITS`] sets `statement_timeout` to, as the server shows it.
pub(super) const STATEMENT_MAX: &str = "15s";

/// Where the database is and how it is spoken to.
#[derive(Debug, Clone)]
pub(super) struct Address {
    config: Config,
    tls: Tls,
    answer_max: Duration,
    /// Settings of the session, the later ones above the earlier. They are made by a statement and
    /// not sent along with the greeting, from which poolers drop what they do not know.
    settings: Vec<(String, String)>,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |error: tokio_postgres::Error| {
            let context = format!("the address of the database: {}", described(&error));
            Error::new(ErrorKind::Invalid, context)
        };
        let (url, trust) = take_trust(url)?;
        let mut config: Config = url.parse().map_err(invalid)?;
        if trust != Trust::Anyone {
            config.ssl_mode(SslMode::Require);
        }
        config.application_name("haft");
        config.connect_timeout(CONNECT_MAX);
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.tcp_user_timeout(Duration::from_secs(20));
        let tls = encryption(&trust, config.get_ssl_mode())?;
        let settings = config.get_options().map(given_settings).unwrap_or_default();
        let address = Self { config, tls, answer_max: ANSWER_MAX, settings };
        Ok(address.with_settings(LIMITS))
    }

    /// The same database with more settings for the session.
    pub(super) fn with_settings(&self, more: &[Setting]) -> Self {
        let mut address = self.clone();
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        address.settings.extend(more);
        address
    }

    /// The statement that makes the settings of a session that was just begun.
    pub(super) fn settings(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let made = self
            .settings
            .iter()
            .map(|(name, value)| format!("set_config({}, {}, false)", quoted(name), quoted(value)));
        format!("SELECT {}", made.collect::<Vec<_>>().join(", "))
    }

    /// The same database for who cannot wait for as long as others.
    pub(super) fn answering_within(&self, answer_max: Duration) -> Self {
        Self { answer_max, ..self.clone() }
    }

    /// The same database for changes of the schema.
    pub(super) fn for_migrations(&self) -> Self {
        self.with_settings(&[("statement_timeout", "0"), ("lock_timeout", "60s")])
            .answering_within(MIGRATION_MAX)
    }

    /// Whether connections are made to this port.
    pub(super) fn has_port(&self, port: i32) -> bool {
        let ports = self.config.get_ports();
        ports.iter().any(|known| i32::from(*known) == port) || (ports.is_empty() && port == 5432)
    }

    pub(super) const fn answer_max(&self) -> Duration {
        self.answer_max
    }

    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, Encrypted>), Error> {
        let connecting = self.config.connect(Tls::clone(&self.tls));
        match tokio::time::timeout(CONNECT_MAX, connecting).await {
            Ok(connected) => connected.map_err(|error| trouble(&error)),
            Err(_) => {
                let context = "PostgreSQL: it was connected to and did not answer in time";
                Err(Error::new(ErrorKind::Gone, context))
            }
        }
    }
}

/// The settings among the options that an address gives, as `-cname=value` or `--name=value`.
/// They are sent with the greeting too; made once more, they hold behind a pooler that drops it.
fn given_settings(options: &str) -> Vec<(String, String)> {
    let spaced = options.replace("-c ", "-c");
    let settings = spaced.split_whitespace().filter_map(|option| {
        let setting = option.strip_prefix("-c").or_else(|| option.strip_prefix("--"))?;
        let (name, value) = setting.split_once('=')?;
        // A blank within a value is escaped, which this does not read: the greeting has it.
        (!value.contains('\\')).then(|| (name.replace('-', "_"), value.to_owned()))
    });
    settings.collect()
}

/// Takes out of the address what the driver does not know: whom to trust.
fn take_trust(url: &str) -> Result<(Cow<'_, str>, Trust), Error> {
    let Some((place, parameters)) = url.split_once('?') else {
        return Ok((url.into(), Trust::Anyone));
    };
    let (mut is_verified, mut file, mut others) = (false, None, Vec::new());
    for parameter in parameters.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", "verify-full")) => is_verified = true,
            Some(("sslmode", "verify-ca")) => {
                let context = "`sslmode=verify-ca` does not look at the host's name; use \
                               `verify-full`";
                return Err(Error::new(ErrorKind::Invalid, context));
            }
            Some(("sslrootcert", path)) => {
                let path = percent_decode_str(path).decode_utf8().map_err(|error| {
                    Error::new(ErrorKind::Invalid, format!("`sslrootcert`: {error}"))
                })?;
                file = Some(path.into_owned());
            }
            _ => others.push(parameter),
        }
    }
    let trust = match (is_verified, file) {
        (true, None) => Trust::System,
        (true, Some(file)) if file == "system" => Trust::System,
        (true, Some(file)) => Trust::File(file),
        (false, None) => Trust::Anyone,
        (false, Some(_)) => {
            let context = "`sslrootcert` is of use only with `sslmode=verify-full`";
            return Err(Error::new(ErrorKind::Invalid, context));
        }
    };
    Ok((format!("{place}?{}", others.join("&")).into(), trust))
}
