//! The folder of a cluster and its configuration files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use tempfile::TempDir;

use super::{Slurm, absent, cgroups};
use crate::executable;
use crate::ports::Port;

/// NVIDIA's character major; opening such a device without the driver fails, which is all that Slurm needs.
const GPU_MAJOR: u64 = 195;

/// A new folder that other users can pass, with a name short enough for Unix sockets in it.
pub(super) fn folder(configured: &Path) -> Result<TempDir> {
    let root = if configured.as_os_str().len() > 40 {
        Path::new("/tmp")
    } else {
        configured
    };
    for parent in root.ancestors() {
        if fs::metadata(parent)?.permissions().mode() & 0o001 == 0 {
            bail!("{} is closed to other users; set TMPDIR", parent.display());
        }
    }
    let dir = tempfile::Builder::new().prefix("slurm-").tempdir_in(root)?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    Ok(dir)
}

pub(super) fn write(slurm: &Slurm) -> Result<()> {
    let base = slurm.base();
    for dir in ["bin", "etc", "state", "spool", "log", "dev", "munge"] {
        fs::create_dir(base.join(dir))?;
    }
    for minor in 0..slurm.options.gpus {
        fake_gpu(&base.join(format!("dev/nvidia{minor}")), minor as u64)?;
    }
    for (name, major, minor) in &slurm.options.devices {
        device(&base.join("dev").join(name), *major, *minor)?;
    }
    let conf = slurm_conf(slurm)?;
    let gres = gres_conf(slurm, slurm.options.gpus);
    let mut files = vec![slurm.conf()];
    files.extend(slurm.node_names().iter().map(|name| slurm.node_conf(name)));
    for file in files {
        fs::create_dir_all(file.parent().context("parent")?)?;
        fs::write(&file, &conf)?;
        fs::write(file.with_file_name("gres.conf"), &gres)?;
        if let Some(cgroups) = slurm.options.cgroups {
            fs::write(file.with_file_name("cgroup.conf"), cgroups::conf(slurm, cgroups)?)?;
        }
    }
    for (name, text) in hooks(slurm) {
        let file = base.join("etc").join(name.to_lowercase());
        executable::write(&file, text)?;
    }
    for name in slurm.node_names() {
        fs::create_dir(base.join("spool").join(name))?;
    }
    Ok(())
}

fn hooks(slurm: &Slurm) -> impl Iterator<Item = (&'static str, &String)> {
    let options = &slurm.options;
    let both = [("Prolog", &options.prolog), ("Epilog", &options.epilog)];
    both.into_iter()
        .filter_map(|(name, text)| Some((name, text.as_ref()?)))
}

// Where device nodes may not be made, the console's stand for them: Slurm only wants character devices.
fn fake_gpu(path: &Path, minor: u64) -> Result<()> {
    if device(path, GPU_MAJOR, minor).is_err() {
        std::os::unix::fs::symlink(format!("/dev/tty{minor}"), path)?;
    }
    Ok(())
}

fn device(path: &Path, major: u64, minor: u64) -> Result<()> {
    let mode = Mode::from_bits_truncate(0o666);
    mknod(path, SFlag::S_IFCHR, mode, makedev(major, minor)).with_context(|| path.display().to_string())
}

pub(super) fn gres_conf(slurm: &Slurm, gpus: usize) -> String {
    let dev = slurm.base().join("dev");
    let dev = dev.display();
    match &slurm.options.gres_conf {
        Some(text) => text.replace("@DEV@", &dev.to_string()),
        None if gpus == 0 => "AutoDetect=off\n".into(),
        None => {
            let nodes = all_nodes(slurm);
            let last = gpus - 1;
            format!("AutoDetect=off\nNodeName={nodes} Name=gpu Type=h100 File={dev}/nvidia[0-{last}]\n")
        }
    }
}

/// Production values where those of a small cluster would change what the controller does for a command. It calls the
/// absent nodes once, directly, and not again: with 10,000 of them that takes it 6 s of processor time.
const WITH_ABSENT: &str = "SlurmctldDebug=info
SchedulerParameters=batch_sched_delay=3
TreeWidth=65533
SlurmdTimeout=65533
";

/// Every configured node, as a host list.
fn all_nodes(slurm: &Slurm) -> String {
    let names = slurm.node_names().into_iter();
    names.chain(absent::names(slurm)).collect::<Vec<_>>().join(",")
}

fn slurm_conf(slurm: &Slurm) -> Result<String> {
    let mut nodes: Vec<(String, u16)> = slurm
        .node_names()
        .into_iter()
        .zip(slurm.ports[1..].iter().map(Port::number))
        .collect();
    nodes.extend(absent::names(slurm).zip(absent::port(slurm)));
    of_nodes(slurm, &nodes, &all_nodes(slurm))
}

/// slurm.conf of these nodes, each with its port, and of one partition.
pub(super) fn of_nodes(slurm: &Slurm, nodes: &[(String, u16)], partition: &str) -> Result<String> {
    let options = &slurm.options;
    let real = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN)?.unwrap_or(1);
    let real = usize::try_from(real)?;
    let cpus = options.cpus.unwrap_or(real);
    let host = nix::unistd::gethostname()?;
    let host = host.to_string_lossy();
    let host = host.split('.').next().unwrap_or_default();
    let base = slurm.base().display();
    let controller = slurm.ports[0].number();
    let gres = match &options.node_gres {
        Some(text) => text.clone(),
        None if options.gpus == 0 => String::new(),
        None => format!("gpu:h100:{}", options.gpus),
    };
    let gres = if gres.is_empty() {
        gres
    } else {
        format!("Gres={gres}")
    };
    let overrides = if cpus > real {
        "SlurmdParameters=config_overrides\n"
    } else {
        ""
    };
    let mut text = format!(
        "ClusterName=testkit
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={base}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller}
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool/%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd-%n.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdLogFile={base}/log/slurmd-%n.log
SlurmctldDebug=debug
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1
ReturnToService=2
SlurmdTimeout=60
InactiveLimit=0
KillWait=1
GresTypes=gpu
DebugFlags=NO_CONF_HASH
{overrides}"
    );
    for (name, port) in nodes {
        text += &format!(
            "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=100 {gres}\n"
        );
    }
    text += &format!("PartitionName=all Nodes={partition} Default=YES MaxTime=INFINITE State=UP\n");
    text += match options.cgroups {
        Some(_) => cgroups::SLURM_CONF,
        None => "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n",
    };
    for (name, _) in hooks(slurm) {
        text += &format!("{name}={base}/etc/{}\n", name.to_lowercase());
    }
    if options.absent > 0 {
        text += WITH_ABSENT;
    }
    text += &options.extra_conf;
    text.push('\n');
    Ok(text)
}
