//! Which job has which AMD GPU, and the line of a job that has ended.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use collectors::{amd, host, slurm};
use model::jobs::{Book, Line};
use testkit::tree::{self, Entry};

use super::{Node, fixture, now};

const GPU: &str = "GPU-5d0e0000aa000001";
const OTHER: &str = "GPU-5d0e0000aa000002";
const SCOPE: &str = "system.slice/slurmstepd.scope";

/// The program that slurmstepd attaches to a job's cgroup: a rule for each render node of the node, little endian as
/// the kernel returns it.
fn program(all: &[u32], own: &[u32]) -> String {
    let word = |number: u32| {
        let bytes = number.to_le_bytes();
        bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
    };
    let (character, drm) = (2, 226);
    // Loads type, major and minor number.
    let mut code = "611200000000000054020000ffff000061130000000000007403000010000000\
                    61140400000000006115080000000000"
        .to_owned();
    for minor in all {
        let allow = u32::from(own.contains(minor));
        let (character, drm, minor, allow) = (word(character), word(drm), word(*minor), word(allow));
        write!(
            code,
            "55020400{character}55040300{drm}55050200{minor}b7000000{allow}9500000000000000"
        )
        .unwrap();
    }
    code + "b7000000010000009500000000000000"
}

fn put(dir: &tempfile::TempDir, path: &str, text: &str) {
    let path = dir.path().join("root").join(path);
    tree::put(&path, &Entry::File(text.as_bytes().to_vec())).unwrap();
}

/// A cgroup of a job. `own`: the minors of its render nodes, if slurmstepd attached rules.
fn job(dir: &tempfile::TempDir, number: u32, all: &[u32], own: Option<&[u32]>) {
    let folder = format!("{SCOPE}/job_{number}");
    for (file, text) in [
        ("cgroup.events", "populated 1\nfrozen 0\n"),
        ("cpu.stat", "usage_usec 2500000\n"),
        ("memory.current", "4096\n"),
        ("memory.peak", "8192\n"),
        ("memory.max", "max\n"),
        ("memory.events", "oom_kill 0\n"),
        ("pids.current", "11\n"),
        ("step_extern/slurm/cgroup.procs", "9836\n"),
    ] {
        put(dir, &format!("sys/fs/cgroup/{folder}/{file}"), text);
    }
    if let Some(own) = own {
        let text = format!("{number} Slurm_Cgroup_v2 {}\n", program(all, own));
        put(dir, &format!("bpf/{folder}"), &text);
    }
}

/// Two MI300X that are not divided.
fn spx() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    tree::unpack(&fixture("mi300x"), dir.path()).unwrap();
    cgroups(dir)
}

/// Eight MI300X in 64 partitions, with the render nodes 128 to 191.
fn cpx() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    testkit::mi300x::divided(&fixture("mi300x-cpx"), &dir.path().join("root"), 8).unwrap();
    cgroups(dir)
}

