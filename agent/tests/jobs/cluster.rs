//! Nodes of a real Slurm with a daemon on each, and a comparison of what the two report about the same jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use testkit::exposition::Sample;
use testkit::nvml::FakeNvml;
use testkit::slurm::{Cgroups, Slurm, SlurmOptions};
use testkit::wait::{self, PATIENCE};

use crate::common::Node;

/// How long Slurm may take to end jobs: it kills what ignores its signal after 30 s, and asks again after minutes.
pub const ENDS: Duration = Duration::from_secs(300);

/// GPUs of a node.
pub const GPUS: usize = 8;

/// The major number of `nvidia-caps`, which the kernel chooses at each boot.
pub const CAPS: u64 = 237;

/// GPUs of jobs: node, GPU label, job.
pub type Owned = BTreeSet<(String, String, u32)>;

pub struct Cluster {
    pub nodes: BTreeMap<String, Node>,
    pub slurm: Slurm,
    drivers: Vec<FakeNvml>,
    /// The user who starts the daemons, if not root.
    pub user: Option<u32>,
    /// Capabilities of the two instances of the driver's first GPU (`/proc/driver/nvidia-caps/mig-minors`).
    pub capabilities: Option<String>,
    /// The minors of gres.conf's devices, in the file's order, by node.
    pub orders: BTreeMap<String, [usize; GPUS]>,
    /// The daemons can read gres.conf and its devices.
    pub has_gres_conf: bool,
    /// The parts of their GPU that jobs have, if not 1.
    pub parts: BTreeMap<u32, u32>,
}

impl Drop for Cluster {
    /// Daemons before Slurm, so that they do not see it end; in parallel, because each may take seconds.
    fn drop(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        std::thread::scope(|scope| {
            for node in nodes.into_values() {
                scope.spawn(move || drop(node));
            }
        });
    }
}

/// The driver's order of GPUs differs from the minor numbers of their device files.
fn minor(index: usize) -> usize {
    (index * 3 + 2) % GPUS
}

/// The label of the GPU of a device file.
pub fn label(minor_of: usize) -> String {
    let index = (0..GPUS).find(|i| minor(*i) == minor_of).unwrap();
    format!("GPU-00000000-0000-4000-8000-00000000010{index}")
}

/// Eight GPUs on which the given processes compute: device minor and pid.
fn scenario(processes: &[(usize, u32)]) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100/nvml.toml");
    let text = fs::read_to_string(file).unwrap();
    let mut gpus = 0;
    let line = |line: &str| {
        if line.starts_with("minor = ") {
            gpus += 1;
            let own = minor(gpus - 1);
            let of: Vec<String> = processes
                .iter()
                .filter(|(minor, _)| *minor == own)
                .map(|(_, pid)| format!("{{ pid = {pid}, memory = 1048576, name = \"sleep\", sm = 1, mem = 1, enc = 0, dec = 0, jpg = 0, ofa = 0 }}"))
                .collect();
            return format!("minor = {own}\nprocesses = [{}]\n", of.join(", "));
        }
        if line.starts_with("processes = ") {
            return String::new();
        }
        format!("{line}\n")
    };
    let text: String = text.lines().map(line).collect();
    assert_eq!(gpus, GPUS);
    text
}

/// Unique node names among all clusters of this machine.
fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "job{}x{}n",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A cluster of `nodes` nodes with eight GPUs each; the caller may add slurmd options.
pub fn options(nodes: usize) -> SlurmOptions {
    SlurmOptions {
        nodes,
        gpus: GPUS,
        node_prefix: prefix(),
        cpus: Some(16),
        cgroups: Some(Cgroups::default()),
        ..SlurmOptions::default()
    }
}

impl Cluster {
    /// Nodes whose daemons serve and see all GPUs.
    pub fn new(nodes: usize) -> Self {
        let mut cluster = Self::of(options(nodes), std::array::from_fn(|i| i));
        cluster.watch(&[]);
        cluster
    }

    /// Nodes without daemons. `order`: the minors of gres.conf's devices.
    pub fn of(options: SlurmOptions, order: [usize; GPUS]) -> Self {
        let slurm = Slurm::start(options).unwrap();
        let opened = slurm.dir().join("opened");
        fs::create_dir(&opened).unwrap();
        // Jobs run as other users.
        fs::set_permissions(&opened, fs::Permissions::from_mode(0o777)).unwrap();
        let orders = slurm.node_names().into_iter().map(|name| (name, order));
        Self {
            orders: orders.collect(),
            nodes: BTreeMap::new(),
            slurm,
            drivers: Vec::new(),
            user: None,
            capabilities: None,
            has_gres_conf: false,
            parts: BTreeMap::new(),
        }
    }

