//! Addresses that somebody else chose for this server to call.

use haft_agent::http::{Endpoint, Reach, Scheme, is_public};

use crate::error::Error;

/// The longest URL.
const URL_LEN_MAX: usize = 2000;

/// Someone who could lead this server to its own network learns at once that it is not led. What a
/// name leads to is looked at when it is called.
pub(crate) fn require_reachable(member: &str, url: &str, reach: Reach) -> Result<(), Error> {
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
        Some(address) if !is_public(address) => Err(invalid(format!(
            "{address} is not an address of the public internet; \
             the operator can allow it with `--webhook-allow-private`"
        ))),
        _ => Ok(()),
    }
}
