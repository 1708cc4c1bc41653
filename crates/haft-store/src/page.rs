//! Pages by key: the next page starts after the last thing seen, so that what is added or removed
//! meanwhile neither repeats nor hides anything.

/// Which part of a list is wanted.
#[derive(Debug, Clone)]
pub struct Page<C> {
    /// Where the previous page ended; `None` for the first.
    pub after: Option<C>,
    /// How many at most.
    pub limit: u32,
}

impl<C> Page<C> {
    /// Returns the first page.
    pub const fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    /// Returns the page that follows.
    pub const fn after(cursor: C, limit: u32) -> Self {
        Self { after: Some(cursor), limit }
    }
}