    /// The name of a node.
    pub fn name(&self, node: usize) -> String {
        self.slurm.node_names()[node].clone()
    }

    /// Starts a daemon on each node, and waits until it sees all GPUs.
    pub fn watch(&mut self, processes: &[(usize, u32)]) {
        for (i, name) in self.slurm.node_names().into_iter().enumerate() {
            let mut node = Node::new();
            let root = node.path("root");
            // Slurm's and the kernel's files are real; the GPUs on the bus and the kernel log are not.
            let real = |link: &str, to: &str| {
                let link = root.join(link);
                fs::remove_dir_all(&link).ok();
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(to, link).unwrap();
            };
            real("sys/fs/cgroup", "/sys/fs/cgroup");
            if let Some(capabilities) = &self.capabilities {
                let caps = root.join("proc/driver/nvidia-caps");
                fs::create_dir_all(&caps).unwrap();
                fs::write(caps.join("mig-minors"), capabilities).unwrap();
                let devices = format!("Character devices:\n195 nvidia\n{CAPS} nvidia-caps\n");
                fs::write(root.join("proc/devices"), devices).unwrap();
            } else {
                real("proc", "/proc");
            }
            if self.has_gres_conf {
                let dir = self.slurm.dir();
                real(
                    dir.strip_prefix("/").unwrap().to_str().unwrap(),
                    dir.to_str().unwrap(),
                );
            }
            let dir = node.path("driver");
            fs::create_dir(&dir).unwrap();
            let driver = FakeNvml::install_text(&dir, &scenario(processes)).unwrap();
            if self.capabilities.is_some() {
                driver.mig(0, "halves").unwrap();
            }
            node.set(&format!("nvidia.library={:?}", driver.library()));
            node.set(&format!("slurm.conf={:?}", self.slurm.conf()));
            node.set(r#"slurm.jobs.labels=["user", "account", "partition"]"#);
            node.set(&format!("slurm.node_name={name:?}"));
            if i == 0 {
                node.set(&format!("slurm.jobs.node={name:?}"));
            }
            node.user = self.user;
            node.start();
            node.until("all GPUs are up", |n| {
                let page = n.try_metrics().unwrap_or_default();
                page.iter()
                    .filter(|s| s.name == "gpu_up" && s.value == 1.0)
                    .count()
                    == GPUS
            });
            self.drivers.push(driver);
            self.nodes.insert(name, node);
        }
    }

    /// A page of each node.
    pub fn pages(&self) -> BTreeMap<String, Vec<Sample>> {
        self.nodes
            .iter()
            .map(|(name, node)| (name.clone(), node.metrics()))
            .collect()
    }

    /// A job's script: records which GPUs it may open on its node, then sleeps.
    pub fn script(&self) -> String {
        let (dir, opened) = (self.slurm.dir().join("dev"), self.slurm.dir().join("opened"));
        let (dir, opened) = (dir.display(), opened.display());
        // Without a driver, an allowed open fails with ENXIO.
        format!(
            "file={opened}/$SLURM_JOB_ID.$SLURMD_NODENAME; for i in 0 1 2 3 4 5 6 7; do \
             (: <{dir}/nvidia$i) 2>&1 | grep -q 'not permitted' || echo $i; done >$file.new; \
             mv $file.new $file; exec sleep 1000"
        )
    }

    /// The GPUs of jobs according to the controller: positions in gres.conf, and so device files.
    pub fn given(&self, jobs: &[u32]) -> Owned {
        let mut owned = Owned::new();
        for job in jobs {
            for (node, positions) in self.slurm.job_gpus(*job).unwrap() {
                let order = self.orders[&node];
                for position in positions {
                    owned.insert((node.clone(), label(order[position]), *job));
                }
            }
        }
        owned
    }

    /// The GPUs that a job could open on a node, once its script has recorded them.
    pub fn opened(&self, node: &str, job: u32) -> Owned {
        let file = self.slurm.dir().join(format!("opened/{job}.{node}"));
        let text = wait::until(&format!("{}", file.display()), PATIENCE, || {
            Ok(fs::read_to_string(&file).ok())
        });
        let minors = text.unwrap();
        let owned = minors
            .lines()
            .map(|minor| (node.to_owned(), label(minor.parse().unwrap()), job));
        owned.collect()
    }

    /// Waits until the daemons report the same GPUs and shares of these jobs as the controller, on each node. Until
    /// then they may report fewer, never others.
    pub fn agree(&self, jobs: &[u32]) -> Owned {
        self.agree_by(jobs, "device_program")
    }

    /// The same for other evidence.
    pub fn agree_by(&self, jobs: &[u32], by: &str) -> Owned {
        let given = self.given(jobs);
        let shares = shares(&given, &self.parts);
        let mut last = BTreeMap::new();
        let agreed = wait::until("the daemons agree with the controller", PATIENCE, || {
            last = owners(&self.pages());
            // A job has its rules with its first step; until then a hook's record says what it has.
            for (owned, (evidence, _)) in &last {
                assert!(given.contains(owned), "{owned:?} is not in\n{given:#?}");
                assert!(evidence == by || evidence == "hook", "{owned:?}: {evidence}");
            }
            let is_by = last.values().all(|(evidence, _)| evidence == by);
            let shown = last.iter().map(|(owned, (_, share))| (owned.clone(), *share));
            Ok((is_by && shown.collect::<BTreeMap<_, _>>() == shares).then_some(()))
        });
        if let Err(error) = agreed {
            panic!("{error:#}\nfound {last:#?}\nexpected {shares:#?}");
        }
        given
    }

    /// Waits until each node shows these jobs with that reason for their devices.
    pub fn wait_reasons(&self, reason: &str, jobs: &BTreeSet<(String, u32)>) {
        let mut last = BTreeSet::new();
        let shown = wait::until("the jobs are shown", PATIENCE, || {
            let pages = self.pages();
            last = series(&pages, "slurm_job_devices_info")
                .filter(|(_, s)| s.label("reason") == Some(reason))
                .map(|(node, s)| (node.clone(), job(s)))
                .collect();
            Ok((last == *jobs).then_some(()))
        });
        if let Err(error) = shown {
            panic!("{error:#}\nfound {last:#?}\nexpected {jobs:#?}");
        }
    }

    /// Node and number of each job on each of its nodes.
    pub fn places(&self, jobs: &[u32]) -> BTreeSet<(String, u32)> {
        let each = jobs.iter().flat_map(|job| {
            let nodes = self.slurm.job_gpus(*job).unwrap().into_keys();
            nodes.map(|node| (node, *job))
        });
        each.collect()
    }
}

/// The share of each job in its GPU, of which it has these parts.
pub fn shares(owned: &Owned, parts: &BTreeMap<u32, u32>) -> BTreeMap<(String, String, u32), f64> {
    let of = |job: u32| f64::from(parts.get(&job).copied().unwrap_or(1));
    let all = |node: &String, gpu: &String| -> f64 {
        let on = owned.iter().filter(|(n, g, _)| n == node && g == gpu);
        on.map(|(.., job)| of(*job)).sum()
    };
    owned
        .iter()
        .map(|o| (o.clone(), of(o.2) / all(&o.0, &o.1)))
        .collect()
}

/// The number of a job's series.
pub fn job(sample: &Sample) -> u32 {
    sample.label("jobid").unwrap().parse().unwrap()
}

/// The series of a family on all nodes.
pub fn series<'a>(
    pages: &'a BTreeMap<String, Vec<Sample>>,
    name: &'a str,
) -> impl Iterator<Item = (&'a String, &'a Sample)> {
    pages.iter().flat_map(move |(node, page)| {
        page.iter()
            .filter(move |s| s.name == name)
            .map(move |s| (node, s))
    })
}

/// The owners that pages show, with evidence and share.
pub fn owners(pages: &BTreeMap<String, Vec<Sample>>) -> BTreeMap<(String, String, u32), (String, f64)> {
    series(pages, "slurm_job_gpu_share_ratio")
        .map(|(node, s)| {
            assert_eq!(s.label("gpu_instance"), Some(""));
            let gpu = s.label("gpu").unwrap().to_owned();
            let evidence = s.label("evidence").unwrap().to_owned();
            ((node.clone(), gpu, job(s)), (evidence, s.value))
        })
        .collect()
}
