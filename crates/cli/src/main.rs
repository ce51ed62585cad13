//! The `velella` command.
//!
//! All of it is in the library beside it. Tests: `tests/`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    velella_cli::run()
}
