//! Which system calls the tasks of a process make, by strace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::{exec, proc, wait};

/// One system call. One that was under way when strace came or left counts too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// The task that made it.
    pub tid: u32,
    /// Its name, such as `epoll_wait`.
    pub name: String,
    /// The whole line after the time.
    pub text: String,
}

/// strace, attached to a process. Dropping it detaches.
#[derive(Debug)]
pub struct Strace {
    daemon: Daemon,
    /// What it was attached to; lines name no task when there is only one.
    pid: u32,
    file: PathBuf,
    _dir: TempDir,
}

impl Strace {
    /// Attaches to every task of `pid`, and to those that they start.
    pub fn attach(pid: u32) -> Result<Self> {
        Self::start(pid, &["-f"])
    }

    /// Attaches to one task only.
    pub fn attach_task(tid: u32) -> Result<Self> {
        Self::start(tid, &[])
    }

    fn start(pid: u32, options: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("trace");
        let mut command = Command::new(exec::which("strace")?);
        command
            .args(options)
            .args(["-tt", "-e", "trace=all", "-p", &pid.to_string(), "-o"])
            .arg(&file);
        let strace = Self {
            daemon: Daemon::start(command)?,
            pid,
            file,
            _dir: dir,
        };
        let traced = pid.to_string();
        wait::until("strace attached", wait::PATIENCE, || {
            anyhow::ensure!(
                strace.daemon.ended()?.is_none(),
                "strace: {}",
                strace.daemon.stderr()
            );
            // The status of a traced process shows its tracer.
            let tids = if options.is_empty() {
                vec![pid]
            } else {
                proc::tasks(pid)?
            };
            let mut seen = tids
                .iter()
                .map(|tid| proc::Status::read(*tid))
                .filter_map(Result::ok);
            Ok(seen
                .all(|s| {
                    s.get("TracerPid")
                        .is_ok_and(|t| t == strace.daemon.pid().to_string())
                })
                .then_some(()))
        })
        .with_context(|| format!("strace of {traced}"))?;
        Ok(strace)
    }

    /// The calls so far.
    pub fn so_far(&self) -> Result<Vec<TracedCall>> {
        let bytes = std::fs::read(&self.file)?;
        Ok(String::from_utf8_lossy(&bytes)
            .lines()
            .filter_map(|line| parse(line, self.pid))
            .collect())
    }

    /// Waits until the calls so far satisfy `done`, detaches, and gives them all.
    pub fn finish_when(
        self,
        timeout: Duration,
        done: impl Fn(&[TracedCall]) -> bool,
    ) -> Result<Vec<TracedCall>> {
        wait::until("calls in strace", timeout, || {
            Ok(done(&self.so_far()?).then_some(()))
        })?;
        self.finish()
    }

    /// Detaches and gives every call.
    pub fn finish(self) -> Result<Vec<TracedCall>> {
        self.daemon.signal(Signal::SIGINT)?;
        self.daemon.wait(wait::PATIENCE)?;
        self.so_far()
    }
}

/// Names by task.
pub fn names(calls: &[TracedCall]) -> BTreeMap<u32, BTreeSet<String>> {
    let mut names: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for call in calls {
        names.entry(call.tid).or_default().insert(call.name.clone());
    }
    names
}

/// `[tid] time name(...`, or `[tid] time <... name resumed>...`; lines about signals and exits are none.
fn parse(line: &str, pid: u32) -> Option<TracedCall> {
    let (first, rest) = line.split_once(' ')?;
    let (tid, rest) = match first.parse() {
        Ok(tid) => (tid, rest.trim_start().split_once(' ')?.1),
        Err(_) => (pid, rest),
    };
    let text = rest.trim_start();
    let name = match text.strip_prefix("<... ") {
        Some(resumed) => resumed.split(' ').next()?,
        None => text.split_once('(')?.0,
    };
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| TracedCall {
        tid,
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::PATIENCE;

    #[test]
    fn reads_lines() {
        let name = |line| parse(line, 5).map(|c| (c.tid, c.name));
        assert_eq!(
            name("12  10:11:12.000001 read(3, \"x\", 1) = 1"),
            Some((12, "read".into()))
        );
        assert_eq!(
            name("12 10:11:12.000001 <... futex resumed>) = 0"),
            Some((12, "futex".into()))
        );
        assert_eq!(
            name("10:11:12.000001 epoll_wait(4, "),
            Some((5, "epoll_wait".into()))
        );
        assert_eq!(
            name("12 10:11:12.000001 --- SIGTERM {si_signo=SIGTERM} ---"),
            None
        );
        assert_eq!(name("12 10:11:12.000001 +++ exited with 0 +++"), None);
    }

    #[test]
    fn tells_tasks_apart() {
        let script = "import threading,os,time\ndef f():\n while True:\n  time.sleep(0.01)\n  os.getppid()\n\
                      threading.Thread(target=f,daemon=True).start()\nprint('up',flush=True)\n\
                      while True:\n time.sleep(0.01); os.getpgid(0)";
        let python = Daemon::run(exec::which("python3").unwrap(), &["-c", script]).unwrap();
        python.wait_for_line("up", PATIENCE).unwrap();
        let pid = python.pid();
        let other = proc::tasks(pid)
            .unwrap()
            .into_iter()
            .find(|tid| *tid != pid)
            .unwrap();
        let strace = Strace::attach(pid).unwrap();
        let both = |calls: &[TracedCall]| {
            let names = names(calls);
            names.get(&pid).is_some_and(|n| n.contains("getpgid"))
                && names.get(&other).is_some_and(|n| n.contains("getppid"))
        };
        let calls = strace.finish_when(PATIENCE, both).unwrap();
        let names = names(&calls);
        assert!(
            !names[&pid].contains("getppid") && !names[&other].contains("getpgid"),
            "{names:?}"
        );
        let one = Strace::attach_task(other).unwrap();
        let calls = one
            .finish_when(PATIENCE, |c| c.iter().any(|c| c.name == "getppid"))
            .unwrap();
        assert!(calls.iter().all(|c| c.tid == other && c.name != "getpgid"));
        assert_eq!(proc::Status::read(pid).unwrap().get("TracerPid").unwrap(), "0");
    }
}
