//! This machine's Slurm node: the slurmd that runs here, its node name and its configuration.
//!
//! The result decides with which configuration scontrol runs, as root. So only processes of root (or of our own user)
//! count: a job can run a program called slurmd.

use std::path::{Path, PathBuf};

use collectors::sys::root;

use model::scheduler::LookError;
use serde::{Deserialize, Serialize};
use slurm::slurmd_args::{self, Given};
use sys::link;

/// A slurmd that runs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSlurmd {
    /// The name of its node.
    pub node_name: String,
    /// Its slurm.conf, if given on its command line or in its environment.
    pub conf: Option<PathBuf>,
    /// Its program.
    pub exe: Option<PathBuf>,
    /// Its process: pid and start time, in clock ticks since boot. `None`: it ran earlier in this boot.
    pub process: Option<(u32, u64)>,
    /// What it reports as the boot of its node.
    pub boot: Boot,
}

/// What a slurmd reports as the boot of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boot {
    /// That of the machine.
    #[default]
    Machine,
    /// `-b`: the start of its process.
    Start,
    /// `-b`: this time, in seconds since the epoch, of an earlier process.
    At(i64),
}

/// Where to search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// `/proc`, or a stand-in for it.
    pub proc: &'a Path,
    /// Our own user id.
    pub uid: u32,
    /// Our host name.
    pub hostname: &'a str,
    /// `slurm.node_name` of the configuration.
    pub wanted: Option<&'a str>,
}

/// Why there is no node of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// No slurmd runs here, with what was found instead.
    NoSlurmd(String),
    /// The choice is ambiguous.
    Ambiguous(String),
}

impl From<NotFound> for LookError {
    fn from(why: NotFound) -> Self {
        match why {
            NotFound::NoSlurmd(why) | NotFound::Ambiguous(why) => Self::NotHere(why),
        }
    }
}

/// Finds this machine's Slurm node.
///
/// # Errors
/// Without a slurmd here, or where the choice is ambiguous.
pub fn find(search: &Search<'_>) -> Result<LocalSlurmd, NotFound> {
    let mut skipped = Vec::new();
    let mut all: Vec<Running> = Vec::new();
    for pid in root::list(search.proc).ok().flatten().unwrap_or_default() {
        if !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        match slurmd(search, &search.proc.join(&pid)) {
            Ok(None) => {}
            // During a fork, a slurmd shortly appears twice.
            Ok(Some(found)) if all.iter().any(|other| other.is_same_node(&found)) => {}
            Ok(Some(found)) => all.push(found),
            Err(why) => skipped.push(format!("process {pid} {why}")),
        }
    }
    match search.wanted {
        Some(wanted) => find_wanted(all, wanted, &skipped),
        None => find_only(all, search.hostname, &skipped),
    }
}

/// The slurmd with this `-N`. Without one, the only slurmd that gets its name from slurm.conf.
fn find_wanted(mut all: Vec<Running>, wanted: &str, skipped: &[String]) -> Result<LocalSlurmd, NotFound> {
    let names = names(&all);
    let is_it = |running: &Running| running.named.as_deref() == Some(wanted);
    let has_it = all.iter().any(is_it);
    all.retain(|running| {
        if has_it {
            is_it(running)
        } else {
            running.named.is_none()
        }
    });
    match all.pop() {
        Some(_) if !all.is_empty() && has_it => Err(NotFound::Ambiguous(format!(
            "several slurmds run here with the option -N {wanted}, each with a slurm.conf of its own: nodewarden serves one cluster"
        ))),
        Some(_) if !all.is_empty() => Err(NotFound::Ambiguous(format!(
            "several slurmds run here ({names}), and none has the option -N {wanted}: start that of slurm.node_name with it"
        ))),
        Some(running) => Ok(running.node(wanted)),
        None => Err(not_here(
            format!("no slurmd for slurm.node_name {wanted:?} runs here, found: [{names}]"),
            skipped,
        )),
    }
}

/// The only slurmd. Without `-N`, the short host name is its node.
fn find_only(mut all: Vec<Running>, hostname: &str, skipped: &[String]) -> Result<LocalSlurmd, NotFound> {
    let names = names(&all);
    match all.pop() {
        Some(_) if !all.is_empty() => Err(NotFound::Ambiguous(format!(
            "several slurmds run here ({names}): set slurm.node_name to one of them"
        ))),
        Some(running) => {
            let name = running.named.clone();
            let name = name.unwrap_or_else(|| slurm::proof::short(hostname).to_owned());
            if !is_node_name(&name) {
                return Err(not_here(
                    format!("the host name {name:?} is no node name"),
                    skipped,
                ));
            }
            Ok(running.node(&name))
        }
        None => Err(not_here("no slurmd runs here".to_owned(), skipped)),
    }
}

/// A slurmd as its process shows it.
struct Running {
    /// `-N`.
    named: Option<String>,
    conf: Option<PathBuf>,
    exe: Option<PathBuf>,
    process: Option<(u32, u64)>,
    boot: Boot,
}

impl Running {
    /// A node of another slurm.conf is another cluster's.
    fn is_same_node(&self, other: &Self) -> bool {
        self.named == other.named && self.conf == other.conf
    }

