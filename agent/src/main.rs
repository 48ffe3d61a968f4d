//! The `nodewarden` command: picks a subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden::cli::main()
}
