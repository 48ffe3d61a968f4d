//! Processes in /proc: identity, privileges, state, descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::wait;

/// Fields of /proc/PID/status.
#[derive(Clone, Debug)]
pub struct Status {
    fields: BTreeMap<String, String>,
}

impl Status {
    /// Reads a process.
    pub fn read(pid: u32) -> Result<Self> {
        Self::from_file(Path::new(&format!("/proc/{pid}/status")))
    }

    /// Reads one task of a process.
    pub fn read_task(pid: u32, tid: u32) -> Result<Self> {
        Self::from_file(Path::new(&format!("/proc/{pid}/task/{tid}/status")))
    }

    fn from_file(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let field = |line: &str| {
            line.split_once(':')
                .map(|(k, v)| (k.to_owned(), v.trim().to_owned()))
        };
        Ok(Self {
            fields: text.lines().filter_map(field).collect(),
        })
    }

    /// The value of a field, as in the file.
    pub fn get(&self, name: &str) -> Result<&str> {
        self.fields
            .get(name)
            .map(String::as_str)
            .with_context(|| format!("no field {name} in status"))
    }

    fn numbers<const N: usize>(&self, name: &str) -> Result<[u32; N]> {
        let list: Vec<u32> = self
            .get(name)?
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        list.try_into()
            .map_err(|list| anyhow::anyhow!("{name}: {list:?}"))
    }

    fn mask(&self, name: &str) -> Result<u64> {
        Ok(u64::from_str_radix(self.get(name)?, 16)?)
    }

    /// Real, effective, saved and filesystem uid.
    pub fn uid(&self) -> Result<[u32; 4]> {
        self.numbers("Uid")
    }

    /// Real, effective, saved and filesystem gid.
    pub fn gid(&self) -> Result<[u32; 4]> {
        self.numbers("Gid")
    }

    /// Supplementary groups.
    pub fn groups(&self) -> Result<BTreeSet<u32>> {
        Ok(self
            .get("Groups")?
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?)
    }

    /// Effective capabilities.
    pub fn cap_eff(&self) -> Result<u64> {
        self.mask("CapEff")
    }

    /// Permitted capabilities.
    pub fn cap_prm(&self) -> Result<u64> {
        self.mask("CapPrm")
    }

    /// Bounding set.
    pub fn cap_bnd(&self) -> Result<u64> {
        self.mask("CapBnd")
    }

    /// Ambient capabilities.
    pub fn cap_amb(&self) -> Result<u64> {
        self.mask("CapAmb")
    }

    /// Whether `no_new_privs` is set.
    pub fn no_new_privs(&self) -> Result<bool> {
        Ok(self.get("NoNewPrivs")? == "1")
    }

    /// Pending signals of this task or its process that it does not block.
    pub fn pending_signals(&self) -> Result<u64> {
        Ok((self.mask("SigPnd")? | self.mask("ShdPnd")?) & !self.mask("SigBlk")?)
    }
}

/// Fields of /proc/PID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process or task id.
    pub pid: u32,
    /// Name, up to 15 bytes.
    pub comm: String,
    /// `R`, `S`, `D`, `Z`, `T`, ...
    pub state: char,
    /// Parent.
    pub ppid: u32,
    /// Process group.
    pub pgrp: u32,
    /// Session.
    pub session: u32,
    /// Start in clock ticks since boot. With the pid, it identifies a process uniquely.
    pub start: u64,
}

impl Stat {
    /// Reads a process; `None` if no process has this id.
    pub fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads one task of a process.
    pub fn read_task(pid: u32, tid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold spaces and brackets: it ends at the last bracket.
        let (head, tail) = text.rsplit_once(')')?;
        let (pid, comm) = head.split_once('(')?;
        let rest: Vec<&str> = tail.split_whitespace().collect();
        Some(Self {
            pid: pid.trim().parse().ok()?,
            comm: comm.to_owned(),
            state: rest.first()?.chars().next()?,
            ppid: rest.get(1)?.parse().ok()?,
            pgrp: rest.get(2)?.parse().ok()?,
            session: rest.get(3)?.parse().ok()?,
            start: rest.get(19)?.parse().ok()?,
        })
    }

    /// Whether this process still runs, not another one with its pid. A zombie does not run.
    pub fn alive(&self) -> bool {
        Self::read(self.pid)
            .is_some_and(|now| now.start == self.start && now.state != 'Z' && now.state != 'X')
    }

    /// Sends `signal` if this process still exists, not to another one with its pid.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        if self.alive() {
            send(self.pid, signal).ok();
        }
    }
}

/// Sends a signal to one process.
pub fn send(pid: u32, signal: nix::sys::signal::Signal) -> Result<()> {
    let pid = i32::try_from(pid)?;
    // 0 and negative ids address groups; 1 is init.
    if pid <= 1 {
        bail!("no signal to pid {pid}");
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal)
        .with_context(|| format!("{signal} to {pid}"))
}

/// Every process of this machine.
pub fn all() -> Vec<Stat> {
    let Ok(dir) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    dir.flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(Stat::read)
        .collect()
}

/// Children of `pid`, their children, and so on.
pub fn descendants(pid: u32) -> Vec<Stat> {
    let all = all();
    let mut found: Vec<Stat> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for stat in all.iter().filter(|s| s.ppid == parent) {
            parents.push(stat.pid);
            found.push(stat.clone());
        }
    }
    found
}

