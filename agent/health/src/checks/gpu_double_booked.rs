//! Check `gpu-double-booked`: a Kubernetes pod uses a GPU that Slurm allocated to a job.

use collectors::SubjectKind;

use super::gpu_foreign_process::{Intruders, Looking};
use super::{Check, May, Scope, Version};
use crate::reads::gpu_process::{Place, is_foreign};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-double-booked",
    subject: SubjectKind::Gpu,
    fires_when: "A process in a Kubernetes pod uses a GPU or MIG instance that Slurm allocated to a job.",
    lasting: "2 consecutive readings of the same process, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, without such a process or with the GPU unallocated.",
    ignored_when: "Processes in pods that have the name of a service such as DCGM, and those in the pod of the job's own slurmd.",
    scope: Scope::Node,
    // Two schedulers disagree: draining the node in one of them repairs nothing.
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Looking::start(&ROW),
};

static ROW: Intruders = Intruders {
    check: &CHECK,
    which: |process, owners, jobs| match process.place {
        Place::Pod(_) => is_foreign(process, owners, jobs),
        Place::Unknown => None,
        Place::Job(_) | Place::User | Place::Outside => Some(false),
    },
    detail: "used by a pod besides its job",
};
