//! approval
