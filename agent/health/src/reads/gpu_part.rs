//! The GPUs of a snapshot, and instances of GPUs, with their jobs and processes.

use collectors::Label;
use collectors::gpu::metrics as m;

use super::gpu::{Gpu, whole};
use super::gpu_process::{Process, processes};
use model::ownership::{Evidence, Gpus, Owner, Ownership};
use model::snapshot::Snapshot;

/// The allocation of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    /// To these jobs, by their device rules.
    By(Vec<String>),
    /// Unallocated: the device rules of all jobs are known, and none names it.
    Unallocated,
    /// Not known.
    Unknown,
}

/// A GPU without instances, or an instance of one.
#[derive(Debug)]
pub struct Part<'a> {
    pub(crate) gpu: &'a Gpu<'a>,
    /// The `gpu_instance` label, empty for the whole.
    pub(crate) instance: &'a str,
    pub(crate) owned: Owned,
    pub(crate) processes: Vec<Process<'a>>,
    /// Whether the list of processes is complete, each with its part.
    pub(crate) complete: bool,
}

impl Part<'_> {
    /// The jobs to which it is allocated.
    pub(crate) fn jobs(&self) -> &[String] {
        match &self.owned {
            Owned::By(jobs) => jobs,
            Owned::Unallocated | Owned::Unknown => &[],
        }
    }

    /// ` on instance 1/0`, empty for the whole.
    pub(crate) fn at_instance(&self) -> String {
        match self.instance {
            "" => String::new(),
            instance => format!(" on instance {instance}"),
        }
    }

    /// Its memory in use, in bytes, without memory reserved by the driver.
    pub(crate) fn used(&self) -> Option<u64> {
        whole(self.gpu.with(&m::MEMORY_USED, &[("gpu_instance", self.instance)]))
    }
}

/// Every GPU that is up, or its instances.
pub(crate) fn parts<'a>(snapshot: &'a Snapshot, gpus: &'a [Gpu<'a>]) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    if gpus.is_empty() {
        return parts;
    }
    let Ownership { jobs, owners } = snapshot.ownership();
    let known = Gpus::of(snapshot);
    for gpu in gpus.iter().filter(|gpu| gpu.is_up() == Some(true)) {
        let mut instances: Vec<&'a str> = gpu
            .all(&m::INSTANCE_INFO)
            .filter_map(|s| s.labels.get(1))
            .map(Label::as_str)
            .collect();
        if instances.is_empty() {
            instances.push("");
        }
        let resolved = known.is_resolved(label(gpu), jobs);
        let (processes, complete) = processes(gpu, &instances);
        for instance in instances {
            parts.push(Part {
                owned: owned(owners, gpu, instance, resolved && jobs.all_known()),
                processes: processes
                    .iter()
                    .filter(|(of, _)| *of == instance)
                    .map(|(_, p)| *p)
                    .collect(),
                gpu,
                instance,
                complete,
            });
        }
    }
    parts
}

/// The `gpu` label of its series.
fn label<'a>(gpu: &'a Gpu<'_>) -> &'a str {
    let info = gpu.one(&m::INFO);
    info.and_then(|s| s.label("gpu")).unwrap_or(&gpu.label)
}

fn owned(owners: &[Owner], gpu: &Gpu<'_>, instance: &str, all_known: bool) -> Owned {
    let label = label(gpu);
    let is_it = |o: &&Owner| o.gpu == label && o.gpu_instance == instance;
    let exact = |o: &&Owner| is_it(o) && o.evidence == Evidence::DeviceProgram;
    let jobs: Vec<String> = owners.iter().filter(exact).map(|o| o.job.clone()).collect();
    match () {
        () if !jobs.is_empty() => Owned::By(jobs),
        () if all_known && !owners.iter().any(|o| is_it(&o)) => Owned::Unallocated,
        () => Owned::Unknown,
    }
}