/// Task ids of a process.
pub fn tasks(pid: u32) -> Result<Vec<u32>> {
    let dir = fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("tasks of {pid}"))?;
    Ok(dir
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect())
}

/// Name of a process or task.
pub fn comm(pid: u32) -> Result<String> {
    let file = format!("/proc/{pid}/comm");
    Ok(fs::read_to_string(&file).context(file)?.trim_end().to_owned())
}

/// Arguments of a process, its own name first. Empty for a zombie and for kernel threads.
pub fn cmdline(pid: u32) -> Result<Vec<String>> {
    strings(&format!("/proc/{pid}/cmdline"))
}

/// The environment that a process was started with, as `KEY=value`.
pub fn environ(pid: u32) -> Result<Vec<String>> {
    strings(&format!("/proc/{pid}/environ"))
}

fn strings(file: &str) -> Result<Vec<String>> {
    let bytes = fs::read(file).context(file.to_owned())?;
    let parts = bytes
        .split(|b| *b == 0)
        .map(|s| String::from_utf8_lossy(s).into_owned());
    let mut parts: Vec<String> = parts.collect();
    // Each string ends with a zero byte, the last one too.
    parts.pop();
    Ok(parts)
}

/// Names of the tasks of a process, by task id.
pub fn task_comms(pid: u32) -> Result<BTreeMap<u32, String>> {
    tasks(pid)?.into_iter().map(|tid| Ok((tid, comm(tid)?))).collect()
}

/// The wait channel of a task; "0" if it does not wait.
pub fn wchan(tid: u32) -> Result<String> {
    let file = format!("/proc/{tid}/wchan");
    fs::read_to_string(&file).context(file)
}

/// Waits until some task of `pid` is in `state` and gives its id. `pid` may also be a task id.
pub fn wait_for_state(pid: u32, state: char, timeout: Duration) -> Result<u32> {
    wait::until(&format!("a task of {pid} in state {state}"), timeout, || {
        if let Some(stat) = Stat::read(pid).filter(|s| s.state == state) {
            return Ok(Some(stat.pid));
        }
        let tids = tasks(pid)?;
        Ok(tids
            .into_iter()
            .find(|tid| Stat::read_task(pid, *tid).is_some_and(|s| s.state == state)))
    })
}

/// A copy of another process's descriptor (pidfd_getfd(2), Linux 5.6): what an attacker inside of it has. Needs root.
///
/// # Errors
/// When the kernel refuses.
pub fn descriptor_of(pid: u32, fd: i32) -> Result<std::os::fd::OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    let owned = |number: libc::c_long| -> Result<OwnedFd> {
        let number = i32::try_from(number)?;
        if number < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the kernel has just made this descriptor for us; no other owner exists.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    };
    // SAFETY: plain numbers; the kernel returns a new descriptor or an error.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: as above.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_privileges_of_a_child_that_dropped_them() {
        let mut command = std::process::Command::new(crate::exec::which("setpriv").unwrap());
        command.args([
            "--reuid",
            "1",
            "--regid",
            "2",
            "--groups",
            "5,9",
            "--no-new-privs",
        ]);
        command.args(["--bounding-set", "-all,+syslog", "sleep", "1000"]);
        let mut child = command.spawn().unwrap();
        wait::until_true("sleep", wait::PATIENCE, || {
            comm(child.id()).is_ok_and(|c| c == "sleep")
        })
        .unwrap();
        let status = Status::read(child.id()).unwrap();
        let stat = Stat::read(child.id()).unwrap();
        let here = Status::read(std::process::id()).unwrap();
        stat.signal(nix::sys::signal::Signal::SIGKILL);
        child.wait().unwrap();
        assert!(!stat.alive());
        assert_eq!(status.uid().unwrap(), [1; 4]);
        assert_eq!(status.gid().unwrap(), [2; 4]);
        assert_eq!(status.groups().unwrap(), BTreeSet::from([5, 9]));
        assert_eq!(
            (status.cap_eff().unwrap(), status.cap_bnd().unwrap()),
            (0, 1 << 34)
        );
        assert!(status.no_new_privs().unwrap());
        assert_eq!(here.uid().unwrap(), [0; 4], "these tests need root");
    }

    #[test]
    fn finds_grandchildren_and_names_with_brackets() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 1000 & wait"])
            .spawn()
            .unwrap();
        let found = wait::until("grandchild", wait::PATIENCE, || {
            Ok(descendants(child.id()).into_iter().find(|s| s.comm == "sleep"))
        })
        .unwrap();
        assert_eq!(found.ppid, child.id());
        found.signal(nix::sys::signal::Signal::SIGKILL);
        child.wait().unwrap();
        let odd = "7 (a) b) S 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 99 0";
        let odd = Stat::parse(odd).unwrap();
        assert_eq!(
            (odd.comm.as_str(), odd.state, odd.session, odd.start),
            ("a) b", 'S', 3, 99)
        );
    }

    #[test]
    fn never_signals_groups_or_init() {
        assert!(send(0, nix::sys::signal::Signal::SIGTERM).is_err());
        assert!(send(1, nix::sys::signal::Signal::SIGTERM).is_err());
    }
}
