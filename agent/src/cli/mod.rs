//! The command line: one file per subcommand.

mod bundle;
mod check;
mod client;
mod cluster;
mod config;
pub mod dirs;
mod help;
mod hook;
mod job;
#[cfg(test)]
mod matrix;
mod metrics;
mod order;
mod pause;
mod profile;
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

/// Monitor a GPU cluster node: Prometheus metrics, health checks, drains in Slurm.
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
    /// Show the health of the node: exit 0 healthy, 1 unhealthy, 2 unknown.
    #[command(after_long_help = help::CHECK)]
    Check(check::CheckArgs),
    /// Show verdict, drain, incidents, collectors and workers.
    #[command(after_long_help = help::STATUS)]
    Status(status::StatusArgs),
    /// Show incidents, their evidence and remedy.
    #[command(after_long_help = help::WHY)]
    Why(why::WhyArgs),
    /// Show usage of this node by running and ended jobs.
    #[command(after_long_help = help::JOB)]
    Job(job::JobArgs),
    /// Acknowledge an incident.
    #[command(after_long_help = help::ORDER)]
    Ack(order::OrderArgs),
    /// Close a repaired incident and undrain the node.
    #[command(after_long_help = help::ORDER)]
    Clear(order::OrderArgs),
    /// Stop nodewarden from draining and lifting, on this node or on the whole cluster, for a time.
    #[command(after_long_help = help::PAUSE)]
    Pause(pause::PauseArgs),
    /// End a pause.
    #[command(after_long_help = help::PAUSE)]
    Resume(pause::ResumeArgs),
    /// Release the driver while a command needs it exclusively.
    #[command(after_long_help = help::RELEASE)]
    Release(release::ReleaseArgs),
    /// Print the metrics of one reading, without the daemon.
    #[command(after_long_help = help::METRICS)]
    Metrics(metrics::MetricsArgs),
    /// Report a job to nodewarden from Slurm's prolog or epilog; always exits with 0.
    #[command(subcommand, after_long_help = help::HOOK)]
    Hook(hook::HookCommand),
    /// Check the configuration, or print an example.
    #[command(subcommand, after_long_help = help::CONFIG)]
    Config(config::ConfigCommand),
    /// Print what this node has, as a configuration that expects it.
    #[command(subcommand, after_long_help = help::PROFILE)]
    Profile(profile::ProfileCommand),
    /// Pack what vendors and developers need to understand this node, without names of users, jobs, hosts and paths.
    #[command(after_long_help = help::BUNDLE)]
    Bundle(bundle::BundleArgs),
    /// Print a completion script for a shell.
    #[command(after_long_help = help::COMPLETIONS)]
    Completions(shell::CompletionsArgs),
    /// Write the manual pages into a folder.
    #[command(hide = true)]
    Man(shell::ManArgs),
    #[command(hide = true)]
    BundleReader,
    #[command(hide = true)]
    MetricsReader(metrics::MetricsArgs),
}

/// Parses the command line and runs its command. Exit code 1: the command failed; 2: invalid command line.
pub fn main() -> ExitCode {
    if let Some(done) = process(std::env::args_os().skip(1)) {
        return exit_code(done);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print().is_ok();
            let args: Vec<OsString> = std::env::args_os().skip(1).collect();
            return ExitCode::from(refused(&args, error.exit_code(), printed));
        }
    };
    exit_code(perform(cli.command))
}

fn exit_code(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        screen::complain(&screen::chain(&error));
        code(&error)
    })
}

/// Runs a process that the parent starts, until its end. `None`: the arguments are a person's. Before the parser of the command
/// line, because a process that lives for months would keep the memory that the parser needed.
fn process(args: impl Iterator<Item = OsString>) -> Option<anyhow::Result<ExitCode>> {
    let args: Option<Vec<String>> = args.map(|arg| arg.into_string().ok()).collect();
    let mut args = args?.into_iter();
    Some(match args.next()?.as_str() {
        "worker" => crate::worker::main(args.collect()),
        "helper" => crate::helper::main(args.as_slice()),
        "act" => crate::runner::main(args.as_slice()),
        "daemon" => crate::daemon::main(args.collect()),
        _ => return None,
    })
}

/// The exit code for an invalid command line, or for a request for help (`code` 0). `printed`: whether the message
/// was printed.
fn refused(args: &[OsString], code: i32, printed: bool) -> u8 {
    let is_release = args.first().is_some_and(|verb| verb == "release");
    // Slurm drains a node whose prolog or epilog fails. So exit 0 even if nothing can be printed, or if an unknown
    // argument precedes the word.
    if !is_release && args.iter().any(|arg| arg == "hook") {
        return 0;
    }
    let has = |wanted: fn(&str) -> bool| args.iter().filter_map(|arg| arg.to_str()).any(wanted);
    // Also a format that is misspelt or missing.
    let is_plugin = args.first().is_some_and(|verb| verb == "check")
        && has(|arg| arg == "--format" || arg.starts_with("--format="))
        && !has(|arg| arg == "plain" || arg == "--format=plain");
    match u8::try_from(code).unwrap_or(2) {
        // 2 is CRITICAL there.
        _ if is_plugin && (code != 0 || !printed) => check::NAGIOS_UNKNOWN,
        // Nothing could be printed, so the exit code is the only answer.
        _ if !printed => 2,
        // The lower codes are those of the command that `release` runs.
        1.. if is_release => release::FAILED,
        code => code,
    }
}

/// Distinguishes a daemon that does not answer from one that refuses.
fn code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<client::Unreachable>() {
        Some(_) => ExitCode::from(2),
        None => ExitCode::FAILURE,
    }
}

fn perform(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => Ok(check::check(&args)),
        Command::Status(args) => status::status(&args),
        Command::Why(args) => why::why(&args),
        Command::Job(args) => job::job(&args),
        Command::Ack(args) => order::ack(args),
        Command::Clear(args) => order::clear(args),
        Command::Pause(args) => pause::pause(args),
        Command::Resume(args) => pause::resume(args),
        Command::Release(args) => Ok(release::release(&args)),
        Command::Metrics(args) => metrics::metrics(&args),
        Command::MetricsReader(args) => metrics::main(&args),
        Command::Hook(command) => Ok(hook::hook(&command)),
        Command::Config(command) => config::config(&command),
        Command::Profile(command) => profile::profile(&command),
        Command::Bundle(args) => bundle::bundle(&args),
        Command::BundleReader => bundle::reader(),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

#[cfg(test)]
mod tests;