fn cgroups(dir: tempfile::TempDir) -> tempfile::TempDir {
    put(&dir, "sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    dir
}

fn open(dir: tempfile::TempDir) -> Node {
    Node::with(dir, &[&amd::SPEC, &host::SPEC, &slurm::SPEC])
}

impl Node {
    /// `aa000001/3 job 7 device_program`.
    fn owners(&self) -> Vec<String> {
        let owners = self.last.ownership().owners.iter();
        owners
            .map(|o| {
                let gpu = o.gpu.strip_prefix("GPU-5d0e0000").unwrap();
                let evidence = o.evidence.word();
                format!("{gpu}/{} job {} {evidence}", o.gpu_instance, o.job)
            })
            .collect()
    }

    /// Adds joules to the counter of the table, in units of 2^-16 J.
    fn add_energy(&self, pci: &str, joules: u64) {
        let table = self.path(&format!("sys/bus/pci/devices/{pci}/gpu_metrics"));
        let mut bytes = std::fs::read(&table).unwrap();
        let energy = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        bytes[24..32].copy_from_slice(&(energy + (joules << 16)).to_le_bytes());
        std::fs::write(table, bytes).unwrap();
    }

    fn take(&self, book: &mut Book) -> Vec<Line> {
        #[expect(clippy::cast_precision_loss, reason = "a time in seconds")]
        let wall = now(self.tick).wall as f64;
        book.take(&self.last, &BTreeMap::new(), wall);
        book.closed().iter().map(|line| (**line).clone()).collect()
    }
}

const ALL: [u32; 2] = [128, 136];

#[test]
fn two_jobs_have_the_gpus_that_their_device_programs_name() {
    let dir = spx();
    job(&dir, 77, &ALL, Some(&[128]));
    job(&dir, 78, &ALL, Some(&[136]));
    let mut node = open(dir);
    node.tick();
    assert_eq!(
        node.owners(),
        [
            "aa000001/ job 77 device_program",
            "aa000002/ job 78 device_program"
        ]
    );
    let page = node.page(None);
    for (gpu, job) in [(GPU, 77), (OTHER, 78)] {
        let share = format!(
            "slurm_job_gpu_share_ratio{{gpu=\"{gpu}\",gpu_instance=\"\",jobid=\"{job}\",evidence=\"device_program\"}} 1"
        );
        assert!(page.lines().any(|line| line == share), "{share}\n{page}");
    }
}

/// The process of the recording is in the cgroup of job 77. Job 78 computes nowhere.
#[test]
fn without_rules_the_process_that_kfd_lists_shows_the_job() {
    let dir = spx();
    job(&dir, 77, &ALL, None);
    job(&dir, 78, &ALL, None);
    let mut node = open(dir);
    node.tick();
    assert_eq!(node.owners(), ["aa000001/ job 77 process"]);
}

#[test]
fn the_line_of_an_ended_job_has_the_energy_and_the_busy_time_of_its_gpus() {
    let dir = spx();
    job(&dir, 77, &ALL, Some(&[128]));
    job(&dir, 78, &ALL, Some(&ALL));
    let mut node = open(dir);
    let mut book = Book::default();
    node.tick();
    assert_eq!(node.take(&mut book), []);
    for step in std::fs::read_dir(fixture("mi300x").join("steps")).unwrap() {
        tree::lay_step(&step.unwrap().path(), node.dir.path()).unwrap();
    }
    for pci in ["0000:05:00.0", "0000:26:00.0"] {
        node.add_energy(pci, 3000);
    }
    node.tick();
    assert_eq!(node.take(&mut book), []);
    for number in [77, 78] {
        std::fs::remove_dir_all(node.path(&format!("sys/fs/cgroup/{SCOPE}/job_{number}"))).unwrap();
    }
    node.tick();
    let lines = node.take(&mut book);
    let used: Vec<(&str, Vec<&str>)> = lines
        .iter()
        .map(|line| {
            let gpus = line.gpus.iter().map(|gpu| gpu.gpu.as_str());
            (line.job.as_str(), gpus.collect())
        })
        .collect();
    assert_eq!(used, [("77", vec![GPU]), ("78", vec![GPU, OTHER])]);
    for gpu in lines.iter().flat_map(|line| &line.gpus) {
        // The two jobs share the first GPU.
        let shared = if gpu.gpu == GPU { 0.5 } else { 1.0 };
        let joules = 3000.0 * shared;
        assert!(
            (gpu.energy_joules.unwrap() - joules).abs() < 1.0,
            "{gpu:?}, expected {joules} J"
        );
        assert!(
            gpu.busy_seconds.is_some() && gpu.memory_peak_bytes > Some(0.0),
            "{gpu:?}"
        );
        assert_eq!(gpu.seconds, Some(30.0 * shared));
    }
    assert!(
        lines
            .iter()
            .all(|line| line.evidence.as_deref() == Some("device_program"))
    );
}

#[test]
fn partitions_of_one_gpu_belong_to_two_jobs() {
    let dir = cpx();
    let all: Vec<u32> = (128..192).collect();
    job(&dir, 77, &all, Some(&[128, 129, 130, 131]));
    job(&dir, 78, &all, Some(&[132, 133, 134, 135, 136]));
    let mut node = open(dir);
    node.tick();
    let first = (0..4).map(|part| format!("aa000001/{part} job 77 device_program"));
    let second = (4..8).map(|part| format!("aa000001/{part} job 78 device_program"));
    let next = ["aa000002/0 job 78 device_program".to_owned()];
    let expected: Vec<String> = first.chain(second).chain(next).collect();
    assert_eq!(node.owners(), expected);
    // While the GPU cannot be read, its first partition is not taken for the whole.
    let table = node.path("sys/bus/pci/devices/0000:05:00.0/gpu_metrics");
    std::fs::remove_file(&table).unwrap();
    std::fs::create_dir(&table).unwrap();
    node.tick();
    assert!(node.page(None).contains(&format!("gpu_up{{gpu=\"{GPU}\"}} 0")));
    assert_eq!(node.owners(), expected);
}

#[test]
fn a_job_with_all_gpus_has_every_partition() {
    let dir = cpx();
    let all: Vec<u32> = (128..192).collect();
    job(&dir, 77, &all, Some(&all));
    let mut node = open(dir);
    node.tick();
    let owners = node.owners();
    assert_eq!(owners.len(), 64);
    for gpu in 1..=8 {
        for part in 0..8 {
            let owner = format!("aa00000{gpu}/{part} job 77 device_program");
            assert!(owners.contains(&owner), "{owner}");
        }
    }
}
