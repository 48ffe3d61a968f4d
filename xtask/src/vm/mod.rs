//! `cargo xtask vm`: the program in a virtual machine with Debian's own kernel. It tests what a developer's machine
//! cannot: lines that the kernel itself prints, a kernel log that users cannot read, and real reboots.
//!
//! QEMU emulates the processor, so the host needs neither KVM nor another kernel. The guest's files are in `xtask/vm/`;
//! generated files are in `target/vm/`.

mod image;
mod kernel;
mod nfs;
mod qemu;
mod ram;
mod rdma;
mod rdma_bench;
mod rdma_link;
mod rdma_loss;
mod rdma_siw;
mod report;
mod rootfs;
mod systemd;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use nix::unistd::Uid;

use crate::stage::Stages;
use crate::{cmd, deps};

/// Debian packages that the host needs: QEMU, tools for a module and an image, and the guest's programs.
const PACKAGES: &[&str] = &[
    "qemu-system-x86",
    "busybox-static",
    "cpio",
    "e2fsprogs",
    "gcc-12",
    "kmod",
    "libelf1",
    "make",
    "munge",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurmctld",
    "slurmd",
];

/// Time limit of all boots together. A machine with two cores needs a fifth of it.
const DEADLINE: Duration = Duration::from_secs(8 * 60);

/// Every result that the guest must report: a missing one has failed.
const RESULTS: &[&str] = &[
    "kernel",
    "defaults: up",
    "defaults: rights of the worker",
    "user space: not believed",
    "user space: nothing is counted",
    "kernel line: counted once",
    "kernel line: an incident",
    "kernel line: unhealthy",
    "slurm: registered and idle",
    "history: counted",
    "history: healthy",
    "drain",
    "drain: reason",
    "drain: recorded",
    "reset: registered, still drained",
    "gpu absent: unhealthy",
    "gpu absent: known as ours",
    "gpu absent: stays drained",
    "gpu absent: reason",
    "reboot: registered, still drained",
    "gpu back: kept",
    "gpu back: undrained",
    "gpu back: idle",
    "gpu back: by us",
    "gpu back: healthy",
    "gpu back: counters",
];

/// One or two guests: packages, image, expected results.
struct Group {
    name: &'static str,
    packages: &'static [&'static [&'static str]],
    make: fn(&Path) -> Result<Vec<Machine>>,
    results: &'static [&'static str],
    /// Time limit of all its boots together: several times what two idle cores need.
    deadline: Duration,
}

const GROUPS: &[Group] = &[
    Group {
        name: "spine",
        packages: &[PACKAGES],
        make,
        results: RESULTS,
        deadline: DEADLINE,
    },
    Group {
        name: "systemd",
        packages: &[systemd::PACKAGES],
        make: systemd::make,
        results: systemd::RESULTS,
        deadline: systemd::DEADLINE,
    },
    Group {
        name: "nfs",
        packages: nfs::PACKAGES,
        make: nfs::make,
        results: nfs::RESULTS,
        deadline: nfs::DEADLINE,
    },
    Group {
        name: "rdma",
        packages: rdma::PACKAGES,
        make: rdma::make,
        results: rdma::RESULTS,
        deadline: rdma::DEADLINE,
    },
    Group {
        name: "rdma-link",
        packages: rdma_link::PACKAGES,
        make: rdma_link::make,
        results: rdma_link::RESULTS,
        deadline: rdma_link::DEADLINE,
    },
    Group {
        name: "rdma-loss",
        packages: rdma_loss::PACKAGES,
        make: rdma_loss::make,
        results: rdma_loss::RESULTS,
        deadline: rdma_loss::DEADLINE,
    },
    Group {
        name: "rdma-siw",
        packages: rdma_siw::PACKAGES,
        make: rdma_siw::make,
        results: rdma_siw::RESULTS,
        deadline: rdma_siw::DEADLINE,
    },
];

/// Groups that run in every CI: those of RDMA that take no minutes.
const QUICK: [&str; 3] = ["rdma", "rdma-link", "rdma-siw"];

/// Runs the groups of every CI.
pub(crate) fn quick(stages: &mut Stages) {
    let quick = GROUPS.iter().filter(|g| QUICK.contains(&g.name));
    run(stages, &quick.collect::<Vec<_>>());
}

