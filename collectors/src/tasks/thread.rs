//! The threads of a process that wait uninterruptibly.

use std::path::Path;

use super::call::CallReader;
use crate::sys::root;
use crate::sys::task::{self, Task, Thread, is_uninterruptible};
use crate::{Env, Error};

/// Maximum number of threads that are read per process.
pub(super) const MOST_THREADS: usize = 1024;
/// Labels are short; longer text is cut.
const MOST_TEXT: usize = 200;

/// A thread in state D or I.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockedThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Its start, in clock ticks since boot: with `tid` it identifies the thread.
    pub(super) start: u64,
    /// Context switches: a thread that has run since has another number.
    pub(super) switches: u64,
    /// `comm`.
    pub(super) program: String,
    /// SIGKILL is pending until it wakes.
    pub(super) killed: bool,
    pub(super) wchan: String,
    pub(super) call: String,
    /// `nfs4 /home`: of the file that the call uses.
    pub(super) mount: String,
}

impl BlockedThread {
    /// A key that is constant while it does not run.
    pub(super) fn sleep(&self) -> (u32, u64, u64) {
        (self.tid, self.start, self.switches)
    }
}

/// The blocked threads of a process. A process whose first thread neither waits nor has ended counts as running and
/// is skipped: a training job has hundreds of threads. `None`: whether any of its threads waits is unknown.
pub(super) fn blocked(env: &Env, asker: &CallReader, pid: u32) -> Option<Vec<BlockedThread>> {
    let process = env.path(&format!("/proc/{pid}"));
    let stat = task::stat(&process).ok()?;
    if !stat.is_some_and(|stat| is_uninterruptible(stat.state) || stat.state == 'Z') {
        return Some(Vec::new());
    }
    let tids = root::list(&process.join("task")).ok()?.unwrap_or_default();
    let mut is_whole = tids.len() <= MOST_THREADS;
    let mut found = Vec::new();
    for tid in tids.iter().filter_map(|tid| tid.parse().ok()).take(MOST_THREADS) {
        match waiting(&process, asker, Thread::at(env, pid, tid)) {
            Ok(thread) => found.extend(thread),
            Err(error) => {
                tracing::debug!(%error, "unknown whether a thread waits");
                is_whole = false;
            }
        }
    }
    (is_whole || !found.is_empty()).then_some(found)
}

/// `Ok(None)`: it does not wait, or has ended.
fn waiting(process: &Path, asker: &CallReader, thread: Thread) -> Result<Option<BlockedThread>, Error> {
    let Some(stat) = task::stat(thread.folder())?.filter(|stat| is_uninterruptible(stat.state)) else {
        return Ok(None);
    };
    let file = thread.folder().join("status");
    let Some(status) = root::read_lossy(&file)? else {
        return Ok(None);
    };
    let (switches, killed) = parse_status(&status)
        .ok_or_else(|| Error::parse(file.display().to_string(), &status, "context switches"))?;
    let (pid, tid) = thread.ids();
    let is_blocked = |task: &Task| is_uninterruptible(task.state) && !waits_for_core_dump(task);
    // It woke meanwhile.
    let Some(task) = thread.state()?.filter(is_blocked) else {
        return Ok(None);
    };
    let call = asker.call(process, thread);
    Ok(Some(BlockedThread {
        pid,
        tid,
        start: stat.starttime,
        switches,
        program: task.name,
        killed,
        wchan: task.wchan,
        call: cut(call.text),
        mount: cut(call.mount),
    }))
}

/// Since Linux 6.12 threads wait in state I until another has written the core dump of their process (kernel/exit.c,
/// `coredump_task_exit()`, inlined in `do_exit()`). SIGKILL ends the dump, and so this wait.
fn waits_for_core_dump(task: &Task) -> bool {
    task.state == 'I' && ["do_exit", "coredump_task_exit"].contains(&task.wchan.as_str())
}

/// Context switches, and whether SIGKILL is pending for the thread or its process.
fn parse_status(status: &str) -> Option<(u64, bool)> {
    let field = |name: &str| {
        let of = |line: &'_ str| -> Option<String> {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim().to_owned())
        };
        status.lines().find_map(of)
    };
    let count = |name| field(name)?.parse::<u64>().ok();
    let switches = count("voluntary_ctxt_switches")?.checked_add(count("nonvoluntary_ctxt_switches")?)?;
    let is_pending = |name| {
        let mask = field(name).and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        mask.is_some_and(|mask| mask & (1 << (libc::SIGKILL - 1)) != 0)
    };
    Some((switches, is_pending("SigPnd") || is_pending("ShdPnd")))
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_a_pending_kill_are_read_from_status() {
        let status = |thread: &str, process: &str| {
            format!(
                "Name:\ta: b\nState:\tD (disk sleep)\nSigPnd:\t{thread}\nShdPnd:\t{process}\n\
                 voluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2"
            )
        };
        let (none, kill, term) = ("0000000000000000", "0000000000000100", "0000000000004000");
        assert_eq!(parse_status(&status(none, none)), Some((42, false)));
        assert_eq!(parse_status(&status(kill, none)), Some((42, true)));
        assert_eq!(parse_status(&status(term, kill)), Some((42, true)));
        assert_eq!(parse_status(&status(term, term)), Some((42, false)));
        // Kernels without CONFIG_SCHED_INFO have no switches: whether it has run since is unknown.
        assert_eq!(parse_status("SigPnd:\t0\nShdPnd:\t0"), None);
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        assert_eq!(cut("read /home".to_owned()), "read /home");
        let long = cut("ä".repeat(MOST_TEXT + 1));
        assert_eq!(long, format!("{}...", "ä".repeat(MOST_TEXT)));
    }
}
