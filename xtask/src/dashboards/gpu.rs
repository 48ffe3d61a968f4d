//! GPUs and the jobs on them.

use super::{Dashboard, Kind, Panel, Row, Variable};

pub(super) static FLEET: Dashboard = Dashboard {
    uid: "nodewarden-gpus",
    title: "nodewarden / GPU fleet",
    description: "All GPUs of a cluster: use, heat, errors.",
    variables: &[Variable::Instance],
    one: false,
    rows: &[
        Row {
            title: "Now",
            panels: &[
                Panel {
                    title: "GPUs",
                    description: "GPUs that nodewarden knows.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[("count(gpu_up{%n})", "")],
                },
                Panel {
                    title: "GPUs down",
                    description: "GPUs for which the driver does not answer.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 6,
                    queries: &[("count(gpu_up{%n} == 0) or vector(0)", "")],
                },
                Panel {
                    title: "Utilization",
                    description: "Average over all GPUs.",
                    unit: "percentunit",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[("avg(gpu_utilization_ratio{%n})", "")],
                },
                Panel {
                    title: "Power",
                    description: "Sum over all GPUs.",
                    unit: "watt",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[("sum(gpu_power_watts{%n})", "")],
                },
            ],
        },
        Row {
            title: "Use",
            panels: &[
                Panel {
                    title: "Utilization",
                    description: "Average, and the share of GPUs with a job. A job on an instance of a GPU counts as a part of that GPU.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[
                        ("avg(gpu_utilization_ratio{%n})", "utilization"),
                        (
                            "sum(sum by (cluster, instance, gpu) (slurm_job_gpu_share_ratio{%n}) / (count by (cluster, instance, gpu) (gpu_instance_info{%n}) or count by (cluster, instance, gpu) (gpu_up{%n})) or 0 * (nodewarden_collector_up{%n,collector=\"slurm\"} == 1)) / count(gpu_up{%n})",
                            "allocated",
                        ),
                    ],
                },
                Panel {
                    title: "Tensor cores",
                    description: "Share of time in which tensor cores were active, on average, where the driver reports it.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "avg(avg by (cluster, instance, gpu) (gpu_tensor_active_ratio{%n}))",
                        "tensor active",
                    )],
                },
                Panel {
                    title: "Memory",
                    description: "Used part of all GPU memory.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum(gpu_memory_used_bytes{%n}) / sum(gpu_memory_total_bytes{%n} and on (cluster, instance, gpu) gpu_memory_used_bytes{%n})",
                        "used",
                    )],
                },
            ],
        },
        Row {
            title: "Limits",
            panels: &[
                Panel {
                    title: "Temperature",
                    description: "The hottest GPU, and the average.",
                    unit: "celsius",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[
                        ("max(gpu_temperature_celsius{%n})", "hottest"),
                        ("avg(gpu_temperature_celsius{%n})", "average"),
                    ],
                },
                Panel {
                    title: "GPUs at a lower clock",
                    description: "GPUs whose clock is reduced now, by the reason.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (reason) (gpu_clock_event_active{%n,reason!=\"idle\"})",
                        "{{reason}}",
                    )],
                },
            ],
        },
        Row {
            title: "Errors",
            panels: &[
                Panel {
                    title: "Xid errors",
                    description: "Number of each Xid since the state directory was created, if it occurred in the selected time.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[(
                        "gpu_xid_errors_total{%n} and on (cluster, instance, gpu, xid) gpu_xid_last_timestamp_seconds{%n} > time() - $__range_s",
                        "errors",
                    )],
                },
                Panel {
                    title: "Uncorrected ECC errors",
                    description: "Since the driver was loaded (volatile) and over the lifetime of each GPU (aggregate), where there are some. AMD counts the volatile ones only, and those of data that no one has used yet as deferred.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[("gpu_ecc_errors_total{%n,kind!=\"corrected\"} > 0", "errors")],
                },
                Panel {
                    title: "Waiting for a reset",
                    description: "GPUs with a row remapping or a page retirement (V100 and older) that needs a reset, or whose driver asks for a recovery action: 1 reset the GPU, 2 reboot the node, 3 drain P2P, 4 drain and reset, 5 recover IMEX (R580: reset the bus), 6 reset the bus, 7 reboot the system.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[(
                        "label_replace(gpu_row_remap_pending{%n} == 1, \"cause\", \"row remapping\", \"\", \"\") or label_replace(gpu_retired_pages_pending{%n} == 1, \"cause\", \"page retirement\", \"\", \"\") or label_replace(gpu_recovery_action{%n} > 0, \"cause\", \"recovery action\", \"\", \"\")",
                        "value",
                    )],
                },
                Panel {
                    title: "NVLink errors",
                    description: "Errors in the selected time.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[(
                        "round(sum by (cluster, instance, gpu, kind) (increase(gpu_nvlink_errors_total{%n}[$__range]))) > 0",
                        "errors",
                    )],
                },
            ],
        },
    ],
};

