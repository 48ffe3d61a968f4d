//! The table of the daemon's own metrics.

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
    ($($id:ident $name:literal $kind:ident $(($buckets:expr))? $unit:ident [$($label:literal)*] $help:literal $source:literal)*) => {
        $(#[doc = concat!("`", $name, "`: ", $help)]
        pub static $id: Metric = row($name, Kind::$kind $(($buckets))?, Unit::$unit, &[$($label),*], $help, $source);)*

        /// Every metric of the daemon itself, in the order of the exposition.
        pub static METRICS: &[&Metric] = &[$(&$id),*];
    };
}

/// From what a page takes that only formats numbers to the time-outs of scrapers.
const SCRAPE_BUCKETS: Buckets = Buckets::new(&[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);

own! {
    XIDS "gpu_xid_errors_total" Counter None ["gpu" "xid"]
        "Xid errors that the NVIDIA driver reported, in the kernel log or by its library; one that both told of counts once." "kernel log, NVRM: Xid; nvmlEventSetWait_v2"
    XID_LAST "gpu_xid_last_timestamp_seconds" Gauge Seconds ["gpu" "xid"]
        "When this Xid was last reported." "kernel log, NVRM: Xid; nvmlEventSetWait_v2"
    XID_REPORTS "gpu_xid_reports_total" Counter None ["gpu" "xid" "source"]
        "Reports of Xid errors by who told of them: kernel_log or nvml." "kernel log, NVRM: Xid; nvmlEventSetWait_v2"
    DRIVER_EVENTS "gpu_driver_events_total" Counter None ["gpu" "event"]
        "What the driver told of a GPU besides Xids: double_bit_error, single_bit_storm, memory_retired, memory_not_retired, poison, fatal_poison, unavailable, recovery_action, power_source, mig_config." "nvmlEventSetWait_v2"
    FIRMWARE_FAULTS "rdma_firmware_faults_total" Counter None ["pci" "event"]
        "What drivers of network adapters said of their firmware: command_timeout, late_completion, unresponsive, fatal, reset." "kernel log, mlx5_core, mlx4_core, bnxt_en, ice, i40e"
    SXIDS "gpu_nvswitch_sxid_errors_total" Counter None ["nvswitch" "sxid"]
        "SXid errors that the NVSwitch driver reported in the kernel log." "kernel log, nvidia-nvswitch: SXid"
    FALLEN_OFF "gpu_fallen_off_bus_total" Counter None ["gpu"]
        "Lines of the kernel log, other than those of Xids, that say that a GPU has fallen off the bus." "kernel log, NVRM"
    RDMA_EVENTS "rdma_events_total" Counter None ["device" "port" "event"]
        "What the kernel told of an RDMA device or port: device_added, device_removed, netdev_attached, netdev_detached, renamed, link_down, link_up; lost, without a device, where it told more than could be kept. The port is empty for a device." "RDMA_NL_GROUP_NOTIFY, RTNLGRP_LINK"
    GPU_RDMA_AFFINITY "gpu_rdma_affinity_info" Info None ["gpu" "device" "port" "distance"]
        "An RDMA port that is nearest to a GPU, and by what they are joined, as nvidia-smi topo -m words it: PIX one switch of PCI, PXB several, PHB the processor's root complex, NODE its NUMA node, SYS the bus between processors." "sysfs paths of PCI functions, numa_node"
    JOB_GPU_SHARE "slurm_job_gpu_share_ratio" Gauge Ratio ["gpu" "gpu_instance" "jobid" "evidence"]
        "Share of the GPU allocated to the job (0-1). The evidence: device_program, the device rules that Slurm attached to the job's cgroup; hook, recorded by nodewarden's prolog hook; mapping_file, written by another tool's prolog; process, a process of the job uses the GPU. No series for a job whose GPUs are unknown." "slurm_job_device_info and slurm_job_grant_info joined with gpu_info by minor number or UUID, gpu_process_cgroup_info"
    JOB_GPU_SECONDS "slurm_job_gpu_seconds_total" Counter Seconds ["gpu" "gpu_instance" "jobid"]
        "For how long a job has had a GPU, or an instance of one, its part only where others have it too." "slurm_job_gpu_share_ratio"
    JOB_GPU_BUSY "slurm_job_gpu_busy_seconds_total" Counter Seconds ["gpu" "gpu_instance" "jobid"]
        "For how long a GPU of a job had work while the job had it, the job's part. Of whole GPUs alone." "slurm_job_gpu_share_ratio, gpu_utilization_ratio"
    JOB_GPU_ENERGY "slurm_job_gpu_energy_joules_total" Counter Joules ["gpu" "gpu_instance" "jobid"]
        "What a GPU of a job has used while the job had it, the job's part. Of whole GPUs alone." "slurm_job_gpu_share_ratio, gpu_energy_joules_total"
    JOB_GPU_MEMORY "slurm_job_gpu_memory_bytes" Gauge Bytes ["gpu" "gpu_instance" "jobid"]
        "Memory in use of a GPU of a job, or of its instance, the job's part." "slurm_job_gpu_share_ratio, gpu_memory_used_bytes"
    JOBS_ENDED "slurm_jobs_ended_total" Counter None ["result"]
        "Jobs that have ended on this node: completed_or_cancelled (the epilog of a job that was cancelled is told exit code 0 too), failed, killed, out_of_memory as the epilog's hook tells, else unknown." "the job's cgroup, SLURM_JOB_EXIT_CODE2"
    JOBS_HIDDEN "slurm_jobs_hidden" Gauge None []
        "Jobs that run and have no series of their own, the youngest of more than slurm.jobs.max_jobs. Their lines are written." "slurm.jobs.max_jobs"
    JOB_LINES_DROPPED "nodewarden_job_lines_dropped_total" Counter None []
        "Lines of jobs that have ended and are lost, because the disk of the state directory took none and more than 4096 waited." "daemon"
    UNCOUNTED "nodewarden_events_uncounted_total" Counter None []
        "Events of more devices or codes than are told apart; they were judged all the same." "ledger"
    OVERRUNS "nodewarden_kernel_log_overruns_total" Counter None []
        "How often kernel log records were lost." "/dev/kmsg, EPIPE"
    VERDICT "nodewarden_verdict" Gauge None ["verdict"]
        "The verdict on this node: 1 for the one that holds." "health engine"
    INCIDENTS_OPEN "nodewarden_incidents_open" Gauge None []
        "Open incidents." "health engine"
    INCIDENT_INFO "nodewarden_incident_info" Info None
        ["id" "check" "subject_kind" "subject" "detail" "act" "mode" "drains" "ack"]
        "An open incident, what it is about and what repairs it." "health engine"
    INCIDENT_START "nodewarden_incident_start_timestamp_seconds" Gauge Seconds ["id"]
        "When an open incident began." "health engine"
    DRAIN_STATE "nodewarden_drain_state" Gauge None ["state"]
        "Our own drain of this node: 1 for the state that it is in." "health engine"
    WOULD_DRAIN "nodewarden_would_drain_total" Counter None ["check"]
        "How often a check would have drained this node had its mode been drain." "health engine"
    DRAINS "nodewarden_drains_total" Counter None ["check"]
        "How often a check drained this node." "health engine"
    UNDRAINS "nodewarden_undrains_total" Counter None []
        "How often our own drain was lifted, by us or by a person." "health engine"
    OVERRIDES "nodewarden_drain_overrides_total" Counter None []
        "How often a person lifted a drain of ours." "health engine"
    COLLECTOR_UP "nodewarden_collector_up" Gauge None ["collector"]
        "Whether everything that the collector found was read; not shown for a collector that has nothing here, or that waits for its first reading."
        "workers"
    COLLECTOR_STATE "nodewarden_collector_state_info" Info None ["collector" "state" "reason"]
        "The collector's state: absent, unknown, ok, failed or late." "workers"
    COLLECTOR_DURATION "nodewarden_collector_duration_seconds" Gauge Seconds ["collector"]
        "How long the last reading of all the collector's devices took." "workers"
    DEVICE_ERROR "nodewarden_device_error_info" Info None ["collector" "subject_kind" "subject" "reason"]
        "A device whose last reading failed." "workers"
    DEVICE_LATE "nodewarden_device_late_seconds" Gauge Seconds
        ["collector" "subject_kind" "subject" "state" "wchan"]
        "For how long a device has not answered, and what its thread waits for." "/proc/self/task"
    SERIES_DROPPED "nodewarden_series_dropped" Gauge None ["page" "collector" "reason"]
        "Series that a page left out when it was last written: beyond the limit of the collector, or shown already."
        "exposition"
    WORKER_UP "nodewarden_worker_up" Gauge None ["worker"]
        "Whether the worker process runs." "parent"
    WORKER_STARTS "nodewarden_worker_starts_total" Counter None ["worker"]
        "How often the worker process was started." "parent"
    WORKER_STUCK "nodewarden_worker_stuck_slots" Gauge None ["worker"]
        "Earlier processes of this worker that cannot end." "lock slots in the run directory"
    PROCESS_CPU "nodewarden_process_cpu_seconds_total" Counter Seconds ["process"]
        "Processor time that one of nodewarden's processes has used, read once a minute." "/proc/PID/stat"
    PROCESS_RESIDENT "nodewarden_process_resident_memory_bytes" Gauge Bytes ["process"]
        "Memory that one of nodewarden's processes has resident, read once a minute." "/proc/PID/stat"
    PROCESS_PROPORTIONAL "nodewarden_process_proportional_memory_bytes" Gauge Bytes ["process"]
        "Resident memory of one of nodewarden's processes, shared pages divided by who shares them."
        "/proc/self/smaps_rollup"
    PROCESS_DESCRIPTORS "nodewarden_process_open_descriptors" Gauge None ["process"]
        "Descriptors that one of nodewarden's processes has open." "/proc/self/fd"
    PROCESS_THREADS "nodewarden_process_threads" Gauge None ["process"]
        "Threads of one of nodewarden's processes." "/proc/PID/stat"
    BUILD_INFO "nodewarden_build_info" Info None ["version"]
        "The version of nodewarden." "build"
    START "nodewarden_start_timestamp_seconds" Gauge Seconds []
        "When the daemon started." "daemon"
    MODE "nodewarden_mode_info" Info None ["mode"]
        "The most that any check may do: observe, comment or drain." "configuration, health.mode"
    CONFIG_ERROR "nodewarden_config_error" Gauge None []
        "Whether the last reload of the configuration was refused." "daemon"
    STORE_ERRORS "nodewarden_store_errors_total" Counter None []
        "Records that did not reach the disk." "daemon"
    SCRAPES "nodewarden_scrapes_total" Counter None ["page" "code"]
        "Requests for a page of metrics, by the HTTP status that they were answered with." "http"
    SCRAPE_BYTES "nodewarden_scrape_bytes_total" Counter Bytes ["page"]
        "Bytes of pages of metrics that were sent, as compressed." "http"
    SCRAPE_DURATION "nodewarden_scrape_duration_seconds" Histogram(SCRAPE_BUCKETS) Seconds ["page"]
        "How long it took to answer a request for a page of metrics, readings on demand included." "http"
    LATE_SCRAPES "nodewarden_late_scrapes_total" Counter None []
        "Scrapes that were answered from an earlier reading, because no newer one was there by their deadline." "http"
}

/// The words of [`DRAIN_STATE`].
pub static DRAIN_STATES: &[&str] = &[
    "none",
    "wanted",
    "withheld",
    "foreign",
    "writing",
    "drained",
    "lifting",
    "overridden",
    "unproven",
];
