//! A node with two GPUs, a port and jobs, as snapshots have it.

use std::time::Duration;

use collectors::gpfs::metrics as gpfs;
use collectors::gpu::metrics as gpu;
use collectors::lustre::metrics as lustre;
use collectors::rdma::metrics as rdma;
use collectors::slurm::metrics::{
    JOB_CPU, JOB_DEVICE, JOB_DEVICES, JOB_FOLDER, JOB_GRANT, JOB_INFO, JOB_MEMORY_PEAK, JOB_PARTS,
    JOB_PROLOG, JOB_START,
};
use collectors::{Block, Value};

use crate::sample;
use crate::snapshot::{DeviceState, Presence, Snapshot};

/// When jobs begin, as a Unix time.
pub const START: f64 = 1_795_227_100.0;

/// What a node shows at one moment.
#[derive(Clone)]
pub struct Node {
    /// Label, minor, joules and load (not a number: not read).
    pub gpus: Vec<(&'static str, &'static str, f64, f64)>,
    /// Their serial numbers, in the same order, as far as they are known: dies of one module have the same one.
    pub serials: Vec<&'static str>,
    /// Its driver has not come back with any of them.
    pub gpus_are_late: bool,
    pub jobs: Vec<Job>,
    pub presence: Presence,
    /// What the only port has sent. `None`: it could not be read.
    pub sent: Option<u64>,
    /// Bytes that programs have read from the only Lustre, and metadata operations of the only GPFS. `None`: none is mounted.
    pub files: Option<[u64; 2]>,
    /// Which life of a job of the same number it is.
    pub life: &'static str,
    pub has_prolog: bool,
    /// When jobs that are added begin.
    pub began: f64,
    /// The parts of a GPU that jobs have that are added.
    pub parts: Option<u32>,
    /// Its worker has just begun: jobs are listed and not read.
    pub is_new: bool,
}

#[derive(Clone)]
pub struct Job {
    pub number: &'static str,
    pub devices: Vec<&'static str>,
    /// What says which devices it has. `None`: its rules.
    pub evidence: Option<&'static str>,
    pub life: &'static str,
    pub began: f64,
    pub parts: Option<u32>,
    pub is_late: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            gpus: vec![("GPU-0", "0", 1000.0, 0.5), ("GPU-1", "1", 2000.0, 1.0)],
            serials: Vec::new(),
            gpus_are_late: false,
            jobs: Vec::new(),
            presence: Presence::Open,
            sent: Some(0),
            files: None,
            life: "1",
            has_prolog: false,
            began: START,
            parts: None,
            is_new: false,
        }
    }
}

