//! The simulated host of a snapshot.

use std::sync::Arc;
use std::time::Duration;

use collectors::host::metrics::{
    CPUS_ONLINE, EDAC_UNCORRECTED, MEMORY_TOTAL, MODULES_INFO, MOUNT_INFO, MOUNTS, PCI_DEVICE_INFO,
    PCI_FUNCTION_RESPONDING, PCI_GPU_INFO, PCI_GPUS, PCI_LINK_SPEED, PCI_LINK_SPEED_MAX, PCI_LINK_WIDTH,
    PCI_LINK_WIDTH_MAX, PCI_NETWORK_INFO, PCI_RDMA_REGISTERED,
};
use collectors::rdma::metrics::{
    CARRIER_DOWN, DEVICE_INFO, LINK_DOWNED, PORT_INFO, PORT_PHYSICAL_STATE, PORT_RATE, PORT_STATE,
};
use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER, JOB_INFO, JOB_START};
use collectors::sys::task::Task;
use collectors::tasks::metrics::{BLOCKED, THREAD};
use collectors::{Block, Cadence, Kind, Metric, Spec, Subject, SubjectKind, Unit, Value};

use model::commands::CommandState;
use model::snapshot::{CollectorState, DeviceState, Late, Prepared, Presence, Snapshot};

/// A port of the next snapshot. `None`: unreadable.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) device: String,
    /// Its number on its device.
    pub(super) number: &'static str,
    pub(super) pci: String,
    pub(super) layer: &'static str,
    pub(super) function: &'static str,
    pub(super) state: Option<u64>,
    pub(super) physical: Option<u64>,
    pub(super) link_downed: Option<u64>,
    pub(super) carrier_down: Option<u64>,
    pub(super) late: bool,
    /// Since when it is late, if not the snapshot's time.
    pub(super) late_since: Option<Duration>,
    pub(super) driver: &'static str,
    pub(super) netdev: &'static str,
    pub(super) board: &'static str,
    pub(super) firmware: &'static str,
    /// In bytes per second, while it is up.
    pub(super) rate: Option<f64>,
    /// More series: metric, labels after device and port, value.
    pub(super) series: Vec<(&'static Metric, Vec<&'static str>, f64)>,
    /// The wait channel of the thread of a late port.
    pub(super) task: Option<Task>,
    /// The word of an error beside its values.
    pub(super) error: Option<&'static str>,
}

impl Port {
    /// An InfiniBand port in use.
    pub(super) fn new(n: usize) -> Self {
        Self {
            device: format!("mlx5_{n}"),
            number: "1",
            pci: format!("0000:{:02x}:00.0", 0x10 + n),
            layer: "InfiniBand",
            function: "physical",
            state: Some(4),
            physical: Some(5),
            link_downed: Some(0),
            carrier_down: None,
            late: false,
            late_since: None,
            driver: "mlx5_core",
            netdev: "",
            board: "",
            firmware: "28.43.1014",
            rate: Some(50e9),
            series: Vec::new(),
            task: None,
            error: None,
        }
    }

    /// Sets one more series.
    pub(super) fn set(&mut self, metric: &'static Metric, labels: &[&'static str], value: f64) {
        self.series.retain(|(m, l, _)| *m != metric || l != labels);
        self.series.push((metric, labels.to_vec(), value));
    }

    /// Increases one more series.
    pub(super) fn add(&mut self, metric: &'static Metric, labels: &[&'static str], more: f64) {
        let mut of = self.series.iter().filter(|(m, l, _)| *m == metric && l == labels);
        let before = of.next().map_or(0.0, |(_, _, value)| *value);
        self.set(metric, labels, before + more);
    }

    pub(super) fn up(&mut self) {
        (self.state, self.physical) = (Some(4), Some(5));
    }

    /// Down, and polling for a link partner.
    pub(super) fn down(&mut self) {
        (self.state, self.physical) = (Some(1), Some(2));
    }
}

