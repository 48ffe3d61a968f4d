use collectors::Block;
use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER};

use super::*;
use crate::core::snapshot::DeviceState;
use crate::exposition::sample;

const START: f64 = 1_795_227_100.0;

/// What a node shows at one moment.
#[derive(Clone)]
struct Node {
    /// Label, minor, joules, load.
    gpus: Vec<(&'static str, &'static str, f64, f64)>,
    /// Number, devices, processor time.
    jobs: Vec<(&'static str, Vec<&'static str>, f64)>,
    presence: Presence,
    late: bool,
}

impl Node {
    fn new() -> Self {
        Self {
            gpus: vec![("GPU-0", "0", 1000.0, 0.5), ("GPU-1", "1", 2000.0, 1.0)],
            jobs: Vec::new(),
            presence: Presence::Open,
            late: false,
        }
    }

    fn with(&self, job: &'static str, devices: &[&'static str]) -> Self {
        let mut node = self.clone();
        node.jobs.push((job, devices.to_vec(), 1.5));
        node
    }

    fn joules(&self, all: [f64; 2]) -> Self {
        let mut node = self.clone();
        for (gpu, joules) in node.gpus.iter_mut().zip(all) {
            gpu.2 = joules;
        }
        node
    }

    fn devices(&self) -> (DeviceState, Vec<DeviceState>) {
        let gpus = sample::device("gpus", |b: &mut Block| {
            for (gpu, minor, joules, load) in &self.gpus {
                b.info(&gpu::INFO, &[gpu, "", "", "", "", minor, "", "", "", "", ""]);
                b.f64(&gpu::ENERGY, &[gpu], *joules);
                b.f64(&gpu::UTILIZATION, &[gpu], *load);
            }
        });
        let job = |(job, devices, cpu): &(&str, Vec<&str>, f64)| {
            sample::device(job, |b: &mut Block| {
                b.info(&JOB_INFO, &[job, "1000", "proja", "", "", "", ""]);
                b.info(&JOB_FOLDER, &[job, &format!("job_{job}")]);
                b.f64(&JOB_START, &[job], START);
                b.f64(&JOB_CPU, &[job], *cpu);
                b.u64(&JOB_MEMORY_PEAK, &[job], 4096);
                b.info(&JOB_DEVICES, &[job, ""]);
                for device in devices {
                    b.info(&JOB_DEVICE, &[job, device]);
                }
            })
        };
        (gpus, self.jobs.iter().map(job).collect())
    }

    fn snapshot(&self) -> Snapshot {
        let (gpus, mut jobs) = self.devices();
        if self.late {
            jobs.push(sample::late("another"));
        }
        let mut snapshot = sample::snapshot(Vec::new());
        for collector in &mut snapshot.collectors {
            match collector.spec.name {
                "nvidia" => collector.devices.push(gpus.clone()),
                "slurm" => {
                    collector.presence = self.presence.clone();
                    collector.devices.append(&mut jobs);
                }
                _ => {}
            }
        }
        snapshot
    }
}

#[test]
fn a_job_has_a_line_when_it_has_ended() {
    let (mut book, node) = (Book::default(), Node::new());
    let running = node.with("7", &["nvidia1"]);
    assert_eq!(book.take(&running.snapshot(), START + 1.0), []);
    assert_eq!(
        book.take(&running.joules([1100.0, 2600.0]).snapshot(), START + 11.0),
        []
    );
    let lines = book.take(&node.joules([1200.0, 2900.0]).snapshot(), START + 16.0);
    let expected = Line {
        job: "7".to_owned(),
        user: "1000".to_owned(),
        account: "proja".to_owned(),
        began: START,
        ended: START + 16.0,
        gpus: vec!["GPU-1".to_owned()],
        evidence: Some("device_program".to_owned()),
        gpu_seconds: 15.0,
        gpu_busy_seconds: Some(15.0),
        gpu_energy_joules: Some(900.0),
        cpu_seconds: Some(1.5),
        memory_peak_bytes: Some(4096.0),
        readings: 2,
        ..Line::default()
    };
    assert_eq!(lines, [expected]);
    assert_eq!(book.take(&node.snapshot(), START + 30.0), [], "once");
}

#[test]
fn shards_have_a_part_each_and_of_a_gpu_that_nobody_has_nothing_is_given() {
    let (mut book, node) = (Book::default(), Node::new());
    let both = node.with("7", &["nvidia0"]).with("8", &["nvidia0"]);
    book.take(&both.snapshot(), START);
    let lines = book.take(&node.joules([1100.0, 9000.0]).snapshot(), START + 10.0);
    let sums: Vec<_> = lines
        .iter()
        .map(|l| {
            (
                l.job.as_str(),
                l.gpu_seconds,
                l.gpu_energy_joules,
                l.gpu_busy_seconds,
            )
        })
        .collect();
    assert_eq!(
        sums,
        [
            ("7", 5.0, Some(50.0), Some(2.5)),
            ("8", 5.0, Some(50.0), Some(2.5))
        ]
    );
}

/// A driver that is loaded anew begins its counters anew; a GPU that is lost has none.
#[test]
fn a_counter_that_went_back_is_left_out_and_one_that_is_gone_is_absent() {
    let (mut book, node) = (Book::default(), Node::new());
    let running = node.with("7", &["nvidia0"]);
    book.take(&running.snapshot(), START);
    book.take(&running.joules([10.0, 2000.0]).snapshot(), START + 10.0);
    book.take(&running.joules([40.0, 2000.0]).snapshot(), START + 20.0);
    let lines = book.take(&node.joules([40.0, 2000.0]).snapshot(), START + 20.0);
    assert_eq!(lines[0].gpu_energy_joules, Some(30.0));

    let mut lost = node.with("8", &["nvidia0"]);
    lost.gpus.clear();
    book.take(&lost.snapshot(), START + 30.0);
    let mut after = node.clone();
    after.gpus.clear();
    let lines = book.take(&after.snapshot(), START + 40.0);
    assert_eq!(
        (lines[0].gpu_energy_joules, lines[0].gpu_busy_seconds),
        (None, None)
    );
    assert_eq!(lines[0].gpus, [""; 0]);
}

#[test]
fn while_nobody_looks_nothing_ends() {
    let (mut book, node) = (Book::default(), Node::new());
    book.take(&node.with("7", &["nvidia0"]).snapshot(), START);
    let mut blind = node.clone();
    blind.presence = Presence::Unknown;
    assert_eq!(book.take(&blind.snapshot(), START + 10.0), []);
    let mut late = node.clone();
    late.late = true;
    assert_eq!(book.take(&late.snapshot(), START + 20.0), []);
    let lines = book.take(&node.snapshot(), START + 30.0);
    assert_eq!((lines.len(), lines[0].gpu_seconds), (1, 30.0));
}
