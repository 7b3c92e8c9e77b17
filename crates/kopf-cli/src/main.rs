//! The binary: everything is in the library, which the Python package uses, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(kopf_cli::run(std::env::args_os()))
}
