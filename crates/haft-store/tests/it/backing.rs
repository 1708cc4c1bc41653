//! What a case runs on: an empty store that can be opened again, as after a restart, and reached
//! behind the store's back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_store::Store;
use tokio_postgres::NoTls;

use crate::cluster::{self, Cluster};

/// A directory that goes away with the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("haft-store-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("haft.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Left behind in the temporary directory at worst.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// One of the two databases, empty.
pub(crate) enum Backing {
    Postgres(Schema),
    Sqlite(Directory),
}

/// A schema of its own in the shared cluster.
pub(crate) struct Schema {
    name: String,
    url: String,
    _cluster: Option<Arc<Cluster>>,
}

impl Schema {
    async fn new() -> Self {
        let (base, cluster) = cluster::shared();
        let name = format!("t{:032x}", crate::driver::fresh());
        let schema = Self { name: name.clone(), url: base.clone(), _cluster: cluster };
        schema.run(&format!("CREATE SCHEMA {name}")).await;
        let separator = if base.contains('?') { '&' } else { '?' };
        Self { url: format!("{base}{separator}options=-csearch_path%3D{name}"), ..schema }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
    pub(crate) async fn run(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
    async fn count(&self, sql: &str) -> i64 {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let count = client.query_one(sql, &[]).await.unwrap().get(0);
        drop(client);
        connection.await.unwrap().unwrap();
        count
    }
}

impl Backing {
    pub(crate) async fn open(&self) -> Store {
        match self {
            Self::Postgres(schema) => Store::connect_postgres(schema.url()).await.unwrap(),
            Self::Sqlite(directory) => Store::open_sqlite(directory.path()).unwrap(),
        }
    }

    /// Another node's view of an open store: a connection of its own where there can be one.
    pub(crate) async fn beside(&self, store: &Store) -> Store {
        match self {
            Self::Postgres(_) => self.open().await,
            Self::Sqlite(_) => store.clone(),
        }
    }

    /// Changes something behind the store's back.
    pub(crate) async fn tamper(&self, sql: &str) {
        match self {
            Self::Postgres(schema) => schema.run(sql).await,
            Self::Sqlite(directory) => tamper_sqlite(directory, sql),
        }
    }

    /// Counts something behind the store's back.
    #[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        match self {
            Self::Postgres(schema) => schema.count(sql).await,
            Self::Sqlite(directory) => {
                let connection = rusqlite::Connection::open(directory.database()).unwrap();
                connection.query_row(sql, [], |row| row.get(0)).unwrap()
            }
        }
    }

    /// Changes the content of every blob.
    pub(crate) async fn tamper_blobs(&self) {
        match self {
            Self::Postgres(_) => self.tamper("UPDATE blobs SET body = 'jello'").await,
            Self::Sqlite(_) => self.tamper("UPDATE blobs SET body = CAST('jello' AS BLOB)").await,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
pub(crate) fn tamper_sqlite(directory: &Directory, sql: &str) {
    let connection = rusqlite::Connection::open(directory.database()).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// Runs a case on an empty store of each kind.
#[expect(clippy::print_stdout, reason = "what a run leaves out is said aloud")]
pub(crate) fn on_every_store(case: impl AsyncFn(Backing)) {
    let runtime = runtime();
    runtime.block_on(case(Backing::Sqlite(Directory::new())));
    if cluster::is_left_out() {
        println!("left out: PostgreSQL, because HAFT_TEST_FAST=1");
        return;
    }
    runtime.block_on(async { case(Backing::Postgres(Schema::new().await)).await });
}

/// Runs a case that only PostgreSQL has.
pub(crate) fn on_postgres(case: impl AsyncFn(Schema)) {
    if !cluster::is_left_out() {
        runtime().block_on(async { case(Schema::new().await).await });
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
