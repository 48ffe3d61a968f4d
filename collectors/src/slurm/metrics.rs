//! Slurm jobs on this node.

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

/// Identity of a job. An unknown label is empty; pages omit the personal ones unless `slurm.jobs.labels` adds them.
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
        "Slurm job with processes on this node; user, account and partition only if slurm.jobs.labels adds them; unknown labels are empty.",
        "cgroup and processes of the job, record of the prolog hook",
    )
};

/// The owner of a job, whatever form the label `user` has: decides who may see the job.
pub static JOB_OWNER: Metric = Metric {
    labels: &["jobid", "uid"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_owner_info",
        Kind::Info,
        Unit::None,
        "Numeric user id of the owner of a job.",
        "record of the prolog hook, else the owner of the job's processes",
    )
};

/// Start time of a job on this node.
pub static JOB_START: Metric = of_job(
    "slurm_job_start_time_seconds",
    Kind::Gauge,
    Unit::Seconds,
    "Start time of a job on this node as a Unix timestamp in seconds.",
    "record of the prolog hook, else the start of the job's oldest slurmstepd (/proc/PID/stat)",
);

/// CPU time.
pub static JOB_CPU: Metric = of_job(
    "slurm_job_cpu_seconds_total",
    Kind::Counter,
    Unit::Seconds,
    "CPU time used by the processes of a job on this node, in seconds.",
    "cpu.stat usage_usec (cgroup v2), cpuacct.usage (v1)",
);

/// Processors that its processes may use.
pub static JOB_CPUS: Metric = of_job(
    "slurm_job_cpus",
    Kind::Gauge,
    Unit::None,
    "Logical CPUs that the processes of a job may use on this node (cgroup v2: all of the node without ConstrainCores), read at most every 30 seconds.",
    "cpuset.cpus.effective (cgroup v2), cpuset.effective_cpus (v1)",
);

/// Memory in use, including page cache.
pub static JOB_MEMORY: Metric = of_job(
    "slurm_job_memory_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Memory charged to the cgroup of a job on this node in bytes, including page cache.",
    "memory.current (cgroup v2), memory.usage_in_bytes (v1)",
);

/// Memory in use, without page cache.
pub static JOB_MEMORY_ANONYMOUS: Metric = of_job(
    "slurm_job_memory_anonymous_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Anonymous memory of a job on this node in bytes, without page cache and shared memory, read at most every 30 seconds.",
    "memory.stat, anon (cgroup v2), total_rss (v1)",
);

/// Peak memory.
pub static JOB_MEMORY_PEAK: Metric = of_job(
    "slurm_job_memory_peak_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Peak memory charged to the cgroup of a job on this node, in bytes.",
    "memory.peak (cgroup v2, Linux 5.19), memory.max_usage_in_bytes (v1)",
);

/// Memory limit.
pub static JOB_MEMORY_LIMIT: Metric = of_job(
    "slurm_job_memory_limit_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Memory limit of a job on this node in bytes; absent without a limit.",
    "memory.max (cgroup v2), memory.limit_in_bytes (v1)",
);

/// Processes killed by the OOM killer.
pub static JOB_OOM_KILLS: Metric = of_job(
    "slurm_job_oom_kills_total",
    Kind::Counter,
    Unit::None,
    "Processes of a job killed by the OOM killer, at a memory limit of the job or because the node had no memory left.",
    "memory.events oom_kill (cgroup v2 only: v1 counts per step)",
);

/// Processes and threads.
pub static JOB_TASKS: Metric = of_job(
    "slurm_job_tasks",
    Kind::Gauge,
    Unit::None,
    "Processes and threads of a job on this node.",
    "pids.current",
);

/// Bytes read from a disk.
pub static JOB_DISK_READ: Metric = Metric {
    labels: &["jobid", "device"],
    tier: Tier::Detail,
    ..of_job(
        "slurm_job_disk_read_bytes_total",
        Kind::Counter,
        Unit::Bytes,
        "Bytes that a job has read from a disk of this node; reads from the page cache do not count.",
        "io.stat rbytes (cgroup v2 with the controller io)",
    )
};

/// Bytes written to a disk.
pub static JOB_DISK_WRITTEN: Metric = Metric {
    labels: &["jobid", "device"],
    tier: Tier::Detail,
    ..of_job(
        "slurm_job_disk_written_bytes_total",
        Kind::Counter,
        Unit::Bytes,
        "Bytes that a job has written to a disk of this node, counted when they reach the disk.",
        "io.stat wbytes (cgroup v2 with the controller io)",
    )
};