pub(super) static GPU: Dashboard = Dashboard {
    uid: "nodewarden-gpu",
    title: "nodewarden / GPU detail",
    description: "One GPU.",
    variables: &[Variable::Instance, Variable::Gpu],
    one: true,
    rows: &[
        Row {
            title: "Identity",
            panels: &[Panel {
                title: "GPU",
                description: "Model, address, serial number, driver.",
                unit: "short",
                kind: Kind::Table,
                width: 24,
                queries: &[("gpu_info{%g}", "")],
            }],
        },
        Row {
            title: "Use",
            panels: &[
                Panel {
                    title: "Utilization",
                    description: "Share of time in which a kernel ran, SMs were active, tensor cores were active.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[
                        ("gpu_utilization_ratio{%g}%i", "{{instance}} GPU {{index}} kernel"),
                        (
                            "gpu_sm_active_ratio{%g}%i",
                            "{{instance}} GPU {{index}} SM {{gpu_instance}}",
                        ),
                        (
                            "gpu_tensor_active_ratio{%g}%i",
                            "{{instance}} GPU {{index}} tensor {{gpu_instance}}",
                        ),
                    ],
                },
                Panel {
                    title: "Memory",
                    description: "GPU memory in use.",
                    unit: "bytes",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[
                        (
                            "gpu_memory_used_bytes{%g}%i",
                            "{{instance}} GPU {{index}} used {{gpu_instance}}",
                        ),
                        (
                            "gpu_memory_total_bytes{%g}%i",
                            "{{instance}} GPU {{index}} total {{gpu_instance}}",
                        ),
                    ],
                },
                Panel {
                    title: "Power",
                    description: "Power, and the limit in force.",
                    unit: "watt",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[
                        ("gpu_power_watts{%g}%i", "{{instance}} GPU {{index}}"),
                        ("gpu_power_limit_watts{%g}%i", "{{instance}} GPU {{index}} limit"),
                    ],
                },
                Panel {
                    title: "Temperature",
                    description: "Of the die and of the memory.",
                    unit: "celsius",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[
                        ("gpu_temperature_celsius{%g}%i", "{{instance}} GPU {{index}} die"),
                        (
                            "gpu_memory_temperature_celsius{%g}%i",
                            "{{instance}} GPU {{index}} memory",
                        ),
                        (
                            "gpu_temperature_slowdown_celsius{%g}%i",
                            "{{instance}} GPU {{index}} slow-down",
                        ),
                    ],
                },
                Panel {
                    title: "Clocks",
                    description: "Current clocks.",
                    unit: "hertz",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[("gpu_clock_hertz{%g}%i", "{{instance}} GPU {{index}} {{clock}}")],
                },
            ],
        },
        Row {
            title: "Links and errors",
            panels: &[
                Panel {
                    title: "NVLink and XGMI",
                    description: "Data over all NVLinks or, of AMD GPUs, XGMI links.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[
                        (
                            "rate(gpu_nvlink_transmit_bytes_total{%g}[$__rate_interval])%i",
                            "{{instance}} GPU {{index}} sent",
                        ),
                        (
                            "rate(gpu_nvlink_receive_bytes_total{%g}[$__rate_interval])%i",
                            "{{instance}} GPU {{index}} received",
                        ),
                        (
                            "rate(gpu_xgmi_write_bytes_total{%g}[$__rate_interval])%i",
                            "{{instance}} GPU {{index}} written",
                        ),
                        (
                            "rate(gpu_xgmi_read_bytes_total{%g}[$__rate_interval])%i",
                            "{{instance}} GPU {{index}} read",
                        ),
                    ],
                },
                Panel {
                    title: "PCIe",
                    description: "Data over PCIe.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[
                        (
                            "rate(gpu_pcie_transmit_bytes_total{%g}[$__rate_interval])%i",
                            "{{instance}} GPU {{index}} sent",
                        ),
                        (
                            "rate(gpu_pcie_receive_bytes_total{%g}[$__rate_interval])%i",
                            "{{instance}} GPU {{index}} received",
                        ),
                    ],
                },
                Panel {
                    title: "ECC errors",
                    description: "Since the driver was loaded.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "gpu_ecc_errors_total{%g,scope=\"volatile\"}%i",
                        "{{instance}} GPU {{index}} {{kind}}",
                    )],
                },
            ],
        },
    ],
};

