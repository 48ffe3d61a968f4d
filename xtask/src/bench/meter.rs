//! CPU time of a program's processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};
use testkit::proc;

/// A v2 cgroup. Its CPU time is exact and includes ended threads and processes.
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Creates a cgroup below our own; `None` if that fails.
    pub(super) fn create(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let at = words.next()?;
            (words.next()? == "cgroup2").then(|| at.to_owned())
        })?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let word: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let path = Path::new(&mount)
            .join(own)
            .join(format!("nodewarden-bench-{}-{word}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let cgroup = Self { path };
        cgroup.used().ok()?;
        Some(cgroup)
    }

    /// The file `cgroup.procs`.
    pub(super) fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    fn used(&self) -> Result<Duration> {
        let file = self.path.join("cpu.stat");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let used = text.lines().find_map(|l| l.strip_prefix("usage_usec "));
        Ok(Duration::from_micros(used.context("no usage_usec")?.parse()?))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The cgroup should be empty. An error cannot be handled here.
        fs::remove_dir(&self.path).ok();
    }
}

/// Reads the time of one program.
pub(super) struct Meter {
    cgroup: Option<Cgroup>,
    pid: u32,
}

impl Meter {
    pub(super) fn new(cgroup: Option<Cgroup>, pid: u32) -> Self {
        Self { cgroup, pid }
    }

    /// Method and accuracy.
    pub(super) fn method(&self) -> &'static str {
        match self.cgroup {
            Some(_) => "cgroup v2 cpu.stat, exact to 1 us, with ended threads and processes",
            None => {
                "utime and stime of /proc/PID/stat, in ticks of 10 ms per process, without ended processes"
            }
        }
    }

    /// Whether it shows single scrapes.
    pub(super) fn is_exact(&self) -> bool {
        self.cgroup.is_some()
    }

    /// CPU time of all its processes so far.
    pub(super) fn used(&self) -> Result<Duration> {
        let Some(cgroup) = &self.cgroup else {
            let children = proc::descendants(self.pid);
            let pids = std::iter::once(self.pid).chain(children.iter().map(|c| c.pid));
            return pids.map(of_process).sum();
        };
        cgroup.used()
    }
}

fn of_process(pid: u32) -> Result<Duration> {
    let file = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&file).with_context(|| file.clone())?;
    // The name may contain spaces and brackets: it ends at the last bracket. utime and stime are fields 14 and 15.
    let fields = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    let ticks = fields.into_iter().flatten().skip(11).take(2);
    let ticks: u64 = ticks.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    let second = sysconf(SysconfVar::CLK_TCK)?.context("no CLK_TCK")?;
    Ok(Duration::from_secs(ticks) / u32::try_from(second)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_process_is_seen() {
        let before = of_process(std::process::id()).unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        // At least two ticks, also on a busy machine.
        while of_process(std::process::id()).unwrap() < before + Duration::from_millis(20) {
            assert!(std::time::Instant::now() < end);
        }
    }
}