impl Node {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with(&self, job: &'static str, devices: &[&'static str]) -> Self {
        let mut node = self.clone();
        node.jobs.push(Job {
            number: job,
            devices: devices.to_vec(),
            evidence: None,
            life: self.life,
            began: self.began,
            parts: self.parts,
            is_late: false,
        });
        node
    }

    /// A job whose rules say nothing, and that was given these by what that word stands for.
    pub fn given(&self, job: &'static str, evidence: &'static str, devices: &[&'static str]) -> Self {
        let mut node = self.with(job, devices);
        if let Some(job) = node.jobs.last_mut() {
            job.evidence = Some(evidence);
        }
        node
    }

    /// The reading of this job has not come back.
    pub fn late(&self, job: &str) -> Self {
        let mut node = self.clone();
        for job in node.jobs.iter_mut().filter(|j| j.number == job) {
            job.is_late = true;
        }
        node
    }

    pub fn without_gpus(&self) -> Self {
        let mut node = self.clone();
        node.gpus_are_late = true;
        node
    }

    pub fn joules(&self, all: [f64; 2]) -> Self {
        let mut node = self.clone();
        for (gpu, joules) in node.gpus.iter_mut().zip(all) {
            gpu.2 = joules;
        }
        node
    }

    fn devices(&self) -> (DeviceState, Vec<DeviceState>) {
        let gpus = sample::device("gpus", |b: &mut Block| {
            for (at, (gpu, minor, joules, load)) in self.gpus.iter().enumerate() {
                let serial = self.serials.get(at).copied().unwrap_or_default();
                b.info(&gpu::INFO, &[gpu, "", "", "", "", minor, serial, "", "", "", ""]);
                let known = |v: f64| if v.is_nan() { Value::Absent } else { Value::F64(v) };
                b.push(&gpu::ENERGY, &[gpu], known(*joules));
                b.push(&gpu::UTILIZATION, &[gpu], known(*load));
                b.u64(&gpu::MEMORY_USED, &[gpu, ""], 1000);
                b.push(
                    &gpu::CLOCK_EVENT_SECONDS,
                    &[gpu, "hw_thermal"],
                    known(*joules / 100.0),
                );
            }
        });
        let job = |job: &Job| {
            let number = job.number;
            let mut state = sample::device(&format!("job_{number}:{}", job.life), |b: &mut Block| {
                b.info(&JOB_INFO, &[number, "1000", "proja", "", "", "", ""]);
                b.info(&JOB_FOLDER, &[number, &format!("job_{number}"), ""]);
                if self.has_prolog {
                    b.info(&JOB_PROLOG, &[number]);
                }
                b.f64(&JOB_START, &[number], job.began);
                b.f64(&JOB_CPU, &[number], 1.5);
                b.u64(&JOB_MEMORY_PEAK, &[number], 4096);
                b.info(&JOB_DEVICES, &[number, job.evidence.map_or("", |_| "none")]);
                b.maybe_u64(&JOB_PARTS, &[number], job.parts.map(u64::from));
                for device in &job.devices {
                    match job.evidence {
                        None => b.info(&JOB_DEVICE, &[number, device]),
                        Some(word) => b.info(&JOB_GRANT, &[number, word, device]),
                    }
                }
            });
            if job.is_late {
                state.late = sample::late("").late;
            }
            state
        };
        (gpus, self.jobs.iter().map(job).collect())
    }

    /// As it is read at that time of the wall clock, by which the one since boot goes too.
    pub fn snapshot(&self, wall: f64) -> Snapshot {
        let at = sample::AT + Duration::from_secs_f64(wall - START);
        let (mut gpus, mut jobs) = self.devices();
        if self.gpus_are_late {
            gpus.late = sample::late("").late;
        }
        let mut snapshot = sample::snapshot(Vec::new());
        let port = sample::device("port", |b: &mut Block| {
            b.maybe_u64(&rdma::PORT_XMIT_DATA, &["mlx5_0", "1"], self.sent);
        });
        let of_lustre = sample::device("scratch", |b: &mut Block| {
            b.maybe_u64(&lustre::READ_BYTES, &["scratch"], self.files.map(|f| f[0]));
        });
        let of_gpfs = sample::device("home", |b: &mut Block| {
            for (operation, times) in [("opens", 1), ("closes", 2), ("reads", 1000)] {
                let labels = ["", "home", operation];
                b.maybe_u64(&gpfs::OPERATIONS, &labels, self.files.map(|f| f[1] * times));
            }
        });
        for collector in snapshot.collectors_mut() {
            match collector.spec.name {
                "lustre" => collector.devices.push(of_lustre.clone()),
                "gpfs" => collector.devices.push(of_gpfs.clone()),
                "nvidia" => collector.devices.push(gpus.clone()),
                "rdma" => collector.devices.push(port.clone()),
                "slurm" => {
                    collector.presence = self.presence.clone();
                    collector.devices.append(&mut jobs);
                }
                _ => {}
            }
        }
        snapshot.at = at;
        let devices = snapshot.collectors_mut().flat_map(|c| &mut c.devices);
        devices.filter(|d| d.late.is_none()).for_each(|d| d.at = at);
        if self.is_new {
            let slurm = snapshot.collectors_mut().filter(|c| c.spec.name == "slurm");
            slurm
                .flat_map(|c| &mut c.devices)
                .for_each(|d| d.at = Duration::ZERO);
        }
        snapshot
    }
}