/// Cgroup name of a job, which identifies its processes, and the pod that it is in.
pub static JOB_FOLDER: Metric = Metric {
    labels: &["jobid", "folder", "pod"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_folder_info",
        Kind::Info,
        Unit::None,
        "Cgroup name of a job: job_ and its job ID, or its SLUID; uid of the pod that its slurmd runs in, else empty.",
        "/sys/fs/cgroup",
    )
};

/// A job whose prolog hook has left a record: its epilog hook may report how the job ended.
pub static JOB_PROLOG: Metric = Metric {
    tier: Tier::Private,
    ..of_job(
        "slurm_job_prolog_info",
        Kind::Info,
        Unit::None,
        "Job whose prolog hook has recorded its owner.",
        "record of the prolog hook",
    )
};

/// A device that the device program of a job allows explicitly.
pub static JOB_DEVICE: Metric = Metric {
    labels: &["jobid", "device"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_device_info",
        Kind::Info,
        Unit::None,
        "Device of gres.conf that a job may use: nvidia0, nvidia0/1/0 for a GPU instance, renderD128.",
        "the cgroup's device program (bpf(2) BPF_PROG_QUERY, BPF_OBJ_GET_INFO_BY_FD), /proc/driver/nvidia-caps/mig-minors",
    )
};

/// The reason of [`JOB_DEVICES`] if several jobs of this host have the same name.
pub const AMBIGUOUS: &str = "ambiguous";

/// Evidence for the GPUs allocated to a job, other than its device program.
pub mod evidence {
    /// The prolog hook.
    pub const HOOK: &str = "hook";
    /// Mapping files of other tools (`slurm.jobs.mapping`).
    pub const MAPPING_FILE: &str = "mapping_file";
}

/// A GPU allocated to a job by evidence other than its device program; the best available evidence only.
pub static JOB_GRANT: Metric = Metric {
    labels: &["jobid", "evidence", "device"],
    tier: Tier::Private,
    ..of_job(
        "slurm_job_grant_info",
        Kind::Info,
        Unit::None,
        "GPU allocated to a job by other evidence (hook or mapping_file): nvidia0, nvidia0/1/0 for a GPU instance, or a UUID.",
        "record of the prolog hook, files of slurm.jobs.mapping; gres.conf",
    )
};

/// The part of a GPU that several jobs share: of all parts that are allocated.
pub static JOB_PARTS: Metric = Metric {
    tier: Tier::Private,
    ..of_job(
        "slurm_job_gpu_parts",
        Kind::Gauge,
        Unit::None,
        "Parts of its only GPU that a job has, while other jobs have parts of it too: shards, or percent of MPS.",
        "record of the prolog hook (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE), else SLURM_SHARDS_ON_NODE of a task (/proc/PID/environ)",
    )
};

/// Result of reading a job's device program: the reason is empty on success.
pub static JOB_DEVICES: Metric = Metric {
    labels: &["jobid", "reason"],
    ..of_job(
        "slurm_job_devices_info",
        Kind::Info,
        Unit::None,
        "Result of reading the device program of a job: empty reason for success, else denied, withheld (the kernel hides instructions), foreign (not Slurm's), none (ConstrainDevices=no, no gres, cgroup v1), ambiguous (several jobs with this name), failed.",
        "the cgroup's device program (bpf(2) BPF_PROG_QUERY, BPF_OBJ_GET_INFO_BY_FD)",
    )
};

/// Every metric of this collector.
pub static METRICS: &[&Metric] = &[
    &JOB_INFO,
    &JOB_OWNER,
    &JOB_START,
    &JOB_CPU,
    &JOB_CPUS,
    &JOB_MEMORY,
    &JOB_MEMORY_ANONYMOUS,
    &JOB_MEMORY_PEAK,
    &JOB_MEMORY_LIMIT,
    &JOB_OOM_KILLS,
    &JOB_TASKS,
    &JOB_DISK_READ,
    &JOB_DISK_WRITTEN,
    &JOB_FOLDER,
    &JOB_PROLOG,
    &JOB_DEVICE,
    &JOB_DEVICES,
    &JOB_GRANT,
    &JOB_PARTS,
];