/// A PCI link of the next snapshot.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) pci: String,
    pub(super) function: &'static str,
    pub(super) width: Option<u64>,
    pub(super) width_max: u64,
    pub(super) speed: Option<f64>,
    pub(super) speed_max: f64,
}

/// A GPU of the next snapshot, by its driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Driven {
    pub(super) label: String,
    /// Metric, labels after the GPU's own, value.
    pub(super) series: Vec<(&'static Metric, Vec<&'static str>, u64)>,
    /// Its margin to its highest temperature for work, which may be negative.
    pub(super) margin: Option<i32>,
    /// The margin at which it slows down.
    pub(super) slowdown_margin: Option<i32>,
    /// State and wait channel of a blocked thread, and since when.
    pub(super) late: Option<(char, &'static str, Duration)>,
    /// When its worker reported that. `None`: just now.
    pub(super) heard: Option<Duration>,
    /// Its system call.
    pub(super) call: &'static str,
    /// The word of an error beside its values.
    pub(super) error: Option<&'static str>,
    /// The time of its reading, if not the snapshot's.
    pub(super) read_at: Option<Duration>,
    pub(super) took: Duration,
}

/// An error about the state of a device, beside its values.
fn fail(state: &mut DeviceState, reason: Option<&str>) {
    state.error = reason.map(|reason| (reason.to_owned(), "unreadable".to_owned()));
    state.is_partial = reason.is_some();
}

fn driven(gpu: &Driven, at: Duration) -> DeviceState {
    let mut block = Block::default();
    for (metric, margin) in [
        (&collectors::gpu::metrics::TEMPERATURE_MARGIN, gpu.margin),
        (
            &collectors::gpu::metrics::TEMPERATURE_SLOWDOWN_MARGIN,
            gpu.slowdown_margin,
        ),
    ] {
        if let Some(margin) = margin {
            block.f64(metric, &[&gpu.label], margin.into());
        }
    }
    for (metric, labels, value) in &gpu.series {
        let labels: Vec<&str> = std::iter::once(gpu.label.as_str())
            .chain(labels.iter().copied())
            .collect();
        block.u64(metric, &labels, *value);
    }
    let mut state = device(
        Subject::gpu(gpu.label.as_str()),
        &block,
        gpu.read_at.unwrap_or(at),
    );
    state.took = gpu.took;
    fail(&mut state, gpu.error);
    state.late = gpu.late.map(|(state, wchan, since)| Late {
        since,
        heard: gpu.heard.unwrap_or(at),
        task: Some(Task {
            tid: 7,
            state,
            wchan: wchan.to_owned(),
            call: gpu.call.to_owned(),
            ..Task::default()
        }),
    });
    state
}

/// A Slurm job of the next snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) number: &'static str,
    /// Why its devices are unknown, or empty.
    pub(super) reason: &'static str,
    /// `nvidia0`.
    pub(super) devices: Vec<&'static str>,
    /// Its reading has failed.
    pub(super) broken: bool,
    /// User, array and start time, if known.
    pub(super) info: Option<(&'static str, &'static str, i64)>,
    /// Distinguishes its runs.
    pub(super) inode: u64,
    /// The uid of the pod that its slurmd runs in, or empty.
    pub(super) pod: &'static str,
}

fn job(job: &Job, at: Duration) -> DeviceState {
    let mut block = Block::default();
    let folder = format!("job_{}", job.number);
    block.info(&JOB_FOLDER, &[job.number, &folder, job.pod]);
    block.info(&JOB_DEVICES, &[job.number, job.reason]);
    for name in &job.devices {
        block.info(&JOB_DEVICE, &[job.number, name]);
    }
    if let Some((user, array, start)) = job.info {
        block.info(&JOB_INFO, &[job.number, user, "", "", array, "", ""]);
        block.u64(&JOB_START, &[job.number], u64::try_from(start).unwrap());
    }
    let name = format!("{folder}:{}", job.inode);
    let mut state = device(Subject::new(SubjectKind::Job, name), &block, at);
    state.error = job.broken.then(|| ("io".to_owned(), "cannot be read".to_owned()));
    state
}

