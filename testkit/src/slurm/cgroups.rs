//! Cgroups of a cluster: their paths, configuration and removal.
//!
//! systemd is not needed. A machine that also mounts v1 controllers has v2 below `/sys/fs/cgroup/unified`, without most
//! controllers. BPF programs restrict devices there too.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Slurm;
use crate::{exec, wait};

/// Slurm's use of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// The cgroup version.
    pub version: Version,
    /// `ConstrainDevices`: a job may open its own GPUs only.
    pub constrain_devices: bool,
}

impl Default for Cgroups {
    fn default() -> Self {
        Self {
            version: Version::V2,
            constrain_devices: true,
        }
    }
}

/// The kernel's two interfaces; Slurm has a plugin for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

/// The v1 hierarchies in which Slurm creates folders.
const V1: [&str; 6] = ["freezer", "devices", "memory", "cpuset", "cpu", "cpuacct"];

/// Checks that this machine has the v1 hierarchies that Slurm requires. Tests cannot mount them: if `/sys/fs/cgroup` is
/// v2, slurmd and the daemon have no common path for them.
pub fn needs_v1() -> Result<()> {
    let missing: Vec<PathBuf> = V1
        .iter()
        .take(2)
        .map(|name| Path::new("/sys/fs/cgroup").join(name))
        .filter(|top| !top.join("tasks").exists())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "this test needs cgroup v1, but {missing:?} are not mounted: boot with systemd.unified_cgroup_hierarchy=0, or \
         mount -t cgroup -o NAME cgroup /sys/fs/cgroup/NAME for each where /sys/fs/cgroup is a tmpfs"
    )
}

/// Hides v1 from slurmd; see that file.
const SHIM: &str = include_str!("only_v2.c");

/// The mount point of cgroup v2.
pub fn mount() -> Result<PathBuf> {
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let found = places.into_iter().find(|p| p.join("cgroup.controllers").exists());
    found.context("no cgroup v2 at /sys/fs/cgroup or /sys/fs/cgroup/unified")
}

/// The cgroup of a node's jobs, and of its slurmd. Both contain the node's name, so node names must be unique among all
/// clusters of this machine.
fn folders(mount: &Path, node: &str) -> [PathBuf; 2] {
    let slice = mount.join("system.slice");
    [
        slice.join(format!("{node}_slurmstepd.scope")),
        slice.join(format!("{node}_slurmd.service")),
    ]
}

/// All cgroups of a cluster.
pub(super) fn all(slurm: &Slurm, version: Version) -> Result<Vec<PathBuf>> {
    let names = slurm.node_names();
    match version {
        Version::V1 => {
            let of = |node: &String| V1.map(|name| format!("/sys/fs/cgroup/{name}/slurm_{node}").into());
            Ok(names.iter().flat_map(of).collect())
        }
        Version::V2 => {
            let mount = mount()?;
            Ok(names.iter().flat_map(|node| folders(&mount, node)).collect())
        }
    }
}

/// The v2 cgroup that contains a node's jobs.
pub fn jobs(node: &str) -> Result<PathBuf> {
    let [scope, _] = folders(&mount()?, node);
    Ok(scope)
}

/// cgroup.conf.
pub(super) fn conf(slurm: &Slurm, cgroups: Cgroups) -> Result<String> {
    let (plugin, mount) = match cgroups.version {
        Version::V1 => ("cgroup/v1", "/sys/fs/cgroup".into()),
        Version::V2 => ("cgroup/v2", mount()?),
    };
    let mount = slurm.options.installation.seen(cgroups.version, mount);
    let devices = if cgroups.constrain_devices { "yes" } else { "no" };
    // Releases before these keys support v1 only.
    let plugin = if slurm.version >= (22, 5) {
        format!("CgroupPlugin={plugin}\nIgnoreSystemd=yes\n")
    } else {
        String::new()
    };
    Ok(format!(
        "{plugin}CgroupMountpoint={}\nConstrainDevices={devices}\n",
        mount.display()
    ))
}

