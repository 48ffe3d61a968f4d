//! The `nodewarden` command: picks a subcommand.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = nodewarden::cli::main();
    // Log lines are written by a thread, which ends with the process.
    sys::log::flush();
    code
}