/// A job of the collector `tasks`: its id, and the labels of each blocked thread after the id.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    pub(super) job: &'static str,
    pub(super) threads: Vec<[String; 9]>,
}

fn tasks(tasks: &Tasks, at: Duration) -> DeviceState {
    let mut block = Block::default();
    let many = u64::try_from(tasks.threads.len()).unwrap();
    block.u64(&BLOCKED, &[tasks.job], many);
    for thread in &tasks.threads {
        let labels: Vec<&str> = std::iter::once(tasks.job)
            .chain(thread.iter().map(String::as_str))
            .collect();
        block.info(&THREAD, &labels);
    }
    device(Subject::new(SubjectKind::Job, tasks.job), &block, at)
}

/// A series of the collector `lustre`: metric, labels, value.
pub(super) type LustreSeries = (&'static Metric, Vec<&'static str>, u64);

fn lustre(series: &[LustreSeries], number: u32, at: Duration) -> DeviceState {
    let mut block = Block::default();
    for (metric, labels, value) in series {
        block.u64(metric, labels, *value);
    }
    let subject = Subject::new(SubjectKind::Filesystem, format!("device {number}"));
    device(subject, &block, at)
}

/// Simulates the rdma collector.
static RDMA: Spec = Spec {
    name: "ports of a test",
    domain: &collectors::domain::RDMA,
    metrics: &[],
    events: &[],
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(15)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: &[],
    open: |_, _| Ok(None),
};

/// The machine of the next snapshot. `None`: unreadable.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) memory: Option<u64>,
    pub(super) cpus: Option<u64>,
    /// With commas between them.
    pub(super) modules: Option<&'static str>,
    /// Mount point and filesystem type.
    pub(super) mounts: Vec<(&'static str, &'static str)>,
    /// The mount table was read to its end.
    pub(super) whole: bool,
}

fn machine(machine: &Machine, at: Duration) -> DeviceState {
    let mut block = Block::default();
    block.maybe_u64(&MEMORY_TOTAL, &[], machine.memory);
    block.maybe_u64(&CPUS_ONLINE, &[], machine.cpus);
    if let Some(modules) = machine.modules {
        block.info(&MODULES_INFO, &[modules]);
    }
    let count = u64::try_from(machine.mounts.len()).unwrap();
    block.maybe_u64(&MOUNTS, &[], machine.whole.then_some(count));
    for (point, kind) in &machine.mounts {
        block.info(&MOUNT_INFO, &[point, kind, "/"]);
    }
    device(Subject::new(SubjectKind::Node, "system"), &block, at)
}

/// In place of a driver: a GPU of AMD that none has.
pub(super) const AMD_UNBOUND: &str = "none, amd";

