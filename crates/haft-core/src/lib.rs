//! The vocabulary and the session machine of Haft.