    fn node(self, name: &str) -> LocalSlurmd {
        LocalSlurmd {
            node_name: name.to_owned(),
            conf: self.conf,
            exe: self.exe,
            process: self.process,
            boot: self.boot,
        }
    }
}

fn names(all: &[Running]) -> String {
    let name = |running: &Running| running.named.clone().unwrap_or_else(|| "without -N".to_owned());
    let names: Vec<String> = all.iter().map(name).collect();
    names.join(", ")
}

fn not_here(what: String, skipped: &[String]) -> NotFound {
    if skipped.is_empty() {
        NotFound::NoSlurmd(what)
    } else {
        NotFound::NoSlurmd(format!("{what}; skipped: {}", skipped.join("; ")))
    }
}

/// A process, if it is a slurmd. `Err`: it is one, but not usable.
fn slurmd(search: &Search<'_>, process: &Path) -> Result<Option<Running>, String> {
    // Most processes end here, before their memory is read: the command line needs it.
    let Some(is_ours) = collectors::slurm::slurmd::is_ours(process, search.uid) else {
        return Ok(None);
    };
    let exe = link::target(&process.join("exe")).ok().map(undeleted);
    let program = exe
        .as_deref()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str());
    // Debian calls the program slurmd-wlm. A job step's daemon is slurmstepd.
    if program.is_some_and(|name| !name.starts_with("slurmd")) {
        return Ok(None);
    }
    if !is_ours {
        return Err("is called slurmd, but belongs to another user".to_owned());
    }
    let raw = root::read_bytes(&process.join("cmdline"), root::MAX_FILE)
        .ok()
        .flatten()
        .unwrap_or_default();
    // A zombie has no command line.
    if raw.is_empty() {
        return Ok(None);
    }
    same_world(search.proc, process)?;
    let args: Vec<&str> = raw
        .split(|b| *b == 0)
        .map(|arg| std::str::from_utf8(arg).unwrap_or_default())
        .collect();
    let Given {
        node_name,
        conf,
        is_boot,
    } = slurmd_args::read(args.get(1..).unwrap_or_default());
    if let Some(name) = node_name.as_ref().filter(|name| !is_node_name(name)) {
        return Err(format!("has an invalid node name: {name:?}"));
    }
    Ok(Some(Running {
        named: node_name,
        conf: conf
            .map(PathBuf::from)
            .or_else(|| from_environment(process, "SLURM_CONF=").map(PathBuf::from))
            .and_then(|conf| absolute(process, conf)),
        exe,
        process: pid_and_start(process),
        boot: if is_boot {
            reported_boot(process)
        } else {
            Boot::Machine
        },
    }))
}

/// 24.11 replaces its process when it reads slurm.conf again, and hands the time of its first start on.
fn reported_boot(process: &Path) -> Boot {
    let handed_on = from_environment(process, "SLURMD_BOOT_TIME=");
    let handed_on = handed_on.and_then(|time| time.parse().ok());
    handed_on.map_or(Boot::Start, Boot::At)
}

fn pid_and_start(process: &Path) -> Option<(u32, u64)> {
    let pid = process.file_name()?.to_str()?.parse().ok()?;
    Some((pid, collectors::sys::task::stat(process).ok()??.starttime))
}

/// One node's name: no list, no range, and not `ALL`.
pub fn is_node_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('-')
        && !name.eq_ignore_ascii_case("all")
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// The same root folder and pid namespace as ours: a slurmd in a container is another machine's.
fn same_world(proc: &Path, process: &Path) -> Result<(), String> {
    let own = proc.join("self");
    let namespace = |of: &Path, name: &str| link::target(&of.join("ns").join(name)).ok();
    // Unreadable without root: then we cannot write either, and the proof by boot time and host name remains.
    let differs = |name: &str| match (namespace(process, name), namespace(&own, name)) {
        (Some(its), Some(ours)) => its != ours,
        _ => false,
    };
    if differs("pid") {
        return Err("runs in another pid namespace".to_owned());
    }
    // A private mount namespace only, as with systemd's PrivateTmp, still has the same root.
    let root_differs = link::target(&process.join("root")).ok() != link::target(&own.join("root")).ok();
    if (root_differs || differs("mnt")) && !matches!(same_root(process, &own), Ok(true)) {
        return Err("runs in another root folder".to_owned());
    }
    Ok(())
}

fn same_root(process: &Path, own: &Path) -> std::io::Result<bool> {
    link::same_file(&process.join("root"), &own.join("root"))
}

/// `name` ends in `=`.
fn from_environment(process: &Path, name: &str) -> Option<String> {
    let raw = root::read_bytes(&process.join("environ"), root::MAX_FILE).ok()??;
    raw.split(|b| *b == 0)
        .filter_map(|var| std::str::from_utf8(var).ok())
        .find_map(|var| var.strip_prefix(name))
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
}

fn absolute(process: &Path, conf: PathBuf) -> Option<PathBuf> {
    if conf.is_absolute() {
        return Some(conf);
    }
    Some(link::target(&process.join("cwd")).ok()?.join(conf))
}

/// After an upgrade the running program's file is deleted.
fn undeleted(exe: PathBuf) -> PathBuf {
    match exe.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => exe,
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
