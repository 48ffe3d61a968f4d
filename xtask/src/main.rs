//! Everything a developer or CI runs, behind `cargo xtask`. One file per subcommand.
//!
//! Of the repository's crates, this one uses only testkit: lint and ci must also run while the daemon does not compile.
//! The generated documents need the daemon's tables, so they have the separate crate `xtask/docgen`.

mod alerts;
mod bans;
mod bench;
mod browser;
mod ci;
mod cmd;
mod dashboards;
mod demo;
mod deps;
mod docs;
mod e2e;
mod fuzz;
mod hw_nvidia;
mod lint;
mod package;
mod roots;
mod stage;
mod supply;
mod test;
mod testing;
mod vm;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use stage::Stages;

/// Runs, checks and shows nodewarden.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// All checks, with a table of results and times at the end.
    Ci {
        /// Also the long checks: fuzzing, benchmarks, a virtual machine.
        #[arg(long)]
        full: bool,
    },
    /// Unit, property, golden and corpus tests: no root, no packages, no network.
    Test {
        /// Only tests whose name contains this.
        name: Option<String>,
    },
    /// Formatting, clippy, and the rules of this repository.
    Lint {
        /// Only rules whose name contains this.
        name: Option<String>,
    },
    /// Writes the generated documents.
    Docs {
        /// Write nothing; fail if a document differs.
        #[arg(long)]
        check: bool,
    },
    /// Writes the alerts, their tests and their document, and has promtool check them.
    Alerts {
        /// Write nothing; fail if a file differs.
        #[arg(long)]
        check: bool,
    },
    /// Writes the dashboards, and has promtool parse their queries.
    Dashboards {
        /// Write nothing; fail if a file differs.
        #[arg(long)]
        check: bool,
    },
    /// Tests of the whole program with real programs. Needs root; installs missing Debian packages.
    E2e {
        /// Only this group.
        name: Option<String>,
        /// Also other Slurm releases, each in a root from debootstrap, and limits that depend on the machine.
        #[arg(long)]
        full: bool,
    },
    /// The daemon in a virtual machine with Debian's kernel: its own kernel log, Slurm, reboots. Needs root, Debian.
    Vm {
        /// Only this group.
        name: Option<String>,
    },
    /// Builds the .deb and the .rpm, with the release profile, and checks them with lintian.
    Package {
        /// Also install, upgrade and remove them in roots of Debian. Needs root, mmdebstrap.
        #[arg(long)]
        check: bool,
        /// Build for this architecture.
        #[arg(long, value_enum, default_value_t = supply::Arch::X86_64)]
        arch: supply::Arch,
    },
    /// Cost of a scrape, compared with node_exporter and a floor program. Needs root, Debian.
    Bench(bench::BenchArgs),
    /// The status page in Chromium, on a phone and on a desk, in each state. Needs root, Debian, or `chromium` and `npm`.
    Browser(browser::BrowserArgs),
    /// Records this machine's NVIDIA driver as a scenario for the stand-in. Changes nothing on the machine.
    HwNvidia(hw_nvidia::HwNvidiaArgs),
    /// Runs the daemon on a recorded node with a failing GPU.
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Ci { full } => ci::run(full),
        Task::Test { name } => in_stages(|stages| test::stages(stages, name.as_deref())),
        Task::Lint { name } => in_stages(|stages| lint::stages(stages, name.as_deref())),
        Task::Docs { check } => docs::run(check),
        Task::Alerts { check } => alerts::run(check),
        Task::Dashboards { check } => dashboards::run(check),
        Task::E2e { name, full } => {
            let mut stages = Stages::default();
            e2e::stages(&mut stages, name.as_deref(), full)?;
            stages.finish()
        }
        Task::Vm { name } => {
            let mut stages = Stages::default();
            vm::stages(&mut stages, name.as_deref())?;
            stages.finish()
        }
        Task::Package { check, arch } => package::run(check, arch),
        Task::Bench(args) => bench::run(&args),
        Task::Browser(args) => browser::run(args),
        Task::HwNvidia(args) => hw_nvidia::run(&args),
        Task::Demo(args) => demo::run(args),
    }
}

fn in_stages(body: impl FnOnce(&mut Stages)) -> Result<()> {
    let mut stages = Stages::default();
    body(&mut stages);
    stages.finish()
}
