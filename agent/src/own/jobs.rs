//! What jobs have used of GPUs, and how many have ended.

use collectors::{Metric, Value};

use super::OwnFacts;
use super::metrics::{
    JOB_GPU_BUSY, JOB_GPU_ENERGY, JOB_GPU_MEMORY, JOB_GPU_SECONDS, JOB_GPU_WATCHED, JOB_LINES_DROPPED,
    JOBS_ENDED, JOBS_HIDDEN,
};
use exposition::Writer;
use model::jobs::{GpuUse, Hidden, Line};

pub(super) fn render(facts: &OwnFacts, hidden: &Hidden, w: &mut Writer<'_>) {
    let jobs = &facts.jobs;
    // One that waits for its epilog alone has no GPU any more.
    let is_shown = |line: &&Line| line.ended.is_none() && !hidden.job(&line.job);
    let mut each = |metric: &'static Metric, value: fn(&GpuUse) -> Option<f64>| {
        w.family(metric, |f| {
            for line in jobs.running.iter().filter(is_shown) {
                for gpu in &line.gpus {
                    if let Some(value) = value(gpu) {
                        f.put(&[&gpu.gpu, &gpu.gpu_instance, &line.job], Value::F64(value));
                    }
                }
            }
        });
    };
    each(&JOB_GPU_SECONDS, |g| g.seconds);
    each(&JOB_GPU_BUSY, |g| g.busy_seconds);
    each(&JOB_GPU_WATCHED, GpuUse::watched);
    each(&JOB_GPU_ENERGY, |g| g.energy_joules);
    each(&JOB_GPU_MEMORY, |g| g.memory_bytes);
    w.family(&JOBS_ENDED, |f| {
        for (result, n) in &jobs.results {
            f.u64(&[result], *n);
        }
    });
    w.family(&JOBS_HIDDEN, |f| f.u64(&[], hidden.count()));
    w.family(&JOB_LINES_DROPPED, |f| f.u64(&[], facts.job_lines_dropped));
}
