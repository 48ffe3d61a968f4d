//! Questions of operators and the queries that answer them: docs/operations/promql.md.

use std::fmt::Write;

/// A question.
pub(super) struct Recipe {
    pub(super) question: &'static str,
    pub(super) expr: &'static str,
    /// How to read the answer.
    answer: &'static str,
}

pub(super) const DOCUMENT: &str = "docs/operations/promql.md";

/// In the order of the document: nodes, GPUs, jobs, fabric, filesystems, nodewarden.
pub(super) static RECIPES: &[Recipe] = &[
    Recipe {
        question: "Which nodes are unhealthy, and why?",
        expr: "nodewarden_incident_info and on (cluster, instance) nodewarden_verdict{verdict=\"unhealthy\"} == 1",
        answer: "One row for each open incident of an unhealthy node. `check` has a runbook of this name.",
    },
    Recipe {
        question: "Which incidents has no operator acknowledged, and how old are they?",
        expr: "sort_desc(\n  max by (cluster, instance, incident) (time() - nodewarden_incident_start_timestamp_seconds)\n  * on (cluster, instance, incident) group_left (check, subject_kind, subject)\n    max by (cluster, instance, incident, check, subject_kind, subject) (nodewarden_incident_info)\n  and on (cluster, instance, incident) nodewarden_incident_acknowledged == 0\n)",
        answer: "Age in seconds, the oldest first.",
    },
    Recipe {
        question: "How many nodes would nodewarden drain if it were allowed to?",
        expr: "count by (cluster, check) (nodewarden_would_drain_total > 0)",
        answer: "Nodes by check, since the state directory of each was created. Look at it before you change `health.mode` from observe to drain.",
    },
    Recipe {
        question: "Which jobs run on an unhealthy node?",
        expr: "slurm_job_info and on (cluster, instance) nodewarden_verdict{verdict=\"unhealthy\"} == 1",
        answer: "One row for each job and node. `user` and `account` are present if `slurm.jobs` allows them.",
    },
    Recipe {
        question: "Which share of the nodes is healthy?",
        expr: "avg by (cluster) (nodewarden_verdict{verdict=\"healthy\"})",
        answer: "0 to 1. Nodes that do not answer Prometheus are not counted: compare with `avg by (cluster) (up{job=~\"(.+/)?nodewarden[^/]*\"})`.",
    },
    Recipe {
        question: "Which GPUs does the driver not answer for?",
        expr: "gpu_up == 0",
        answer: "One row for each GPU. `nodewarden_device_error_info{subject_kind=\"gpu\"}` has the reason.",
    },
    Recipe {
        question: "Which GPUs had Xid errors within the last hour?",
        expr: "gpu_xid_errors_total and on (cluster, instance, gpu, xid) gpu_xid_last_timestamp_seconds > time() - 3600",
        answer: "The value is the count since the state directory was created. docs/xids.md explains each Xid.",
    },
    Recipe {
        question: "Which GPUs run at a lower clock, and why?",
        expr: "gpu_clock_event_active{reason!=\"idle\"} == 1",
        answer: "`sw_power_cap` is usual under load. `hw_thermal` and `hw_power_brake` are faults of cooling or power.",
    },
    Recipe {
        question: "Which are the hottest GPUs, and how far are they from their limit?",
        expr: "bottomk(10,\n  max by (cluster, instance, gpu) (gpu_temperature_slowdown_celsius)\n  - max by (cluster, instance, gpu) (gpu_temperature_celsius)\n)",
        answer: "Degrees below the temperature at which the GPU lowers its clock. GPUs that do not report the limit are omitted.",
    },
    Recipe {
        question: "Which driver versions are in use?",
        expr: "count by (cluster, vendor, name, driver) (gpu_info)",
        answer: "Number of GPUs. More than one version of a model is an update that is not complete.",
    },
    Recipe {
        question: "What share of the GPUs is allocated to jobs?",
        expr: "sum by (cluster) (\n  sum by (cluster, instance, gpu) (slurm_job_gpu_share_ratio)\n  / (count by (cluster, instance, gpu) (gpu_instance_info) or count by (cluster, instance, gpu) (gpu_up))\n)\n/ count by (cluster) (gpu_up)",
        answer: "0 to 1. A GPU that is divided into instances counts by the instances that have a job, one with shards as a whole. Without jobs there is no row.",
    },
    Recipe {
        question: "Which jobs use their GPUs least?",
        expr: "bottomk(10, jobid:slurm_job_gpu_busy_seconds:ratio_rate5m)",
        answer: "Busy share of the time of all GPUs of a job, 0 to 1. Needs the rules of jobs.rules.yml.",
    },
    Recipe {
        question: "Which jobs use the most energy?",
        expr: "topk(10, jobid:slurm_job_gpu_energy_joules:rate5m)",
        answer: "Power of all GPUs of a job in watts. Needs the rules of jobs.rules.yml.",
    },
    Recipe {
        question: "Which GPUs are allocated to a job and idle?",
        expr: "slurm_job_gpu_share_ratio\n  and on (cluster, instance, gpu) avg_over_time(gpu_utilization_ratio[10m]) < 0.01\n  unless on (cluster, instance, jobid) time() - slurm_job_start_time_seconds < 600",
        answer: "One row for each job and GPU, without jobs of less than 10 min: the GPU was idle before they began.",
    },
    Recipe {
        question: "Which ports went down within the last hour?",
        expr: "rdma_port_state == 1 and max_over_time(rdma_port_state[1h]) >= 4",
        answer: "Ports that were active. The check is rdma-port-down.",
    },
    Recipe {
        question: "Which ports carry the most data?",
        expr: "topk(10, rate(rdma_port_xmit_data_bytes_total[5m]) / rdma_port_rate_bytes_per_second)",
        answer: "Share of the port's rate, 0 to 1.",
    },
    Recipe {
        question: "Which nodes receive congestion notifications or pauses?",
        expr: "topk(10, max by (cluster, instance, device, port) (rate(rdma_pfc_rx_pause_seconds_total[5m])))",
        answer: "Share of the time in which the switch paused the priority that it paused most. For notifications: `rate(rdma_rp_cnp_handled_total[5m])`.",
    },
    Recipe {
        question: "Which filesystems are nearly full?",
        expr: "topk(10, 1 - min by (cluster, mountpoint) (mount_available_bytes / mount_size_bytes))",
        answer: "Used share that users see, 0 to 1.",
    },
    Recipe {
        question: "Which nodes write most to Lustre?",
        expr: "topk(10, sum by (cluster, instance, fs) (rate(lustre_client_write_bytes_total[5m])))",
        answer: "Bytes per second. For GPFS: `gpfs_write_bytes_total`. For NFS: `mount_nfs_write_bytes_total`.",
    },
    Recipe {
        question: "What does nodewarden cost?",
        expr: "topk(10, sum by (cluster, instance) (rate(nodewarden_process_cpu_seconds_total[5m])))",
        answer: "Share of one core, all processes of a node.",
    },
];

/// The document.
pub(super) fn document() -> String {
    let mut out = String::from(
        "# Queries\n\n\
         <!-- Written by `cargo xtask dashboards` from xtask/src/dashboards/recipes.rs. -->\n\n\
         Questions of operators, and the PromQL that answers them. They need the scrape configuration of [prometheus.md](prometheus.md), \
         with the\nlabel `cluster`. `cargo xtask demo fleet --check` runs each of them on a Prometheus that scrapes 12 recorded nodes. \
         Add a selector\nsuch as `{cluster=\"alpha\", instance=~\"gpu0.*\"}` to narrow an answer.\n",
    );
    for recipe in RECIPES {
        let (question, expr, answer) = (recipe.question, recipe.expr, recipe.answer);
        write!(out, "\n## {question}\n\n```\n{expr}\n```\n\n{answer}\n").ok();
    }
    out
}
