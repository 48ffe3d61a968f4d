//! Job processes in uninterruptible sleep, which cannot be killed.

use crate::metric::{Kind, Metric, Tier, Unit};

/// Number of a job's processes in state D or I.
pub static BLOCKED: Metric = Metric {
    name: "slurm_job_blocked_processes",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["jobid"],
    help: "Processes of a job in uninterruptible sleep (state D or I), waiting for a disk, filesystem or driver; short waits are normal.",
    tier: Tier::Core,
    source: "cgroup.procs of the job's cgroups, /proc/PID/status",
    aliases: &[],
};

/// A thread in state D or I. Its context switches stay the same until it runs again.
pub static THREAD: Metric = Metric {
    name: "slurm_job_blocked_thread_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &[
        "jobid", "pid", "tid", "start", "switches", "program", "killed", "wchan", "call", "mount",
    ],
    help: "Thread of a job in uninterruptible sleep (state D or I) with its start in clock ticks, context switches, pending SIGKILL, wait channel, system call with its file, and mount of that file.",
    tier: Tier::Private,
    source: "/proc/PID/task/TID: stat, status, wchan, syscall, fd, fdinfo; /proc/PID/mountinfo",
    aliases: &[],
};

/// Every metric of this collector.
pub static METRICS: &[&Metric] = &[&BLOCKED, &THREAD];
