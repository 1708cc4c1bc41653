//! The Model Context Protocol, both ways.
//!
//! [`McpServer`] gives every MCP client a node's tools, over stdio and over HTTP, in both eras of
//! the protocol. Each call is a call of a Haft session: permitted, recorded, and as durable as any
//! other. One that has to wait for someone shows as a task, as a result that needs input, as a
//! question to the client, or as a handle to come back with, whatever the client understands; it
//! is one and the same record in the store. [`DirectServer`] does without a store, and without
//! whatever would have to wait.
//!
//! [`Mounts`] gives a node the tools of other MCP servers, under its permissions and pinned as
//! they were accepted.
#![expect(deprecated, reason = "clients of the earlier revision still log, sample and have roots")]

mod handle;
mod hub;
mod mount;
mod principal;
mod questions;
mod server;

pub use handle::{Handle, HandleError};
pub use mount::{
    AddedCommands, Change, Confine, Confinement, Credential, CredentialFuture, Declared,
    DeclaredError, Grant, Health, MountConfig, MountError, MountReport, MountRules, Mounted,
    Mounts, Networking, OAuth, Origin, Peer, RenewalFuture, SandboxRoot, SecretFuture, Secrets,
    Setting, SettingError, VaultEntry,
};
pub use principal::{CredentialId, Principal};
pub use questions::{Attached, Kind, Question, Questions, install};
pub use server::{
    Consent, DirectServer, HttpDoor, McpServer, McpService, ResourceSource, ServeError,
    ServerSettings, SessionUse, TaskUse,
};
