//! Where sessions are kept: one handle over SQLite (embedded) or PostgreSQL (many nodes).
//!
//! A [`Store`] keeps each session's hash-chained log, and beside it rows that can be derived from
//! the log: which calls wait, what falls due, who decided what. Log and rows are written in one
//! transaction, and nothing is acknowledged before that transaction is durable.
//!
//! Who may append is settled by two numbers and never by a lock that can be lost: the head that
//! the writer has seen, and the epoch of the session's owner. Whoever comes second is told so.
//!
//! Each backend is a feature: `sqlite` (on by default), `postgres`, and `tls` for encrypted
//! connections to PostgreSQL. A store that needs a feature that is off is refused when it is
//! opened, with the feature's name.
//!
//! The store decides nothing about calls: it does not know what a resolution means, when to
//! retry or when to wake a model. It reads no configuration and starts no process.

#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "only backends use it, and this program has none")
)]

mod append;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod audit;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod authority;
mod client;
mod content;
mod erased;
mod error;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod examine;
mod health;
mod key;
mod measure;
mod name;
mod notice;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod request;
mod rows;
mod session;
mod shared;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod watch;
mod work;

pub use append::{Append, AppendError, CreateError, Created, Fence, FollowedBy, NewSession};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use audit::{
    AuditFinding, AuditReport, AuditedLog, Damage, RepairChange, RepairError, RepairReport,
};
pub use client::{Attendance, ClientNote};
pub use content::{
    ArtifactError, Document, Erased, Erasure, Expected, Hit, NewArtifact, Place, Put, PutError,
    Query, StoredArtifact, StoredVersion, VersionInfo, Which,
};
pub use erased::{EraseError, ErasedSession, ErasureRequest};
pub use error::{Error, ErrorKind};
#[cfg(feature = "sqlite")]
pub use examine::{
    LossPolicy, SqliteCheck, SqliteReport, audit_sqlite, audit_sqlite_against, examine_sqlite,
    is_in_use, repair_sqlite,
};
#[cfg(feature = "postgres")]
pub use examine::{
    PostgresReport, audit_postgres, audit_postgres_against, examine_postgres, repair_postgres,
};
pub use measure::{Histogram, HistogramReading, Measures, Standing, Tally};
pub use name::{NodeId, Tenant, TextError};
pub use notice::{
    Attempted, ClaimedDelivery, DeliveryClaim, DeliveryState, NextAttempt, NoticeKind,
    StoredDelivery, Webhook,
};
pub use page::Page;
pub use request::{Request, RequestId, RequestStep, Step, StoredRequest};
pub use rows::{CallStage, SessionStatus};
pub use session::{
    AcquireError, FoundCall, Lease, ListedSession, Loaded, SNAPSHOT_EVERY, SessionFilter,
    StoredCall, VerifyError,
};
pub use store::{COPY_MARK, Changes, Store};
pub use watch::{ChangedBy, NodeHere, Watch};
pub use work::{
    Abandoned, AbandonedCursor, CursorError, Due, DueWork, Moment, Pending, PendingCursor,
    PendingFilter, Wake,
};