/// Runs all groups, or those of one name: `rdma` includes `rdma-loss`.
///
/// # Errors
/// When no group has that name.
pub(crate) fn stages(stages: &mut Stages, name: Option<&str>) -> Result<()> {
    let wanted: Vec<&Group> = (GROUPS.iter())
        .filter(|g| name.is_none_or(|n| is_named(g.name, n)))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
        bail!("unknown group, expected one of: {}", names.join(" "));
    }
    run(stages, &wanted);
    Ok(())
}

fn run(stages: &mut Stages, groups: &[&Group]) {
    let work = cmd::root().join("target/vm");
    for group in groups {
        let stage = format!("vm {}", group.name);
        if !stages.run(&format!("{stage}: packages"), || packages(group)) {
            stages.not_run(&stage, "its packages");
            continue;
        }
        let mut made = None;
        if !stages.run(&format!("{stage}: image"), || {
            made = Some((group.make)(&work)?);
            Ok(())
        }) {
            stages.not_run(&stage, "its image");
            continue;
        }
        stages.run(&stage, || match &made {
            Some(machines) => boot(machines, group, &work).map(drop),
            None => bail!("the image is missing"),
        });
    }
}

/// Runs the benchmark guest, and returns its results by name.
///
/// # Errors
/// When the guest cannot be made or run.
pub(crate) fn bench() -> Result<Vec<(String, String)>> {
    let work = cmd::root().join("target/vm");
    packages(&BENCH)?;
    boot(&(BENCH.make)(&work)?, &BENCH, &work)
}

const BENCH: Group = Group {
    name: "rdma-bench",
    packages: rdma_bench::PACKAGES,
    make: rdma_bench::make,
    results: rdma_bench::RESULTS,
    deadline: rdma_bench::DEADLINE,
};

fn is_named(group: &str, name: &str) -> bool {
    (group.strip_prefix(name)).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn packages(group: &Group) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the guest uses this machine's own programs; only x86_64 is supported");
    }
    if !Uid::effective().is_root() {
        bail!("needs root: the files of the guest belong to root");
    }
    deps::install(&group.packages.concat())
}

/// The configuration of a QEMU.
struct Machine {
    /// Name of the file for its console output.
    name: &'static str,
    vmlinuz: PathBuf,
    initramfs: PathBuf,
    /// `None` if the guest runs from the initramfs.
    disk: Option<PathBuf>,
    /// Further kernel arguments.
    append: &'static str,
    /// Whether it has an NVMe drive.
    nvme: bool,
    clock: Clock,
}

/// The clock of a guest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// The host's clock.
    Host,
    /// A count of its own instructions; when idle, it jumps to the next timer. Ten minutes of waiting then take
    /// seconds, and a busy host delays nothing. Not for guests that wait for each other.
    Leaps,
}

fn make(work: &Path) -> Result<Vec<Machine>> {
    // The end-to-end tests may have built it with their feature.
    cmd::build_nodewarden()?;
    std::fs::create_dir_all(work)?;
    let kernel = kernel::get(work)?;
    let module = kernel.build(&cmd::root().join("xtask/vm/module"), &work.join("module"), &[])?;
    Ok(vec![Machine {
        name: "spine",
        initramfs: image::initramfs(&kernel, &[], work)?,
        disk: Some(image::disk(&kernel.release, &module, work)?),
        vmlinuz: kernel.vmlinuz(),
        append: "",
        nvme: false,
        clock: Clock::Host,
    }])
}

fn boot(machines: &[Machine], group: &Group, work: &Path) -> Result<Vec<(String, String)>> {
    let mut results = report::Report::default();
    let ended = qemu::run(machines, work, group.deadline, |line| results.line(line));
    let verdict = results.finish(group.results);
    for machine in machines {
        println!("console: {}", qemu::console(machine, work).display());
    }
    match (verdict, ended) {
        (Err(missing), Err(end)) => Err(end.context(missing)),
        (verdict, ended) => ended.and(verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_its_group_and_those_below_it() {
        for (group, name, is) in [
            ("rdma", "rdma", true),
            ("rdma-loss", "rdma", true),
            ("rdma-loss", "rdma-loss", true),
            ("rdma", "rdma-loss", false),
            ("rdma", "rd", false),
        ] {
            assert_eq!(is_named(group, name), is, "{group} {name}");
        }
    }
}
