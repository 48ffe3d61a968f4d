//! The table of the daemon's own and derived metrics.

use collectors::{Buckets, Kind, Metric, Tier, Unit};

const fn row(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
    source: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        unit,
        labels,
        help,
        tier: Tier::Core,
        source,
        aliases: &[],
    }
}

macro_rules! own {
    ($($id:ident $name:literal $kind:ident $(($buckets:expr))? $unit:ident [$($label:literal)*] $(tier $tier:ident)? $help:literal $source:literal)*) => {
        $(#[doc = concat!("`", $name, "`: ", $help)]
        pub static $id: Metric = Metric {
            $(tier: Tier::$tier,)?
            ..row($name, Kind::$kind $(($buckets))?, Unit::$unit, &[$($label),*], $help, $source)
        };)*

        /// Every metric of this table, in the order of the exposition.
        pub static METRICS: &[&Metric] = &[$(&$id),*];
    };
}

/// From a page that only formats numbers to the time-outs of scrapers.
const SCRAPE_BUCKETS: Buckets = Buckets::new(&[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);

own! {
    XIDS "gpu_xid_errors_total" Counter None ["gpu" "xid"]
        "Xid errors reported in the kernel log or by NVML since the state directory was created, each counted once." "kernel log, NVRM: Xid; nvmlEventSetWait_v2"
    XID_LAST "gpu_xid_last_timestamp_seconds" Gauge Seconds ["gpu" "xid"]
        "Time of the last report of an Xid as a Unix timestamp in seconds." "kernel log, NVRM: Xid; nvmlEventSetWait_v2"
    XID_REPORTS "gpu_xid_reports_total" Counter None ["gpu" "xid" "source"]
        "Xid reports by source, kernel_log or nvml, since the state directory was created." "kernel log, NVRM: Xid; nvmlEventSetWait_v2"
    DRIVER_EVENTS "gpu_driver_events_total" Counter None ["gpu" "event"]
        "GPU driver events other than Xids since the state directory was created: double_bit_error, single_bit_storm, memory_retired, memory_not_retired, poison, fatal_poison, unavailable, recovery_action, power_source, mig_config." "nvmlEventSetWait_v2"
    FIRMWARE_FAULTS "rdma_firmware_faults_total" Counter None ["pci" "event"]
        "Firmware faults reported by network adapter drivers since the state directory was created: command_timeout, late_completion, unresponsive, fatal, reset." "kernel log, mlx5_core, mlx4_core, bnxt_en, ice, i40e, ionic"
    KERNEL_EVENTS "host_kernel_events_total" Counter None ["event" "subject_kind" "subject"]
        "Kernel log lines of the table of docs/kernel-lines.md since the state directory was created, by row and by what they are about; node (no subject) if a line names nothing." "kernel log"
    SXIDS "gpu_nvswitch_sxid_errors_total" Counter None ["nvswitch" "sxid"]
        "SXid errors reported by the NVSwitch driver in the kernel log since the state directory was created." "kernel log, nvidia-nvswitch: SXid"
    FALLEN_OFF "gpu_fallen_off_bus_total" Counter None ["gpu"]
        "Kernel log lines without an Xid that report a GPU fallen off the bus, since the state directory was created." "kernel log, NVRM"
    RDMA_EVENTS "rdma_events_total" Counter None ["device" "port" "event"]
        "Kernel events of an RDMA device (empty port) or port: device_added, device_removed, netdev_attached, netdev_detached, renamed, link_down, link_up; lost (no device) if the kernel dropped events." "RDMA_NL_GROUP_NOTIFY, RTNLGRP_LINK"
    GPU_RDMA_AFFINITY "gpu_rdma_affinity_info" Info None ["gpu" "device" "port" "distance"]
        "RDMA port nearest to a GPU, with the distance of nvidia-smi topo -m: PIX (one PCIe switch), PXB (several PCIe switches), PHB (host bridge), NODE (same NUMA node), SYS (interconnect between NUMA nodes)." "sysfs paths of PCI functions, numa_node"
    JOB_GPU_SHARE "slurm_job_gpu_share_ratio" Gauge Ratio ["gpu" "gpu_instance" "jobid" "evidence"]
        "Share of the GPU allocated to the job (0-1). The evidence: device_program, the device rules that Slurm attached to the job's cgroup; hook, recorded by nodewarden's prolog hook; mapping_file, written by another tool's prolog; process, a process of the job uses the GPU. No series for a job whose GPUs are unknown." "slurm_job_device_info and slurm_job_grant_info joined with gpu_info by minor number or UUID, gpu_process_cgroup_info"
    JOB_GPU_SECONDS "slurm_job_gpu_seconds_total" Counter Seconds ["gpu" "gpu_instance" "jobid"]
        "Time for which a GPU or GPU instance was allocated to a job in seconds, weighted by the job's share." "slurm_job_gpu_share_ratio"
    JOB_GPU_BUSY "slurm_job_gpu_busy_seconds_total" Counter Seconds ["gpu" "gpu_instance" "jobid"]
        "Time for which a GPU allocated to a job was busy in seconds, weighted by the job's share, for whole GPUs only." "slurm_job_gpu_share_ratio, gpu_utilization_ratio"
    JOB_GPU_WATCHED "slurm_job_gpu_watched_seconds_total" Counter Seconds ["gpu" "gpu_instance" "jobid"]
        "Time of slurm_job_gpu_seconds_total for which it is known whether the GPU was busy in seconds: not that of a lost GPU." "slurm_job_gpu_share_ratio, gpu_utilization_ratio"
    JOB_GPU_ENERGY "slurm_job_gpu_energy_joules_total" Counter Joules ["gpu" "gpu_instance" "jobid"]
        "Energy used by a GPU while allocated to a job in joules, weighted by the job's share, for whole GPUs only." "slurm_job_gpu_share_ratio, gpu_energy_joules_total"
    JOB_GPU_MEMORY "slurm_job_gpu_memory_bytes" Gauge Bytes ["gpu" "gpu_instance" "jobid"]
        "Memory in use on a GPU or GPU instance of a job in bytes, weighted by the job's share." "slurm_job_gpu_share_ratio, gpu_memory_used_bytes"
    JOBS_ENDED "slurm_jobs_ended_total" Counter None ["result"]
        "Jobs that ended on this node by result: completed_or_cancelled (the epilog of a cancelled job also receives exit code 0), failed, killed or out_of_memory from the epilog hook, else unknown." "the job's cgroup, SLURM_JOB_EXIT_CODE2"
    JOBS_HIDDEN "slurm_jobs_hidden" Gauge None []
        "Running jobs without their own series: the newest jobs above slurm.jobs.max_jobs, whose job lines are still written." "slurm.jobs.max_jobs"
    JOB_LINES_DROPPED "nodewarden_job_lines_dropped_total" Counter None []
        "Job lines lost because more than 4096 waited: for a writable state directory, or as records of the epilog hook for the daemon." "daemon, records of the epilog hook"
    UNCOUNTED "nodewarden_events_uncounted_total" Counter None []
        "Events not counted per series because the label limit was reached, but evaluated by the checks." "ledger"
    OVERRUNS "nodewarden_kernel_log_overruns_total" Counter None []
        "Kernel log overruns, each with one or more lost records, since the state directory was created." "/dev/kmsg, EPIPE"
    VERDICT "nodewarden_verdict" Gauge None ["verdict"]
        "Verdict on this node: 1 for the current verdict, 0 for the others." "health engine"
    INCIDENTS_OPEN "nodewarden_incidents_open" Gauge None []
        "Open incidents on this node." "health engine"
    INCIDENT_INFO "nodewarden_incident_info" Info None
        ["incident" "check" "subject_kind" "subject"]
        "Open incident with the check that opened it and its subject." "health engine"
    INCIDENT_REMEDY "nodewarden_incident_remedy" Gauge None ["incident" "act" "check"]
        "Remedy of an open incident, and the check for whose finding it acts now: 1 for the current ones." "health engine"
    INCIDENT_MODE "nodewarden_incident_mode" Gauge None ["incident" "mode"]
        "What an open incident may do to the node in the mode in force: 1 for the current word, 0 for the others." "health engine"
    INCIDENT_ACK "nodewarden_incident_acknowledged" Gauge None ["incident"]
        "Whether an operator acknowledged an open incident: 1 if so, else 0." "health engine"
    INCIDENT_START "nodewarden_incident_start_timestamp_seconds" Gauge Seconds ["incident"]
        "Start time of an open incident as a Unix timestamp in seconds." "health engine"
    DRAIN_STATE "nodewarden_drain_state" Gauge None ["state"]
        "State of nodewarden's drain of this node: 1 for the current state, 0 for the others." "health engine"
    DRAIN_HELD "nodewarden_drain_held" Gauge None ["by"]
        "What holds a drain that the node's state allows: guard (no free slot), standing (too many drains stand), pause or refused (slots cannot be read or taken); 1 for the current cause, 0 for the others." "health engine"
    PAUSED "nodewarden_paused" Gauge None []
        "Whether a person paused this node: 1 if so, else 0." "health engine"
    PAUSES "nodewarden_pauses_total" Counter None []
        "Pauses of this node by a person since the state directory was created." "health engine"
    GUARD_SLOTS "nodewarden_guard_slots" Gauge None ["partition" "pool"]
        "Drain slots of the pool that this node's last drain needed; absent once health.guard.window has passed since." "scontrol show reservation"
    GUARD_TAKEN "nodewarden_guard_slots_taken" Gauge None ["partition" "pool"]
        "Drain slots of that pool that were taken, as read for that drain; absent once health.guard.window has passed since." "scontrol show reservation"
    GUARD_STANDING "nodewarden_guard_standing_drains" Gauge None ["partition"]
        "Drains of nodewarden that stood in the partition, as read for that drain; absent where no slot was free, and once health.guard.window has passed since." "sinfo"
    GUARD_STANDING_LIMIT "nodewarden_guard_standing_drains_limit" Gauge None ["partition"]
        "Drains of nodewarden that may stand in the partition, as read for that drain; absent once health.guard.window has passed since." "configuration, health.guard.standing"
    GUARD_DIFFERS "nodewarden_guard_limits_differ" Gauge None []
        "Whether slots of other nodes were taken under other limits than this node's, as read for its last drain: 1 if so, else 0; absent once health.guard.window has passed since." "scontrol show reservation"
    WOULD_DRAIN "nodewarden_would_drain_total" Counter None ["check"]
        "Drains suppressed by the mode, by check, since the state directory was created." "health engine"
    DRAINS "nodewarden_drains_total" Counter None ["check"]
        "Drains of this node by check since the state directory was created." "health engine"
    UNDRAINS "nodewarden_undrains_total" Counter None []
        "Undrains of this node after a nodewarden drain, by nodewarden or a person, since the state directory was created." "health engine"
    OVERRIDES "nodewarden_drain_overrides_total" Counter None []
        "Drains by nodewarden that a person lifted (overrides) since the state directory was created." "health engine"
    FINDINGS_DROPPED "nodewarden_findings_dropped_total" Counter None []
        "Times that a finding opened no incident since the state directory was created: 256 were open, or 64 of its check. A condition tries again at each reading." "health engine"
    COLLECTOR_UP "nodewarden_collector_up" Gauge None ["collector"]
        "Collector status: 1 if everything found was read, 0 if not or if its worker cannot run; absent without such hardware or before the first reading."
        "workers"
    COLLECTOR_STATE "nodewarden_collector_state_info" Info None ["collector" "state" "reason"]
        "Collector state: absent, unknown, ok, failed or late." "workers"
    COLLECTOR_DURATION "nodewarden_collector_duration_seconds" Gauge Seconds ["collector"]
        "Duration of the last reading of all devices of the collector, in seconds." "workers"
    DEVICE_UP "nodewarden_device_up" Gauge None ["collector" "subject_kind" "subject"]
        "Device status: 1 if its last reading is complete and fresh, else 0; absent before the first reading, and for jobs." "workers"
    DEVICE_AGE "nodewarden_device_age_seconds" Gauge Seconds ["collector" "subject_kind" "subject"]
        "Age of the values shown for a device, in seconds; absent for jobs." "workers"
    DEVICE_ERROR "nodewarden_device_error_info" Info None ["collector" "subject_kind" "subject" "reason"]
        "Device whose last reading failed, with the reason." "workers"
    DEVICE_LATE "nodewarden_device_late_seconds" Gauge Seconds
        ["collector" "subject_kind" "subject" "state" "wchan"]
        "Time for which a device has not answered, in seconds, with the state and wait channel of its thread." "/proc/self/task"
    SERIES_DROPPED "nodewarden_series_dropped" Gauge None ["page" "collector" "reason"]
        "Series omitted from a page when it was last written, if any: limit (collector limit exceeded) or duplicate."
        "exposition"
    WORKER_UP "nodewarden_worker_up" Gauge None ["worker"]
        "State of the worker process: 1 running, 0 not running." "parent"
    WORKER_STARTS "nodewarden_worker_starts_total" Counter None ["worker"]
        "Starts of the worker process since the parent started." "parent"
    WORKER_STUCK "nodewarden_worker_stuck_slots" Gauge None ["worker"]
        "Lock slots, of 2, held by earlier processes of the worker that have not exited within 10 s." "lock slots in the run directory"
    PROCESS_CPU "nodewarden_process_cpu_seconds_total" Counter Seconds ["process"]
        "CPU time used by a nodewarden process since its start in seconds, read once a minute." "/proc/PID/stat"
    PROCESS_RESIDENT "nodewarden_process_resident_memory_bytes" Gauge Bytes ["process"]
        "Resident memory of a nodewarden process in bytes, read once a minute." "/proc/PID/stat"
    PROCESS_PROPORTIONAL "nodewarden_process_proportional_memory_bytes" Gauge Bytes ["process"]
        "Proportional set size (PSS) of a nodewarden process in bytes."
        "/proc/self/smaps_rollup"
    PROCESS_DESCRIPTORS "nodewarden_process_open_descriptors" Gauge None ["process"]
        "Open file descriptors of a nodewarden process." "/proc/self/fd"
    PROCESS_THREADS "nodewarden_process_threads" Gauge None ["process"] tier Detail
        "Threads of a nodewarden process." "/proc/PID/stat"
    PROCESS_SANDBOX "nodewarden_process_sandbox" Gauge None ["process" "feature"]
        "Sandbox of a nodewarden process by feature, seccomp or landlock: 1 in force, 0 not offered by the kernel."
        "seccomp(2), landlock_restrict_self(2)"
    COMMAND_HEALTHY "nodewarden_command_healthy" Gauge None ["check"]
        "Last result of a site's command that checks the node: 1 healthy, 0 unhealthy; absent if unknown or older than 3 intervals." "health.command"
    COMMAND_AGE "nodewarden_command_age_seconds" Gauge Seconds ["check"]
        "Age of the last result of a site's command, in seconds; absent before the first result." "health.command"
    COMMAND_DURATION "nodewarden_command_duration_seconds" Gauge Seconds ["check"]
        "Duration of the last run of a site's command, in seconds; absent before the first result." "health.command"
    COMMAND_RUNS "nodewarden_command_runs_total" Counter None ["check" "result"]
        "Runs of a site's command since the parent started, by result: healthy, unhealthy, unknown (another exit code), timed_out or failed (not started, or ended by a signal)." "health.command"
    BUILD_INFO "nodewarden_build_info" Info None ["version"]
        "Version of nodewarden." "build"
    START "nodewarden_start_timestamp_seconds" Gauge Seconds []
        "Start time of the daemon as a Unix timestamp in seconds." "daemon"
    MODE "nodewarden_mode_info" Info None ["mode"]
        "Configured health.mode, the upper limit for every check: observe, comment or drain." "configuration, health.mode"
    CONFIG_ERROR "nodewarden_config_error" Gauge None []
        "Result of the last configuration reload: 1 if rejected, else 0." "daemon"
    WEB_CONFIG_ERROR "nodewarden_web_config_error" Gauge None []
        "Result of the last reading of web_config_file: 1 if rejected and the last good one is in force, else 0; absent without such a file." "parent"
    STORE_ERRORS "nodewarden_store_errors_total" Counter None []
        "Records not written to the state directory since the daemon started." "daemon"
    AUDIT_LINES "nodewarden_audit_lines_total" Counter None ["result"]
        "Entries of the audit trail by result since the daemon started: written, lost (not written to the disk) or suppressed (refused orders beyond the limit)." "daemon"
    NOTIFICATIONS "nodewarden_notifications_total" Counter None ["result"]
        "Notifications by result since the parent started: ok, failed (the command failed or could not be started) or suppressed (beyond the limit)." "parent"
    SCRAPES "nodewarden_scrapes_total" Counter None ["page" "code"]
        "Requests for a metrics page by HTTP status since the daemon started." "http"
    SCRAPE_BYTES "nodewarden_scrape_bytes_total" Counter Bytes ["page"]
        "Bytes sent for metrics pages since the daemon started, after compression." "http"
    SCRAPE_DURATION "nodewarden_scrape_duration_seconds" Histogram(SCRAPE_BUCKETS) Seconds ["page"]
        "Duration of requests for a metrics page in seconds, including on-demand readings." "http"
    LATE_SCRAPES "nodewarden_late_scrapes_total" Counter None []
        "Scrapes answered from an earlier reading because no newer one was available by the deadline." "http"
}

/// The states of [`DRAIN_STATE`].
pub static DRAIN_STATES: &[&str] = &[
    "none",
    "wanted",
    "withheld",
    "held",
    "foreign",
    "writing",
    "drained",
    "lifting",
    "overridden",
    "unproven",
];
