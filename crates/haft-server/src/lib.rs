//! Haft over HTTP.
