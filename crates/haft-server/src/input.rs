//! Reading requests: bodies and queries, strictly, with errors that say where.

use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{self, FromRequest, FromRequestParts, Multipart, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use haft_core::json::{JsonLimits, parse_object};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::error::{Error, Kind};
use crate::openapi::Query;

/// A body of strict JSON that holds a `T` and nothing that `T` does not know.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let bytes = Bytes::from_request(request, app).await.map_err(|it| unread(&it))?;
        let object = parse_object(&bytes, JsonLimits::default())
            .map_err(|error| Error::invalid(format!("the body cannot be read: {error}")))?;
        read(Value::Object(object)).map(Self)
    }
}

/// A form of several parts.
pub(crate) struct Form(pub(crate) Multipart);

impl FromRequest<App> for Form {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let form = Multipart::from_request(request, app).await;
        form.map(Self).map_err(|rejection| Error::invalid(rejection.body_text()))
    }
}

/// A body of bytes of any kind, with what kind it says it is.
pub(crate) struct Raw {
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

impl FromRequest<App> for Raw {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let media_type = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let media_type = media_type.unwrap_or("application/octet-stream").to_owned();
        let bytes = Bytes::from_request(request, app).await.map_err(|it| unread(&it))?;
        Ok(Self { media_type, bytes })
    }
}

/// A body that could not be taken.
fn unread(rejection: &BytesRejection) -> Error {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Error::new(Kind::TooLarge, "the body is too large"),
        _ => Error::invalid(rejection.body_text()),
    }
}

/// What a path names.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let named = extract::Path::from_request_parts(parts, app).await;
        let extract::Path(named) = named.map_err(|rejection| {
            Error::new(Kind::NotFound, format!("the path names nothing: {}", rejection.body_text()))
        })?;
        Ok(Self(named))
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
pub(crate) struct Params {
    given: Vec<(String, String)>,
    described: Option<Described>,
}

/// Which parameters the path's description names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described(pub(crate) &'static [Query]);

impl FromRequestParts<App> for Params {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let pairs = extract::Query::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        let extract::Query(pairs) =
            pairs.map_err(|rejection| Error::invalid(rejection.body_text()))?;
        // Every call of the SDKs' beta resources says so.
        let given = pairs.into_iter().filter(|(name, _)| name != "beta").collect();
        Ok(Self { given, described: parts.extensions.get().copied() })
    }
}

impl Params {
    /// Takes a parameter that stands at most once.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.expect_described(name);
        let at = self.given.iter().position(|(known, _)| known == name)?;
        Some(self.given.remove(at).1)
    }

    /// What is read and what is described are kept in step by every test that gets here.
    fn expect_described(&self, name: &str) {
        let is_known = |described: Described| described.0.iter().any(|query| query.name() == name);
        debug_assert!(
            self.described.is_none_or(is_known),
            "the parameter `{name}` is read, and the path's description has it not"
        );
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
        self.expect_described(name);
        let bracketed = format!("{name}[]");
        let is_it = |known: &str| known == name || known == bracketed;
        let (found, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.given).into_iter().partition(|(known, _)| is_it(known));
        self.given = rest;
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
        match self.given.first() {
            Some((name, _)) => Err(Error::unsupported(&format!("the query parameter `{name}`"))),
            None => Ok(()),
        }
    }
}
