//! Haft's HTTP client, for whatever a node asks of others: models, webhooks, collectors, MCP
//! servers, token endpoints, and the server that a command talks to.
//!
//! A [`Client`] sends requests to one [`Endpoint`] on hyper's connection. Each stage of a request
//! has its own time limit. A client follows no redirects, so that a key is sent to the configured
//! host and nowhere else, and takes no proxy from the environment. Where somebody else chose the
//! host, a [`Reach`] keeps requests away from what only this machine or its network reaches. TLS is
//! rustls with ring; a [`Trust`] says whose certificates are accepted.
//!
//! [`egress`] is the proxy through which sandboxes reach a network. [`token_endpoint`] gets access tokens as OAuth has it, and [`form`] writes and reads the encoding
//! of forms and queries.

mod address;
mod client;
pub mod egress;
mod endpoint;
pub mod form;
mod pool;
pub mod token_endpoint;
mod trust;

pub use address::{AddressKind, Reach, is_public};
pub use client::{Answer, Client, HttpError, Timeouts};
pub use endpoint::{BaseUrlError, Endpoint, Scheme};
pub use hyper::header::{HeaderMap, HeaderName, HeaderValue};
pub use hyper::{Method, StatusCode};
pub use trust::{BadRootsError, NoRootsError, Trust, certificates};
