//! Addresses that somebody else chose for this server to call.

use haft_http::{Endpoint, Reach, Scheme};

use crate::error::Error;

/// The longest URL.
const URL_LEN_MAX: usize = 2000;

/// What the operator can do for an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    Flag,
    Mount,
}

impl Remedy {
    const fn hint(self) -> &'static str {
        match self {
            Self::Flag => "the operator can allow it with `--webhook-allow-private`",
            Self::Mount => "the operator can mount the server",
        }
    }
}

/// Someone who could lead this server to its own network learns at once that it is not led. What a
/// name leads to is looked at when it is called.
pub(crate) fn require_reachable(
    member: &str,
    url: &str,
    reach: Reach,
    remedy: Remedy,
) -> Result<(), Error> {
    let invalid = |message: String| Error::invalid(format!("`{member}`: {message}"));
    if url.len() > URL_LEN_MAX {
        return Err(invalid(format!("expected at most {URL_LEN_MAX} bytes, found {}", url.len())));
    }
    let endpoint = Endpoint::exactly(url).map_err(|error| invalid(error.to_string()))?;
    if reach == Reach::Anywhere {
        return Ok(());
    }
    if endpoint.scheme() == Scheme::Http {
        return Err(invalid("expected `https://`, found `http://`".to_owned()));
    }
    match endpoint.address() {
        Some(address) if !reach.allows(address) => Err(invalid(format!(
            "{address} is not an address of the public internet; {}",
            remedy.hint()
        ))),
        _ => Ok(()),
    }
}
