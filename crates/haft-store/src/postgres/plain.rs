//! Connections to PostgreSQL in a program without the feature `tls`: none is encrypted, so an
//! address that asks for encryption is refused before anything is sent.

#[cfg(not(feature = "tls"))]
use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;
#[cfg(not(feature = "tls"))]
use tokio_postgres::tls::NoTlsStream;

use super::address::Trust;
use crate::error::Error;

/// What would encrypt connections.
#[cfg(not(feature = "tls"))]
pub(super) type Tls = NoTls;

/// What a connection never is here: the type has no values.
#[cfg(not(feature = "tls"))]
pub(super) type Encrypted = NoTlsStream;

/// Returns what would encrypt connections, unless the address asks for it.
#[cfg(not(feature = "tls"))]
pub(super) fn encryption(trust: &Trust, mode: SslMode) -> Result<Tls, Error> {
    require_none(trust, mode).map(|()| NoTls)
}

/// Refuses an address that asks for encryption. `sslmode=prefer`, which is the default, leaves it
/// to the server, and goes on without.
fn require_none(trust: &Trust, mode: SslMode) -> Result<(), Error> {
    let asked = match (trust, mode) {
        (Trust::System | Trust::File(_), _) => "`sslmode=verify-full`",
        (Trust::Anyone, SslMode::Disable | SslMode::Prefer) => return Ok(()),
        (Trust::Anyone, _) => "`sslmode=require`",
    };
    Err(Error::not_compiled(&format!("{asked} needs an encrypted connection"), "tls"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn an_address_that_asks_for_encryption_is_refused_with_the_feature_that_it_needs() {
        let require = require_none(&Trust::Anyone, SslMode::Require).unwrap_err();
        assert_eq!(require.kind(), ErrorKind::NotCompiled);
        assert_eq!(
            require.to_string(),
            "`sslmode=require` needs an encrypted connection, and this program was built without \
             the feature `tls`"
        );
        for trust in [Trust::System, Trust::File("ca.pem".to_owned())] {
            let verify = require_none(&trust, SslMode::Require).unwrap_err().to_string();
            assert!(verify.starts_with("`sslmode=verify-full`"), "{verify}");
        }
        assert_eq!(require_none(&Trust::Anyone, SslMode::Prefer), Ok(()));
        assert_eq!(require_none(&Trust::Anyone, SslMode::Disable), Ok(()));
    }
}
