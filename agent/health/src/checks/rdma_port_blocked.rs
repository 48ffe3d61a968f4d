//! Check `rdma-port-blocked`: a read of an RDMA port does not return.

use std::time::Duration;

use collectors::sys::task::Task;
use collectors::{Domain, SubjectKind, domain};

use super::blocked::{self, Blocked, Rule};
use super::{Check, May, Scope, Version};
use crate::finding::{Finding, Joins, Remedy};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-port-blocked",
    subject: SubjectKind::RdmaPort,
    fires_when: "A thread that reads a port waits at the same place in the same system call for at least 30 s.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the port is read or no longer listed.",
    ignored_when: "Threads that run, wait for storage or memory, or wait for the kernel's lock of network settings (rtnl_lock). All where the kernel shows no wait channel (x86_64 before Linux 5.16).",
    scope: Scope::Node,
    // A driver's firmware time-out is 60 s, and the firmware often recovers.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Blocked::start(&RULE),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    covers: |collector| std::ptr::eq(collector.spec.domain, &domain::RDMA),
    is_blocked,
    long: Duration::from_secs(30),
    ends_unlisted: true,
    finding: |subject, task| Finding {
        detail: format!("does not answer{}", in_call(task)),
        remedy: Remedy::Reboot,
        drains: true,
        joins: Joins::Attaches,
        ..Finding::of_condition(CHECK.id, subject)
    },
};

/// Wait channels of the kernel's lock of network settings: its holder blocks, not this port.
const LOCKS: [&str; 8] = [
    "rtnl_lock",
    // Files of /sys/class/net since Linux 6.15.
    "sysfs_rtnl_lock",
    // The lock's own function is not on the stack.
    "ib_get_eth_speed",
    "dev_ethtool",
    "dev_ioctl",
    "rtnetlink_",
    "ethnl_",
    "genl_",
];

/// A kernel that hides the system call shows the wait channel.
fn is_blocked(domain: &Domain, task: &Task) -> bool {
    // Outside the kernel's own trees (a container, a recording) the file itself blocks.
    let reads = task.call.strip_prefix("read ");
    let in_file = reads.is_some_and(|file| !file.starts_with("/sys/") && !file.starts_with("/proc/"));
    // Every ioctl, every netlink request and, for RoCE, a read of `state` or `rate` may take that lock, and each may wait for
    // memory: without a visible wait channel (x86_64 before Linux 5.16) they look like a port that does not answer.
    let hidden = task.wchan.is_empty() && !in_file;
    let of_others = hidden || LOCKS.iter().any(|place| task.wchan.starts_with(place));
    let elsewhere = blocked::waits_for_storage(task) && !in_file;
    let in_call = task.state != 'R' && !task.call.is_empty() && !elsewhere;
    !of_others && (in_call || blocked::sleeps_in_driver(domain, task))
}

/// ` in read ports/1/state`: the file below its device, since reasons are short.
fn in_call(task: &Task) -> String {
    let Some((call, file)) = task.call.split_once(' ') else {
        return if task.call.is_empty() {
            format!(" in {}", task.wchan)
        } else {
            format!(" in {}", task.call)
        };
    };
    let is_socket = file.starts_with("socket:");
    if is_socket && !["send", "receive"].contains(&call) {
        return format!(" in {call}");
    }
    let below = ["/infiniband/", "/net/"]
        .iter()
        .find_map(|class| Some(file.rsplit_once(class)?.1.split_once('/')?.1));
    let name = below.or_else(|| file.rsplit('/').next()).unwrap_or(file);
    let name = if is_socket { "netlink" } else { name };
    format!(" in {call} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_may_wait_for_the_lock_of_network_settings_is_not_blocked() {
        for (wchan, call, tells) in [
            ("wait_func", "ioctl socket:[4711]", true),
            ("rtnl_lock", "ioctl socket:[4711]", false),
            ("", "ioctl socket:[4711]", false),
            ("", "send socket:[4711]", false),
            ("mlx5_cmd_exec", "send socket:[4711]", true),
            (
                "ib_get_eth_speed",
                "read /sys/class/infiniband/rxe0/ports/1/rate",
                false,
            ),
            // x86_64 before Linux 5.16 shows no wait channel.
            ("", "read /sys/class/infiniband/mlx5_0/ports/1/state", false),
            (
                "",
                "read /run/node/sys/class/infiniband/mlx5_0/ports/1/state",
                true,
            ),
            ("sysfs_rtnl_lock", "read /sys/class/net/eth4/speed", false),
            // A tree on its own filesystem, which does not respond.
            (
                "request_wait_answer",
                "read /run/node/sys/class/infiniband/mlx5_0/ports/1/state",
                true,
            ),
            (
                "request_wait_answer",
                "read /sys/class/infiniband/mlx5_0/ports/1/state",
                false,
            ),
            (
                "folio_wait_bit",
                "read /sys/class/infiniband/mlx5_0/ports/1/state",
                false,
            ),
            ("folio_wait_bit", "read /proc/self/stat", false),
            (
                "rtnl_lock",
                "read /sys/class/infiniband/mlx5_0/ports/1/state",
                false,
            ),
        ] {
            let task = Task {
                state: 'D',
                wchan: wchan.to_owned(),
                call: call.to_owned(),
                ..Task::default()
            };
            assert_eq!(is_blocked(&domain::RDMA, &task), tells, "{wchan} {call}");
        }
    }

    #[test]
    fn the_detail_names_the_file_or_the_call() {
        let task = |call: &str| Task {
            state: 'D',
            wchan: "wait_func".to_owned(),
            call: call.to_owned(),
            ..Task::default()
        };
        for (call, text) in [
            (
                "read /sys/devices/pci0000:18/0000:18:00.0/infiniband/mlx5_4/ports/1/state",
                " in read ports/1/state",
            ),
            (
                "read /sys/devices/pci0000:18/0000:18:00.0/net/eth4/speed",
                " in read speed",
            ),
            ("read /somewhere/state", " in read state"),
            ("send socket:[4711]", " in send netlink"),
            ("ioctl socket:[4711]", " in ioctl"),
            ("open", " in open"),
            ("", " in wait_func"),
        ] {
            assert_eq!(in_call(&task(call)), text, "{call}");
        }
    }
}
