//! The client against servers that behave as servers do.

mod connections;
