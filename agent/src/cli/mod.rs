//! The command line: one file per subcommand.

mod check;
mod client;
mod config;
pub mod dirs;
mod help;
mod hook;
mod job;
mod metrics;
mod order;
mod release;
pub mod run;
pub mod run_args;
mod shell;
mod status;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::screen;
use run_args::RunArgs;
pub use shell::visible;

/// Watches a GPU cluster node: Prometheus metrics, health checks, and drains that can be trusted.
#[derive(Debug, Parser)]
#[command(name = "nodewarden", version, after_long_help = help::PROGRAM)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon.
    #[command(after_long_help = help::RUN)]
    Run(RunArgs),
    /// Say whether the node is fit for work: exit 0 healthy, 1 unhealthy, 2 unknown.
    #[command(after_long_help = help::CHECK)]
    Check(check::CheckArgs),
    /// Show verdict, drain, incidents, collectors and workers.
    #[command(after_long_help = help::STATUS)]
    Status(status::StatusArgs),
    /// Show what is wrong, the evidence, and what to do about it.
    #[command(after_long_help = help::WHY)]
    Why(why::WhyArgs),
    /// Show the jobs of this node: what they use, and what those that have ended have used.
    #[command(after_long_help = help::JOB)]
    Job(job::JobArgs),
    /// Say that somebody looks after an incident; nothing else changes.
    #[command(after_long_help = help::ORDER)]
    Ack(order::OrderArgs),
    /// Say that an incident is repaired: it is closed and our drain is lifted.
    #[command(after_long_help = help::ORDER)]
    Clear(order::OrderArgs),
    /// Let go of a driver while a command resets, unloads or divides it.
    #[command(after_long_help = help::RELEASE)]
    Release(release::ReleaseArgs),
    /// Read the node once, without the daemon, and print the metrics.
    #[command(after_long_help = help::METRICS)]
    Metrics(metrics::MetricsArgs),
    /// Write down what Slurm's prolog and epilog know of a job; exit 0 whatever happens.
    #[command(subcommand, after_long_help = help::HOOK)]
    Hook(hook::HookCommand),
    /// Check the configuration, or print an example.
    #[command(subcommand, after_long_help = help::CONFIG)]
    Config(config::ConfigCommand),
    /// Print a script that completes the command line in a shell.
    #[command(after_long_help = help::COMPLETIONS)]
    Completions(shell::CompletionsArgs),
    /// Write the manual pages into a folder.
    #[command(hide = true)]
    Man(shell::ManArgs),
    #[command(hide = true)]
    Worker(PassedArgs),
    #[command(hide = true)]
    Daemon(PassedArgs),
}

/// Arguments that the process's own main reads.
#[derive(Debug, clap::Args)]
struct PassedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Reads the command line and does what it says. The exit code of a command that fails otherwise is 1; of a command
/// line that is not understood, 2.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let told = error.print().is_ok();
            let args: Vec<OsString> = std::env::args_os().skip(1).collect();
            return ExitCode::from(refused(&args, error.exit_code(), told));
        }
    };
    match perform(cli.command) {
        Ok(code) => code,
        Err(error) => {
            screen::complain(&screen::chain(&error));
            code(&error)
        }
    }
}

/// The exit code for a command line that is not understood, or asks for help (`code` 0). `told`: that could be printed.
fn refused(args: &[OsString], code: i32, told: bool) -> u8 {
    let is_release = args.first().is_some_and(|verb| verb == "release");
    // Slurm drains a node whose prolog or epilog fails: so not even where nothing can be printed, nor where an argument
    // that nobody knows stands before the word.
    if !is_release && args.iter().any(|arg| arg == "hook") {
        return 0;
    }
    match u8::try_from(code).unwrap_or(2) {
        // Where even that cannot be printed, the exit code is all there is.
        _ if !told => 2,
        // There the lower ones are the command's own.
        1.. if is_release => release::FAILED,
        code => code,
    }
}

/// A daemon that does not answer is told apart from one that says no.
fn code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<client::Unreachable>() {
        Some(_) => ExitCode::from(2),
        None => ExitCode::FAILURE,
    }
}

fn perform(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::check(&args),
        Command::Status(args) => status::status(&args),
        Command::Why(args) => why::why(&args),
        Command::Job(args) => job::job(&args),
        Command::Ack(args) => order::ack(args),
        Command::Clear(args) => order::clear(args),
        Command::Release(args) => Ok(release::release(&args)),
        Command::Metrics(args) => metrics::metrics(&args),
        Command::Hook(command) => Ok(hook::hook(&command)),
        Command::Config(command) => config::config(&command),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        Command::Worker(passed) => crate::worker::main(passed.args),
        Command::Daemon(passed) => crate::daemon::main(passed.args),
    }
}

#[cfg(test)]
mod tests;
