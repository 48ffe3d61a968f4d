//! Cgroups for a cluster: where they are, the configuration for them, and their end.
//!
//! systemd is not needed. Of version 2: a machine that mounts controllers of v1 too has v2 below `/sys/fs/cgroup/unified`, without most
//! controllers: devices are restrained there by BPF all the same.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Slurm;
use crate::{exec, wait};

/// What Slurm does with cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// Which of them.
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

/// Two interfaces of the kernel, for each of which Slurm has a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

/// The hierarchies of v1 that Slurm makes folders in.
const V1: [&str; 6] = ["freezer", "devices", "memory", "cpuset", "cpu", "cpuacct"];

/// That this machine has the hierarchies of v1 that Slurm cannot do without. They are not mounted here: where
/// `/sys/fs/cgroup` is v2 there is no place for them that slurmd and the daemon would both look at.
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
        "this test needs cgroup v1, and {missing:?} are not mounted: boot with systemd.unified_cgroup_hierarchy=0, or \
         mount -t cgroup -o NAME cgroup /sys/fs/cgroup/NAME for each where /sys/fs/cgroup is a tmpfs"
    )
}

/// Hides v1 from slurmd; see the file.
const SHIM: &str = include_str!("only_v2.c");

/// Where cgroup v2 is mounted.
pub fn mount() -> Result<PathBuf> {
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let found = places.into_iter().find(|p| p.join("cgroup.controllers").exists());
    found.context("no cgroup v2 at /sys/fs/cgroup or /sys/fs/cgroup/unified")
}

/// What Slurm makes for the jobs of a node, and the folder of its slurmd. Both bear the node's name, so that no two
/// clusters of this machine may have nodes of one name.
fn folders(mount: &Path, node: &str) -> [PathBuf; 2] {
    let slice = mount.join("system.slice");
    [
        slice.join(format!("{node}_slurmstepd.scope")),
        slice.join(format!("{node}_slurmd.service")),
    ]
}

/// All of a cluster's.
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

/// The folder of v2 in which a node's jobs are.
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
    // Before these keys came there was v1 alone.
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

/// Makes the folders of the slurmds, and what hides v1 from them where there is any.
pub(super) fn prepare(slurm: &Slurm, version: Version) -> Result<()> {
    for folder in all(slurm, version)? {
        if folder.exists() {
            bail!(
                "{} is there: another cluster has a node of that name",
                folder.display()
            );
        }
    }
    if version == Version::V1 {
        return Ok(());
    }
    for name in slurm.node_names() {
        let [_, service] = folders(&mount()?, &name);
        // Somebody else's end may remove the slice while it is empty.
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

/// slurmd, which goes into its cgroup of v2 before it begins.
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

/// Ends what runs in these and removes them.
pub(super) fn remove(folders: &[PathBuf]) {
    for folder in folders {
        // Not there before Linux 5.14, nor in v1; what has a mark was ended by that.
        let kill = folder.join("cgroup.kill");
        if kill.exists() {
            fs::write(kill, "1").ok();
        }
        let gone = wait::until_true("cgroups to go", Duration::from_secs(10), || {
            remove_tree(folder);
            !folder.exists()
        });
        if let Err(error) = gone {
            eprintln!("testkit: {}: {error}", folder.display());
        }
    }
    for slice in folders.iter().filter_map(|f| f.parent()) {
        // It stays where another's are in it, and a hierarchy's root always.
        fs::remove_dir(slice).ok();
    }
}

/// How many device programs are attached to a cgroup itself (bpf(2), `BPF_PROG_QUERY`).
pub fn device_programs(cgroup: &Path) -> Result<u32> {
    /// What a query is made of, in `union bpf_attr`.
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
    // SAFETY: the kernel reads and writes this many bytes of the query, which is that long, and no list of ids is asked for.
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
