//! Alerts about jobs. The recording rules of jobs are in alerts/jobs.rules.yml.

use super::{Alert, Case, Expected, FurtherCase, Group, Runbook, Severity};

pub(super) static GROUP: Group = Group {
    name: "nodewarden-job-use",
    about: "Jobs over all of their nodes.",
    records: &[],
    alerts: &[Alert {
        name: "JobGpusIdle",
        expr: "(
  sum by (cluster, jobid) (
    slurm_job_gpu_share_ratio
    and ignoring (evidence) (rate(slurm_job_gpu_watched_seconds_total[30m]) > 0)
  ) >= 8
)
and on (cluster, jobid)
  sum by (cluster, jobid) (rate(slurm_job_gpu_busy_seconds_total[30m]))
  / sum by (cluster, jobid) (rate(slurm_job_gpu_watched_seconds_total[30m])) < 0.01",
        lasts: "1h",
        severity: Severity::Ticket,
        summary: "Job {{ $labels.jobid }} holds {{ $value | humanize }} GPUs of {{ $labels.cluster }} and does not use them",
        description: "Job {{ $labels.jobid }} has {{ $value | humanize }} GPUs of {{ $labels.cluster }}, which were busy less than 1 % of the time for more than an hour: it is stalled, or waits for data. Jobs with fewer than 8 GPUs are not counted. Only GPUs that report their utilization count; GPU instances do not.",
        act: "`nodewarden job ID` on one of its nodes shows each GPU. A job with a blocked process or a lost rank hangs until its time limit: tell its user. A job that Slurm has suspended keeps its GPUs and fires too.",
        runbook: Runbook::Own,
        fires: Case {
            input: &[
                (
                    r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                    "4x200",
                ),
                (
                    r#"slurm_job_gpu_share_ratio{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                    "4x200",
                ),
                (
                    r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                    "0+60x200",
                ),
                (
                    r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                    "0x200",
                ),
                (
                    r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                    "0+60x200",
                ),
                (
                    r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                    "0x200",
                ),
            ],
            at: "120m",
        },
        silent: Some(Case {
            input: &[
                (
                    r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                    "8x200",
                ),
                (
                    r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                    "0+60x200",
                ),
                (
                    r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                    "0+50x200",
                ),
            ],
            at: "120m",
        }),
    }],
    further: &[
        FurtherCase {
            alert: "JobGpusIdle",
            about: "a GPU that is busy 5 % of the time, and 7 instances, which report no use.",
            case: Case {
                input: &gpu_and_instances("0+3x200"),
                at: "120m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "JobGpusIdle",
            about: "an idle GPU, and 7 instances, whose use is unknown.",
            case: Case {
                input: &gpu_and_instances("0x200"),
                at: "120m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "JobGpusIdle",
            about: "an idle GPU, and 7 that were lost, of which nothing is known.",
            case: Case {
                input: &[
                    (
                        r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                        "1x200",
                    ),
                    (
                        r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                        "0x200",
                    ),
                    (
                        r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
                        "0+60x200",
                    ),
                    (
                        r#"slurm_job_gpu_share_ratio{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                        "7x200",
                    ),
                    (
                        r#"slurm_job_gpu_seconds_total{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                        "0+60000x200",
                    ),
                    (
                        r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                        "100x200",
                    ),
                    (
                        r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n2",gpu="b",jobid="7"}"#,
                        "100x200",
                    ),
                ],
                at: "120m",
            },
            expected: Expected::Firing(0),
        },
    ],
};

/// A job with one whole GPU, which is busy by these values, and 7 instances, which report no use.
const fn gpu_and_instances(busy: &'static str) -> [(&'static str, &'static str); 17] {
    [
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="b",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n1",gpu="b",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n1",gpu="b",jobid="7"}"#,
            busy,
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="7/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="7/0",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="8/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="8/0",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="9/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="9/0",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="10/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="10/0",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="11/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="11/0",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="12/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="12/0",jobid="7"}"#,
            "0+60x200",
        ),
        (
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="13/0",jobid="7"}"#,
            "1x200",
        ),
        (
            r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="a",gpu_instance="13/0",jobid="7"}"#,
            "0+60x200",
        ),
    ]
}