/// Lines of slurm.conf.
pub(super) const SLURM_CONF: &str =
    "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nPrologFlags=Alloc,Contain\n";

/// Creates the cgroups of the slurmds, and the library that hides v1 from them if needed.
pub(super) fn prepare(slurm: &Slurm, version: Version) -> Result<()> {
    for folder in all(slurm, version)? {
        if folder.exists() {
            bail!(
                "{} exists: another cluster has a node of that name",
                folder.display()
            );
        }
    }
    if version == Version::V1 {
        return Ok(());
    }
    for name in slurm.node_names() {
        let [_, service] = folders(&mount()?, &name);
        // Another cluster that ends may remove the slice while it is empty.
        wait::until("a cgroup for slurmd", Duration::from_secs(5), || {
            Ok(fs::create_dir_all(&service).ok())
        })?;
    }
    let own = fs::read_to_string("/proc/self/cgroup")?;
    if own.lines().any(|line| !line.starts_with("0::")) {
        let source = slurm.base().join("only_v2.c");
        fs::write(&source, SHIM)?;
        let mut cc = Command::new(exec::which("cc")?);
        cc.args(["-O1", "-shared", "-fPIC", "-o"]);
        cc.arg(shim(slurm)).arg(&source);
        exec::run(cc, b"", wait::PATIENCE)?.ok()?;
    }
    Ok(())
}

fn shim(slurm: &Slurm) -> PathBuf {
    slurm.base().join("only_v2.so")
}

/// The command of slurmd, which enters its v2 cgroup first.
pub(super) fn slurmd(slurm: &Slurm, node: &str) -> Result<Command> {
    let version = slurm.options.cgroups.map(|c| c.version);
    let slurmd = slurm.options.installation.command("slurmd", version)?;
    if version != Some(Version::V2) {
        return Ok(slurmd);
    }
    let [_, service] = folders(&mount()?, node);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
        .arg(service.join("cgroup.procs"))
        .arg(slurmd.get_program())
        .args(slurmd.get_args());
    if shim(slurm).exists() {
        command.env("LD_PRELOAD", shim(slurm));
    }
    Ok(command)
}

/// Ends all processes in these cgroups and removes them.
pub(super) fn remove(folders: &[PathBuf]) {
    for folder in folders {
        // Absent before Linux 5.14 and in v1; processes with a mark have already been ended.
        let kill = folder.join("cgroup.kill");
        if kill.exists() {
            fs::write(kill, "1").ok();
        }
        let gone = wait::until_true("removal of cgroups", Duration::from_secs(10), || {
            remove_tree(folder);
            !folder.exists()
        });
        if let Err(error) = gone {
            eprintln!("testkit: {}: {error}", folder.display());
        }
    }
    for slice in folders.iter().filter_map(|f| f.parent()) {
        // Fails if other clusters have cgroups in it, and for the root of a hierarchy.
        fs::remove_dir(slice).ok();
    }
}

/// Number of device programs attached directly to a cgroup (bpf(2), `BPF_PROG_QUERY`).
pub fn device_programs(cgroup: &Path) -> Result<u32> {
    /// The part of `union bpf_attr` for queries.
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        folder: i32,
        kind: u32,
        flags: u32,
        attach_flags: u32,
        ids: u64,
        count: u32,
        padding: u32,
    }
    const QUERY: libc::c_long = 16;
    const DEVICE: u32 = 6;
    let folder = fs::File::open(cgroup).with_context(|| cgroup.display().to_string())?;
    let mut query = Query {
        folder: folder.as_raw_fd(),
        kind: DEVICE,
        ..Query::default()
    };
    // SAFETY: the kernel accesses exactly the size of the query, and no list of ids is requested.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, QUERY, &raw mut query, size_of::<Query>()) };
    nix::errno::Errno::result(answer).context("BPF_PROG_QUERY")?;
    Ok(query.count)
}

fn remove_tree(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    fs::remove_dir(folder).ok();
}
