//! A process that a test kills, to see what it leaves behind: `victim mount DIR` or `victim cluster [PREFIX]`, with a
//! prefix in cgroups v2.

use anyhow::{Result, bail};
use testkit::daemon::Daemon;
use testkit::fuse_hang::FuseHang;
use testkit::slurm::{Cgroups, Slurm, SlurmOptions};
use testkit::wait::{self, PATIENCE};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["mount", dir] => frozen_mount(dir),
        ["cluster"] => cluster(SlurmOptions::default()),
        // No other cluster of this machine may have nodes of that name.
        ["cluster", prefix] => cluster(SlurmOptions {
            node_prefix: prefix.into(),
            cgroups: Some(Cgroups::default()),
            ..SlurmOptions::default()
        }),
        _ => bail!("usage: victim mount DIR | victim cluster [PREFIX]"),
    }
}

/// Serves a mount that never answers, and waits for itself.
fn frozen_mount(dir: &str) -> Result<()> {
    let hang = FuseHang::mount(dir)?;
    let file = hang.add("f", "x");
    hang.freeze();
    std::thread::spawn(move || std::fs::read(file));
    wait::until_true("parked", PATIENCE, || hang.waiting() == 1)?;
    println!("frozen");
    loop {
        std::thread::park();
    }
}

/// A daemon with a child that left its session, and a cluster with a running job.
fn cluster(options: SlurmOptions) -> Result<()> {
    let daemon = Daemon::run("/bin/sh", &["-c", "setsid sleep 3000 & sleep 4000"])?;
    daemon.wait_for_child(&["3000"], PATIENCE)?;
    let slurm = Slurm::start(options)?;
    let job = slurm.submit("sleep 5000", "gpu:1")?;
    slurm.wait_job(job, "RUNNING", PATIENCE)?;
    println!("\nup {} {}", daemon.pid(), slurm.dir().display());
    loop {
        std::thread::park();
    }
}
