//! Full-text search in PostgreSQL.

use super::Postgres;
use super::column;
use crate::content::{Document, Hit, Place, Query, without_nul};
use crate::error::Error;

impl Postgres {
    pub(crate) async fn index(&self, document: Document) -> Result<(), Error> {
        let sql = "INSERT INTO documents (tenant, space, key, title, body, at)
                   VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (tenant, space, key) DO UPDATE
                   SET title = excluded.title, body = excluded.body, at = excluded.at";
        let Document { place, title, body, at } = &document;
        let (tenant, space, key) = (place.tenant().as_str(), place.space(), place.key());
        let (title, body) = (without_nul(title), without_nul(body));
        self.query(sql, &[&tenant, &space, &key, &title, &body, &at.ms()]).await?;
        Ok(())
    }

    pub(crate) async fn unindex(&self, place: Place) -> Result<(), Error> {
        let sql = "DELETE FROM documents WHERE tenant = $1 AND space = $2 AND key = $3";
        self.query(sql, &[&place.tenant().as_str(), &place.space(), &place.key()]).await?;
        Ok(())
    }

    pub(crate) async fn search(&self, query: Query) -> Result<Vec<Hit>, Error> {
        let terms = query.terms();
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT space, key, title, ts_headline('simple', body, wanted,
                     'StartSel=\"\", StopSel=\"\", MaxWords=24, MinWords=8')
                   FROM documents, plainto_tsquery('simple', $1) AS wanted
                   WHERE words @@ wanted AND tenant = $2 AND ($3::text IS NULL OR space = $3)
                   ORDER BY ts_rank(words, wanted) DESC, key COLLATE \"C\" LIMIT $4";
        let limit = i64::from(query.limit);
        let (words, tenant) = (terms.join(" "), query.tenant.as_str());
        let rows = self.query(sql, &[&words, &tenant, &query.space, &limit]).await?;
        let mut hits = Vec::with_capacity(rows.len());
        for row in &rows {
            let (space, key): (&str, &str) = (column(row, 0)?, column(row, 1)?);
            let place = Place::new(query.tenant.clone(), space, key)?;
            hits.push(Hit { place, title: column(row, 2)?, snippet: column(row, 3)? });
        }
        Ok(hits)
    }
}
