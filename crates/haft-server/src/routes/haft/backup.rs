//! A backup of everything, as a stream of bytes.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::app::App;
use crate::backup;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::Params;
use crate::keys::Scope;

/// How many pieces may wait for a client that reads slowly.
const PIECES_MAX: usize = 4;

/// Gives a backup of the whole store and its data directory. It holds the data of every tenant and
/// the key under which secrets are sealed, so it is for the operator's admin key.
pub(super) async fn read(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    if caller.tenant.as_str() != crate::keys::ADMIN_TENANT {
        let message = "a backup holds every tenant's data: it needs the operator's admin key";
        return Err(Error::new(Kind::Permission, message));
    }
    let data = app.data().map(std::path::Path::to_owned);
    let data = data.filter(|_| app.store().is_of_one_process()).ok_or_else(|| {
        Error::invalid(
            "this server keeps its sessions in PostgreSQL: back that up with `pg_dump`, copy the \
             data directory, and run `haft restore --mark-only` after it was put back",
        )
    })?;
    let (pieces, mut written) = mpsc::channel(PIECES_MAX);
    drop(tokio::spawn(async move {
        let out = Pieces { pieces: pieces.clone(), piece: Vec::new() };
        let done = backup::write(app.store(), &data, app.now(), out).await;
        if let Err(error) = done {
            tracing::error!(%error, "a backup was not finished");
            // The answer breaks off, which its reader notices.
            drop(pieces.send(Err(io::Error::other(error))).await);
        }
    }));
    let first = written.recv().await;
    let first = match first {
        Some(Ok(first)) => first,
        Some(Err(error)) => return Err(Error::internal(error)),
        None => return Err(Error::internal("the backup has no content")),
    };
    let rest = stream::unfold((Some(first), written), |(first, mut written)| async {
        match first {
            Some(first) => Some((Ok(first), (None, written))),
            None => written.recv().await.map(|piece| (piece, (None, written))),
        }
    });
    let headers = [
        (CONTENT_TYPE, "application/x-tar"),
        (CONTENT_DISPOSITION, "attachment; filename=\"haft-backup.tar\""),
    ];
    Ok((headers, Body::from_stream(rest)))
}

/// How large a piece is before it is sent.
const PIECE: usize = 256 * 1024;

/// Sends what is written in pieces, and waits for the client to take them.
struct Pieces {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.pieces.blocking_send(Ok(piece.into())).map_err(gone)
    }
}
