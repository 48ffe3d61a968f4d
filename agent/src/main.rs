//! The `nodewarden` command: picks a subcommand.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden::cli::main()
}