/// The node of the next snapshot.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// Address, driver, whether it responds.
    pub(super) gpus: Vec<(String, &'static str, Option<bool>)>,
    pub(super) readable: bool,
    /// All functions of the bus are known: no file of one is unreadable, and /sys is there.
    pub(super) listed: bool,
    pub(super) edac: Option<u64>,
    pub(super) kernel_log: bool,
    pub(super) ports: Vec<Port>,
    pub(super) links: Vec<Link>,
    /// Network functions: address, driver, whether an RDMA device is registered.
    pub(super) networks: Vec<(String, &'static str, Option<bool>)>,
    pub(super) driven: Vec<Driven>,
    /// The state of the driver's collector.
    pub(super) driver: Presence,
    /// The state of the collector of jobs.
    pub(super) slurm: Presence,
    /// The state of the collector of Ethernet ports.
    pub(super) ethernet: Presence,
    /// A collector that the site has switched off.
    pub(super) off: Option<&'static str>,
    /// The worker that cannot be started, because 2 earlier processes have not ended.
    pub(super) stuck: Option<&'static str>,
    /// When the worker of the ports was stopped, as time since boot.
    pub(super) stopped: Option<Duration>,
    pub(super) jobs: Vec<Job>,
    pub(super) tasks: Vec<Tasks>,
    /// Devices of other collectors, by the collector's name: their series, or the word of their error.
    pub(super) others: Vec<(&'static str, Subject, Result<Block, &'static str>)>,
    /// When they were read, if not for this snapshot.
    pub(super) others_at: Option<Duration>,
    pub(super) machine: Machine,
    /// Devices of the collector `lustre`: metric, labels, value.
    pub(super) lustre: Vec<Vec<LustreSeries>>,
    /// The site's commands.
    pub(super) commands: Vec<CommandState>,
}

pub(super) fn snapshot(host: &Host, at: Duration) -> Snapshot {
    let mut snapshot = Snapshot::empty(at);
    snapshot.commands = host.commands.clone().into();
    for collector in snapshot.collectors_mut() {
        collector.presence = Presence::Open;
        match collector.spec.name {
            "kernel_log" => {
                collector.watcher = Some(if host.kernel_log {
                    Ok(())
                } else {
                    Err(("denied".to_owned(), "no CAP_SYSLOG".to_owned()))
                });
            }
            "ethernet" => collector.presence = host.ethernet.clone(),
            "nvidia" => {
                collector.presence = host.driver.clone();
                collector
                    .devices
                    .extend(host.driven.iter().map(|g| driven(g, at)));
            }
            "slurm" => {
                collector.presence = host.slurm.clone();
                collector.devices.extend(host.jobs.iter().map(|j| job(j, at)));
            }
            "lustre" => {
                let devices = host
                    .lustre
                    .iter()
                    .zip(0..)
                    .map(|(series, n)| lustre(series, n, at));
                collector.devices.extend(devices);
            }
            "tasks" => collector.devices.extend(host.tasks.iter().map(|t| tasks(t, at))),
            "host" => {
                collector.devices.push(bus(host, at));
                collector.devices.push(machine(&host.machine, at));
                if let Some(count) = host.edac {
                    let mut block = Block::default();
                    block.u64(&EDAC_UNCORRECTED, &["mc0"], count);
                    let subject = Subject::new(SubjectKind::MemoryController, "mc0");
                    collector.devices.push(device(subject, &block, at));
                }
            }
            _ => {}
        }
        let others = host
            .others
            .iter()
            .filter(|(name, ..)| *name == collector.spec.name);
        collector.devices.extend(others.map(|(_, subject, read)| {
            let none = Block::default();
            let mut device = device(
                subject.clone(),
                read.as_ref().unwrap_or(&none),
                host.others_at.unwrap_or(at),
            );
            fail(&mut device, read.as_ref().err().copied());
            device
        }));
    }
    for worker in snapshot
        .workers
        .iter_mut()
        .filter(|w| host.stuck == Some(w.domain))
    {
        (worker.down, worker.stuck_slots) = (Some("stuck"), 2);
    }
    for collector in snapshot.collectors_mut() {
        if host.stuck == Some(collector.spec.domain.name) {
            (collector.presence, collector.devices) = (Presence::Unknown, Vec::new());
        }
        if host.off == Some(collector.spec.name) {
            (collector.presence, collector.devices) = (Presence::NotHere, Vec::new());
        }
    }
    snapshot.collectors.push(Arc::new(CollectorState {
        spec: &RDMA,
        presence: Presence::Open,
        watcher: None,
        devices: {
            let read_at = host.stopped.unwrap_or(at);
            host.ports.iter().map(|p| port(p, read_at)).collect()
        },
        late: Vec::new(),
    }));
    snapshot
}

fn port(port: &Port, at: Duration) -> DeviceState {
    let mut block = Block::default();
    let labels = [port.device.as_str(), port.number];
    let info = [
        labels[0],
        labels[1],
        port.layer,
        port.netdev,
        &port.pci,
        "0",
        port.driver,
        port.function,
    ];
    block.info(&PORT_INFO, &info);
    block.maybe_u64(&PORT_STATE, &labels, port.state);
    block.maybe_u64(&PORT_PHYSICAL_STATE, &labels, port.physical);
    // A port that is down shows the lowest possible rate.
    if let Some(rate) = port.rate {
        let rate = if port.state == Some(4) { rate } else { 312.5e6 };
        block.f64(&PORT_RATE, &labels, rate);
    }
    block.info(
        &DEVICE_INFO,
        &[&port.device, port.board, port.firmware, "MT4129", ""],
    );
    for (metric, more, value) in &port.series {
        // Counters of a whole device have no port.
        let of = if metric.labels.contains(&"port") { 2 } else { 1 };
        let mut labels: Vec<&str> = labels.iter().take(of).chain(more).copied().collect();
        // A test names the interface only where a port has several.
        if metric.labels.last() == Some(&"netdev") && labels.len() < metric.labels.len() {
            labels.push(port.netdev);
        }
        // Counters are whole numbers.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test's own"
        )]
        let value = if metric.unit != Unit::Seconds && (metric.kind == Kind::Counter || value.fract() == 0.0)
        {
            Value::U64(*value as u64)
        } else {
            Value::F64(*value)
        };
        block.push(metric, &labels, value);
    }
    block.maybe_u64(&LINK_DOWNED, &labels, port.link_downed);
    block.maybe_u64(&CARRIER_DOWN, &labels, port.carrier_down);
    let name = format!("{}/{}", port.device, port.number);
    let mut device = device(Subject::new(SubjectKind::RdmaPort, name), &block, at);
    device.late = port.late.then_some(Late {
        since: port.late_since.unwrap_or(at),
        heard: at,
        task: port.task.clone(),
    });
    fail(&mut device, port.error);
    device
}

