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
    /// Its start, in clock ticks since boot. `None`: not known.
    pub(super) start: Option<u64>,
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
    /// A key that is constant while it does not run. Its start may be unknown at some readings.
    pub(super) fn sleep(&self) -> (u32, u64) {
        (self.tid, self.switches)
    }
}

/// The blocked threads of a process. A process whose first thread neither waits nor has ended counts as running and
/// is skipped: a training job has hundreds of threads. `None`: whether any of its threads waits is unknown.
pub(super) fn blocked(env: &Env, asker: &CallReader, pid: u32) -> Option<Vec<BlockedThread>> {
    let process = env.path(&format!("/proc/{pid}"));
    let state = match task::status(&process).ok()? {
        Some(status) => Some(status.state),
        // It has ended, or a recording has only `stat`.
        None => task::stat(&process).ok()?.map(|stat| stat.state),
    };
    if !state.is_some_and(|state| is_uninterruptible(state) || state == 'Z') {
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
    let Some(status) = task::status(thread.folder())?.filter(|s| is_uninterruptible(s.state)) else {
        return Ok(None);
    };
    // Threads wait until another has written the core dump of their process: minutes, in state D before Linux 6.12. SIGKILL ends the dump.
    if status.is_dumping && !status.is_killed {
        return Ok(None);
    }
    let switches = status.switches.ok_or_else(|| {
        let file = thread.folder().join("status");
        Error::parse(file.display().to_string(), "", "context switches")
    })?;
    let (pid, tid) = thread.ids();
    let is_blocked =
        |task: &Task| is_uninterruptible(task.state) && !waits_for_core_dump(task) && !waits_for_child(task);
    // It woke meanwhile.
    let Some(task) = thread.state()?.filter(is_blocked) else {
        return Ok(None);
    };
    let start = thread.start();
    let call = asker.call(process, thread);
    Ok(Some(BlockedThread {
        pid,
        tid,
        start,
        switches,
        program: task.name,
        killed: status.is_killed,
        wchan: task.wchan,
        call: cut(call.text),
        mount: cut(call.mount),
    }))
}

/// Whether it waits for the core dump that another thread of its process writes (kernel/exit.c, `coredump_task_exit()`, inlined in
/// `do_exit()`; before Linux 5.16 `exit_mm()`). A dump that SIGKILL does not end is shown by the thread that writes it.
fn waits_for_core_dump(task: &Task) -> bool {
    ["do_exit", "coredump_task_exit"].contains(&task.wchan.as_str())
}

/// The parent of vfork(2) waits in state D until its child begins a program or ends, and SIGKILL ends the wait (kernel/fork.c,
/// `wait_for_vfork_done()`, inlined in these).
fn waits_for_child(task: &Task) -> bool {
    task.state == 'D' && ["kernel_clone", "_do_fork", "do_fork"].contains(&task.wchan.as_str())
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
    fn a_long_text_is_cut_between_letters() {
        assert_eq!(cut("read /home".to_owned()), "read /home");
        let long = cut("ä".repeat(MOST_TEXT + 1));
        assert_eq!(long, format!("{}...", "ä".repeat(MOST_TEXT)));
    }
}
