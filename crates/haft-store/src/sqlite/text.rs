//! Full-text search in SQLite, by FTS5.

use rusqlite::params;

use super::Sqlite;
use super::writer::Hint;
use crate::content::{Document, Hit, Place, Query, without_nul};
use crate::error::Error;

const REMOVE: &str = "DELETE FROM documents WHERE tenant = ?1 AND space = ?2 AND key = ?3";

impl Sqlite {
    pub(crate) async fn index(&self, document: Document) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                let Document { place, title, body, at } = &document;
                let (tenant, space, key) = (place.tenant().as_str(), place.space(), place.key());
                connection.prepare_cached(REMOVE)?.execute([tenant, space, key])?;
                let sql = "INSERT INTO documents (tenant, space, key, title, body, at)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let (title, body) = (without_nul(title), without_nul(body));
                let values = params![tenant, space, key, title, body, at.ms()];
                connection.prepare_cached(sql)?.execute(values)?;
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn unindex(&self, place: Place) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                let place = [place.tenant().as_str(), place.space(), place.key()];
                connection.prepare_cached(REMOVE)?.execute(place)?;
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn search(&self, query: Query) -> Result<Vec<Hit>, Error> {
        // Quoted, a term is a plain word to FTS5; it holds no quote of its own.
        let terms: Vec<String> = query.terms().iter().map(|term| format!("\"{term}\"")).collect();
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        self.read(move |connection| {
            let sql = "SELECT space, key, documents.title,
                         snippet(documents_text, 1, '', '', '…', 24)
                       FROM documents_text JOIN documents ON documents.id = documents_text.rowid
                       WHERE documents_text MATCH ?1 AND tenant = ?2
                         AND (?3 IS NULL OR space = ?3)
                       ORDER BY bm25(documents_text, 4.0, 1.0), documents.id LIMIT ?4";
            let mut statement = connection.prepare_cached(sql)?;
            let values = params![terms.join(" "), query.tenant.as_str(), query.space, query.limit];
            let mut rows = statement.query(values)?;
            let mut hits = Vec::new();
            while let Some(row) = rows.next()? {
                let (space, key): (String, String) = (row.get(0)?, row.get(1)?);
                let place = Place::new(query.tenant.clone(), &space, &key)?;
                hits.push(Hit { place, title: row.get(2)?, snippet: row.get(3)? });
            }
            Ok(hits)
        })
        .await
    }
}
