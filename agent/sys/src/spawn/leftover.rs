//! What SIGKILL did not end: the leader of a group, or members that outlive it. A shell ends at once while the program that it
//! started waits in state D.

use std::time::{Duration, Instant};

use collectors::sys::boot;
use collectors::sys::task::{self, Task};
use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::unistd::Pid;

use crate::reap;

/// The longest pause between two looks at a group.
const PAUSE: Duration = Duration::from_millis(100);

/// A group of processes that has received SIGKILL and has not ended.
#[derive(Debug)]
pub(super) struct Leftover {
    /// The number of the group, and of its leader.
    pub(super) group: Pid,
    /// The time of SIGKILL.
    pub(super) since: Instant,
    /// The same, since boot: what begins later is no member.
    killed: Duration,
    /// The leader has been reaped: its number may be asked about as a group only.
    is_reaped: bool,
}

impl Leftover {
    /// A group whose leader has not been reaped.
    pub(super) fn of_leader(group: Pid) -> Self {
        Self {
            group,
            since: Instant::now(),
            killed: boot::boottime(),
            is_reaped: false,
        }
    }

    /// The members that outlive their leader, which has been reaped. `None`: all end until then.
    pub(super) fn of_members(group: Pid, until: Instant) -> Option<Self> {
        let (since, killed) = (Instant::now(), boot::boottime());
        let mut pause = Duration::from_millis(1);
        while member(group, killed).is_some() {
            if Instant::now() >= until {
                return Some(Self {
                    group,
                    since,
                    killed,
                    is_reaped: true,
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
        None
    }

    /// Reaps the leader; a process that is left. `None`: the whole group has ended.
    pub(super) fn process(&mut self) -> Option<Task> {
        self.is_reaped = self.is_reaped || reap::ended(self.group).is_some();
        if self.is_reaped {
            return member(self.group, self.killed);
        }
        let leader = task::first_thread(self.group.as_raw());
        Some(leader.unwrap_or_else(|| unread(self.group)))
    }
}

/// A living member of a group. Once all have ended, another group may get the number: its members began later.
fn member(group: Pid, killed: Duration) -> Option<Task> {
    if killpg(group, None) == Err(Errno::ESRCH) {
        return None;
    }
    // Zombies receive signals too, and in a container no init may reap them.
    task::of_group(group.as_raw(), killed).unwrap_or_else(|_| Some(unread(group)))
}

/// A process whose state is not known.
fn unread(group: Pid) -> Task {
    Task {
        tid: group.as_raw(),
        state: '?',
        ..Task::default()
    }
}
