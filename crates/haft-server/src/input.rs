//! Reading requests: bodies and queries, strictly, with errors that say where.

use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use haft_core::json::{JsonLimits, parse_object};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::error::{Error, Kind};

/// A body of strict JSON that holds a `T` and nothing that `T` does not know.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let bytes = Bytes::from_request(request, app).await;
        let bytes = bytes.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Error::new(Kind::TooLarge, "the body is too large"),
            _ => Error::invalid(rejection.body_text()),
        })?;
        let object = parse_object(&bytes, JsonLimits::default())
            .map_err(|error| Error::invalid(format!("the body cannot be read: {error}")))?;
        read(Value::Object(object)).map(Self)
    }
}

/// Reads a value, with an error that says where.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        Error::invalid(match path.as_str() {
            "." => inner.to_string(),
            path => format!("{path}: {inner}"),
        })
    })
}

/// The query of a request. What nobody took is refused by [`Params::finish`].
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl FromRequestParts<App> for Params {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, app)
            .await
            .map_err(|rejection| Error::invalid(rejection.body_text()))?;
        // Every call of the SDKs' beta resources says so.
        Ok(Self(pairs.into_iter().filter(|(name, _)| name != "beta").collect()))
    }
}

impl Params {
    /// Takes a parameter that stands at most once.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes and reads a parameter that stands at most once.
    pub(crate) fn one<T: FromStr<Err: std::fmt::Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let read = |text: String| {
            text.parse().map_err(|error| Error::invalid(format!("`{name}`: {error}")))
        };
        self.text(name).map(read).transpose()
    }

    /// Takes a parameter that may stand several times, as the SDKs write lists.
    pub(crate) fn list(&mut self, name: &str) -> Vec<String> {
        let bracketed = format!("{name}[]");
        let is_it = |known: &str| known == name || known == bracketed;
        let (found, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|(known, _)| is_it(known));
        self.0 = rest;
        found.into_iter().map(|(_, value)| value).collect()
    }

    /// Takes how many things a page may have.
    pub(crate) fn limit(&mut self, usual: u32, most: u32) -> Result<u32, Error> {
        match self.one::<u32>("limit")? {
            None => Ok(usual),
            Some(limit) if (1..=most).contains(&limit) => Ok(limit),
            Some(limit) => {
                Err(Error::invalid(format!("`limit`: expected 1 to {most}, found {limit}")))
            }
        }
    }

    /// Refuses what is left: a filter that is not applied must not seem to be.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.0.first() {
            Some((name, _)) => Err(Error::unsupported(&format!("the query parameter `{name}`"))),
            None => Ok(()),
        }
    }
}