pub(super) static JOB: Dashboard = Dashboard {
    uid: "nodewarden-job",
    title: "nodewarden / Job",
    description: "One Slurm job over its nodes and GPUs; jobs of the same number in several clusters stay apart.",
    variables: &[Variable::Job],
    one: true,
    rows: &[
        Row {
            title: "Job",
            panels: &[
                Panel {
                    title: "Nodes",
                    description: "Nodes with processes of the job.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[(
                        "count by (cluster) (count by (cluster, instance) (slurm_job_info{%c,jobid=~\"$jobid\"}))",
                        "{{cluster}}",
                    )],
                },
                Panel {
                    title: "GPUs",
                    description: "GPUs of the job; a shard counts as a fraction, a GPU instance as one.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[(
                        "sum by (cluster) (slurm_job_gpu_share_ratio{%c,jobid=~\"$jobid\"})",
                        "{{cluster}}",
                    )],
                },
                Panel {
                    title: "GPUs busy",
                    description: "Busy share of the time of its GPUs. GPU instances report none and are omitted.",
                    unit: "percentunit",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[(
                        "sum by (cluster) (rate(slurm_job_gpu_busy_seconds_total{%c,jobid=~\"$jobid\"}[$__rate_interval])) / (sum by (cluster) (rate(slurm_job_gpu_watched_seconds_total{%c,jobid=~\"$jobid\"}[$__rate_interval])) > 0)",
                        "{{cluster}}",
                    )],
                },
                Panel {
                    title: "Processes in state D or I",
                    description: "Processes of the job that wait in the kernel and cannot be ended.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 6,
                    queries: &[(
                        "sum by (cluster) (slurm_job_blocked_processes{%c,jobid=~\"$jobid\"})",
                        "{{cluster}}",
                    )],
                },
            ],
        },
        Row {
            title: "Use",
            panels: &[
                Panel {
                    title: "GPUs busy, by node",
                    description: "A node that lags holds up the others. GPU instances report no utilization and are omitted.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (cluster, instance) (rate(slurm_job_gpu_busy_seconds_total{%c,jobid=~\"$jobid\"}[$__rate_interval])) / (sum by (cluster, instance) (rate(slurm_job_gpu_watched_seconds_total{%c,jobid=~\"$jobid\"}[$__rate_interval])) > 0)",
                        "{{cluster}} {{instance}}",
                    )],
                },
                Panel {
                    title: "Power",
                    description: "Power of its GPUs, by node, without GPU instances.",
                    unit: "watt",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (cluster, instance) (rate(slurm_job_gpu_energy_joules_total{%c,jobid=~\"$jobid\"}[$__rate_interval]))",
                        "{{cluster}} {{instance}}",
                    )],
                },
                Panel {
                    title: "GPU memory",
                    description: "GPU memory in use by the job, by node.",
                    unit: "bytes",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, instance) (slurm_job_gpu_memory_bytes{%c,jobid=~\"$jobid\"})",
                        "{{cluster}} {{instance}}",
                    )],
                },
                Panel {
                    title: "Host memory",
                    description: "Memory of the job, by node.",
                    unit: "bytes",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, instance) (slurm_job_memory_bytes{%c,jobid=~\"$jobid\"})",
                        "{{cluster}} {{instance}}",
                    )],
                },
                Panel {
                    title: "Processor cores",
                    description: "Cores that the job uses, by node.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, instance) (rate(slurm_job_cpu_seconds_total{%c,jobid=~\"$jobid\"}[$__rate_interval]))",
                        "{{cluster}} {{instance}}",
                    )],
                },
            ],
        },
        Row {
            title: "Faults on its nodes",
            panels: &[Panel {
                title: "Open incidents",
                description: "Incidents of the nodes on which the job runs.",
                unit: "short",
                kind: Kind::Table,
                width: 24,
                queries: &[(
                    "nodewarden_incident_info{%c} and on (cluster, instance) slurm_job_info{%c,jobid=~\"$jobid\"}",
                    "",
                )],
            }],
        },
    ],
};
