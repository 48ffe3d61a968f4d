//! Check `gpu-double-booked`: Slurm has given a GPU to a job, and a pod of Kubernetes computes on it.

use collectors::SubjectKind;

use super::gpu_foreign_process::{Intruders, Looking};
use super::gpu_process::{Place, is_foreign};
use super::{Check, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-double-booked",
    subject: SubjectKind::Gpu,
    condition: "A GPU, or an instance of one, that is a job's by Slurm's own rules is computed on by a process in a pod of Kubernetes, the same in two readings running, over ten seconds or more. A job of a slurmd that is in a pod is a job, and services such as DCGM do not count.",
    scope: Scope::Node,
    // Two schedulers disagree: that is not repaired by taking the node from one of them.
    may: May::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show no such process, or no job that has the GPU.",
    runbook: "docs/runbooks/gpu-double-booked.md",
    watch: || Looking::start(&ROW),
};

static ROW: Intruders = Intruders {
    check: &CHECK,
    which: |process, owners, jobs| match process.place {
        Place::Pod(_) => is_foreign(process, owners, jobs),
        Place::Unknown => None,
        Place::Job(_) | Place::Outside => Some(false),
    },
    detail: "used by a pod besides its job",
};
