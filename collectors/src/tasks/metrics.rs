//! Processes of jobs that wait in the kernel and cannot be ended.

use crate::metric::{Kind, Metric, Tier, Unit};

/// How many processes of a job wait.
pub static BLOCKED: Metric = Metric {
    name: "slurm_job_blocked_processes",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["jobid"],
    help: "Processes of a job that wait in the kernel where no signal wakes them (state D), for a disk, a filesystem or a driver; a moment of it is normal.",
    tier: Tier::Core,
    source: "cgroup.procs of the job's cgroups, /proc/PID/stat",
    aliases: &[],
};

/// One thread that waits. Without a run in between, its context switches stay the same.
pub static THREAD: Metric = Metric {
    name: "slurm_job_blocked_thread_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &[
        "jobid", "pid", "tid", "start", "switches", "program", "killed", "wchan", "call", "mount",
    ],
    help: "A thread in state D of a job's process, with its beginning in clock ticks, its context switches so far, whether SIGKILL is pending, the kernel function in which it waits, the system call with its file, and the mount of that file.",
    tier: Tier::Private,
    source: "/proc/PID/task/TID: stat, status, wchan, syscall, fd, fdinfo; /proc/PID/mountinfo",
    aliases: &[],
};

/// Every metric of this collector.
pub static METRICS: &[&Metric] = &[&BLOCKED, &THREAD];
