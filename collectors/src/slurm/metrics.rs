//! Jobs of Slurm on this node.

use crate::metric::{Kind, Metric, Tier, Unit};

const JOB: &[&str] = &["jobid"];

const fn of_job(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    help: &'static str,
    source: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        unit,
        labels: JOB,
        help,
        tier: Tier::Core,
        source,
        aliases: &[],
    }
}

/// What is known of a job. A label that nobody has told is empty.
pub static JOB_INFO: Metric = Metric {
    labels: &[
        "jobid",
        "user",
        "account",
        "partition",
        "array_job",
        "array_task",
        "het_job",
    ],
    ..of_job(
        "slurm_job_info",
        Kind::Info,
        Unit::None,
        "A job that has processes on this node.",
        "the job's cgroup, its processes, and what the prolog's hook wrote",
    )
};

/// When a job began on this node.
pub static JOB_START: Metric = of_job(
    "slurm_job_start_time_seconds",
    Kind::Gauge,
    Unit::Seconds,
    "When a job began on this node, as a Unix time.",
    "what the prolog's hook wrote, else the start of its oldest slurmstepd (/proc/PID/stat)",
);

/// Processor time.
pub static JOB_CPU: Metric = of_job(
    "slurm_job_cpu_seconds_total",
    Kind::Counter,
    Unit::Seconds,
    "Processor time that the processes of a job have used on this node.",
    "cpu.stat usage_usec (cgroup v2), cpuacct.usage (v1)",
);

/// Memory in use, page cache included.
pub static JOB_MEMORY: Metric = of_job(
    "slurm_job_memory_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Memory that a job is charged for on this node, its page cache included.",
    "memory.current (cgroup v2), memory.usage_in_bytes (v1)",
);

/// The most memory that it had.
pub static JOB_MEMORY_PEAK: Metric = of_job(
    "slurm_job_memory_peak_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "The most memory that a job was charged for on this node.",
    "memory.peak (cgroup v2, Linux 5.19), memory.max_usage_in_bytes (v1)",
);

/// The limit of its memory.
pub static JOB_MEMORY_LIMIT: Metric = of_job(
    "slurm_job_memory_limit_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "The most memory that a job may have on this node, absent where there is no limit.",
    "memory.max (cgroup v2), memory.limit_in_bytes (v1)",
);

/// Processes that were killed for want of memory.
pub static JOB_OOM_KILLS: Metric = of_job(
    "slurm_job_oom_kills_total",
    Kind::Counter,
    Unit::None,
    "Processes of a job that the kernel has killed because the job had no memory left.",
    "memory.events oom_kill (cgroup v2 alone: v1 counts in the steps)",
);

/// Its processes and threads.
pub static JOB_TASKS: Metric = of_job(
    "slurm_job_tasks",
    Kind::Gauge,
    Unit::None,
    "Processes and threads of a job on this node.",
    "pids.current",
);

/// How a job's cgroup is called, by which its processes are known.
pub static JOB_FOLDER: Metric = Metric {
    labels: &["jobid", "folder"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_folder_info",
        Kind::Info,
        Unit::None,
        "The name of a job's cgroup: job_ and its number, or its SLUID.",
        "/sys/fs/cgroup",
    )
};

/// That a job's prolog has written what it knows: so an epilog may tell how the job ended.
pub static JOB_PROLOG: Metric = Metric {
    tier: Tier::Private,
    ..of_job(
        "slurm_job_prolog_info",
        Kind::Info,
        Unit::None,
        "The hook of a job's prolog has written down whose the job is.",
        "what the prolog's hook wrote",
    )
};

/// A device that a job's own program of rules allows by name.
pub static JOB_DEVICE: Metric = Metric {
    labels: &["jobid", "device"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_device_info",
        Kind::Info,
        Unit::None,
        "A device of gres.conf that a job may use: nvidia0, nvidia0/1/0 for an instance of it, renderD128.",
        "the cgroup's device program (bpf(2) BPF_PROG_QUERY, BPF_OBJ_GET_INFO_BY_FD), /proc/driver/nvidia-caps/mig-minors",
    )
};

/// The reason of [`JOB_DEVICES`] where several jobs of this host have one name.
pub const AMBIGUOUS: &str = "ambiguous";

/// Words for what says which GPUs a job was given, where that is not its program of rules.
pub mod evidence {
    /// Its prolog's hook.
    pub const HOOK: &str = "hook";
    /// Other tools' files (`slurm.jobs.mapping`).
    pub const MAPPING_FILE: &str = "mapping_file";
}

/// A GPU that a job was given by what is not its program of rules: the best evidence that there is.
pub static JOB_GRANT: Metric = Metric {
    labels: &["jobid", "evidence", "device"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_grant_info",
        Kind::Info,
        Unit::None,
        "A GPU that a job was given: nvidia0, nvidia0/1/0 for an instance of it, or a UUID; by its hook or mapping_file.",
        "what the prolog's hook wrote, files of slurm.jobs.mapping; gres.conf",
    )
};

/// Whether a job's program of rules could be read: the reason is empty where it could.
pub static JOB_DEVICES: Metric = Metric {
    labels: &["jobid", "reason"],
    ..of_job(
        "slurm_job_devices_info",
        Kind::Info,
        Unit::None,
        "Whether the devices of a job could be read from its device program: no reason where they could, else denied, withheld (the kernel hides instructions), foreign (not Slurm's), none (ConstrainDevices=no, no gres, cgroup v1), ambiguous (several jobs of this name), failed.",
        "the cgroup's device program (bpf(2) BPF_PROG_QUERY, BPF_OBJ_GET_INFO_BY_FD)",
    )
};

/// Every metric of this collector.
pub static METRICS: &[&Metric] = &[
    &JOB_INFO,
    &JOB_START,
    &JOB_CPU,
    &JOB_MEMORY,
    &JOB_MEMORY_PEAK,
    &JOB_MEMORY_LIMIT,
    &JOB_OOM_KILLS,
    &JOB_TASKS,
    &JOB_FOLDER,
    &JOB_PROLOG,
    &JOB_DEVICE,
    &JOB_DEVICES,
    &JOB_GRANT,
];
