//! A program that is nothing but the launcher of sandboxes, for tests of this crate.

fn main() -> std::process::ExitCode {
    haft_sandbox::launcher::main_if_asked();
    std::process::ExitCode::from(2)
}