fn links(block: &mut Block, links: &[Link]) {
    for link in links {
        let pci = [link.pci.as_str()];
        block.info(
            &PCI_DEVICE_INFO,
            &[pci[0], link.function, "driver", "0000:0f:01.0"],
        );
        block.maybe_u64(&PCI_LINK_WIDTH, &pci, link.width);
        block.u64(&PCI_LINK_WIDTH_MAX, &pci, link.width_max);
        block.push(
            &PCI_LINK_SPEED,
            &pci,
            link.speed.map_or(Value::Absent, Value::F64),
        );
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test's own"
        )]
        block.u64(&PCI_LINK_SPEED_MAX, &pci, link.speed_max as u64);
    }
}

fn bus(host: &Host, at: Duration) -> DeviceState {
    let mut block = Block::default();
    let count = u64::try_from(host.gpus.len()).unwrap();
    block.maybe_u64(&PCI_GPUS, &["nvidia"], host.listed.then_some(count));
    block.maybe_u64(&PCI_GPUS, &["amd"], host.listed.then_some(0));
    for (address, driver, responding) in &host.gpus {
        let (vendor, id, device) = match *driver {
            "amdgpu" | AMD_UNBOUND => ("amd", "0x1002", "0x74a1"),
            _ => ("nvidia", "0x10de", "0x2330"),
        };
        let driver = if *driver == AMD_UNBOUND { "" } else { driver };
        let labels = [address, vendor, id, device, "0x030200", "physical", driver, "0"];
        block.info(&PCI_GPU_INFO, &labels);
        let value = responding.map_or(Value::Absent, |r| Value::U64(u64::from(r)));
        block.push(&PCI_FUNCTION_RESPONDING, &[address], value);
    }
    links(&mut block, &host.links);
    for (address, driver, registered) in &host.networks {
        block.info(&PCI_NETWORK_INFO, &[address, driver]);
        block.maybe_u64(&PCI_RDMA_REGISTERED, &[address], registered.map(u64::from));
    }
    let mut device = device(Subject::new(SubjectKind::Pci, "bus"), &block, at);
    if !host.readable {
        device.error = Some(("io".to_owned(), "cannot be listed".to_owned()));
    }
    device
}

fn device(subject: Subject, block: &Block, at: Duration) -> DeviceState {
    DeviceState {
        subject,
        layout: Arc::new(Prepared::new(block.layout().to_vec())),
        values: Arc::new(block.values().to_vec()),
        refused: block.refused(),
        at,
        took: Duration::from_millis(1),
        error: None,
        is_partial: false,
        late: None,
    }
}
