//! The binary `haft`; `lib.rs` has what it does.

use std::process::ExitCode;

/// A server makes and drops many values of middling size, at which the system's is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    haft_cli::main()
}
