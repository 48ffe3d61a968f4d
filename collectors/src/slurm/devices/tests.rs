use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;
use crate::slurm::program::tests::{gpu_program, with_caps};
use crate::sys::bpf::Program;

/// A kernel with one cgroup.
#[derive(Default)]
struct Fake {
    attached: Vec<u32>,
    programs: BTreeMap<u32, Program>,
    /// Errors of the kernel for the query of ids and for the query of a program.
    refuses: (Option<Errno>, Option<Errno>),
    /// Steps that begin while a program is read: each replaces the program being read.
    steps: u32,
    /// How often a program was read.
    read: u32,
}

impl Fake {
    fn with(id: u32, name: &str, code: Option<Vec<u8>>) -> Self {
        let mut fake = Self::default();
        fake.attach(id, name, code);
        fake
    }

    fn attach(&mut self, id: u32, name: &str, code: Option<Vec<u8>>) {
        self.attached = vec![id];
        let name = name.to_owned();
        self.programs.insert(id, Program { name, code });
    }
}

impl Programs for Fake {
    fn attached(&mut self, _: &Path) -> Result<Vec<u32>, Errno> {
        self.refuses.0.map_or_else(|| Ok(self.attached.clone()), Err)
    }

    fn read(&mut self, _: &Path, id: u32) -> Result<Program, Errno> {
        self.read += 1;
        if let Some(errno) = self.refuses.1 {
            return Err(errno);
        }
        if self.steps > 0 {
            self.steps -= 1;
            let Program { name, code } = self.programs.remove(&id).ok_or(Errno::ENOENT)?;
            self.attach(id + 12, &name, code);
        }
        self.programs.get(&id).cloned().ok_or(Errno::ENOENT)
    }
}

/// A node whose driver has GPUs in MIG mode, by its table.
struct Node(tempfile::TempDir);

impl Node {
    fn with(table: &str) -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        node.put(
            "proc/devices",
            "Character devices:\n195 nvidia\n237 nvidia-caps\n",
        );
        node.put("proc/driver/nvidia-caps/mig-minors", table);
        node
    }

    fn put(&self, path: &str, text: &str) {
        let file = testkit::tree::Entry::File(text.as_bytes().to_vec());
        testkit::tree::put(&self.0.path().join(path), &file).unwrap();
    }

    fn read(&self, owned: &mut DeviceList, kernel: &mut Fake) -> Result<Vec<String>, UnknownReason> {
        let env = Env::with_sysroot(self.0.path());
        owned.read(kernel, Path::new("/x"), &env).map(<[String]>::to_vec)
    }
}

/// With the driver's numbers in Slurm's captures.
const TABLE: &str = "config 1\nmonitor 2\ngpu0/gi1/access 21\ngpu0/gi1/ci0/access 22\n\
    gpu0/gi2/access 30\ngpu0/gi2/ci0/access 31\n";

fn read(owned: &mut DeviceList, kernel: &mut Fake) -> Result<Vec<String>, UnknownReason> {
    Node::with(TABLE).read(owned, kernel)
}

fn named(names: &[&str]) -> Result<Vec<String>, UnknownReason> {
    Ok(names.iter().map(|n| (*n).to_owned()).collect())
}

#[test]
fn a_program_is_read_once_and_again_when_a_step_brings_another() {
    let mut kernel = Fake::with(354, program::NAME, Some(gpu_program(&[(0, true), (1, false)])));
    let mut owned = DeviceList::default();
    for _ in 0..5 {
        assert_eq!(read(&mut owned, &mut kernel), named(&["nvidia0"]));
    }
    assert_eq!(kernel.read, 1);
    kernel.attach(366, program::NAME, Some(gpu_program(&[(0, true), (1, true)])));
    assert_eq!(read(&mut owned, &mut kernel), named(&["nvidia0", "nvidia1"]));
    assert_eq!(kernel.read, 2);
}

#[test]
fn a_step_that_begins_while_the_program_is_read_does_not_make_it_unknown() {
    let code = || Some(gpu_program(&[(5, true)]));
    let mut kernel = Fake::with(354, program::NAME, code());
    kernel.steps = 3;
    assert_eq!(read(&mut DeviceList::default(), &mut kernel), named(&["nvidia5"]));
    assert_eq!(kernel.read, 4);
    // Not endlessly, and not with the content of an earlier program.
    let mut owned = DeviceList::default();
    assert_eq!(read(&mut owned, &mut kernel), named(&["nvidia5"]));
    kernel.attach(900, program::NAME, code());
    kernel.steps = 1000;
    assert_eq!(read(&mut owned, &mut kernel), Err(UnknownReason::Failed));
}

/// Of a node with both vendors. The card beside a render node is no GPU of its own.
#[test]
fn render_nodes_are_gpus_and_cards_are_not() {
    let rules = [(1, true), (128, true), (129, false), (135, true)];
    let code = with_caps(&[(0, false), (1, true)], 226, &rules);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    assert_eq!(
        read(&mut DeviceList::default(), &mut kernel),
        named(&["nvidia1", "renderD128", "renderD135"])
    );
    let code = with_caps(&[(0, false), (1, true)], 226, &[(1, true), (128, false)]);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    assert_eq!(
        read(&mut DeviceList::default(), &mut kernel),
        Err(UnknownReason::Foreign),
        "a job with a card alone may have its GPU"
    );
}

/// As Slurm 22.05 writes it for 2 slices on one GPU (MultipleFiles): the GPU is allowed, and the device files of
/// the slices.
#[test]
fn an_instance_is_found_by_the_minors_of_its_capabilities_and_its_gpu_is_not_the_jobs() {
    let rules = [(21, true), (22, true), (30, false), (31, false)];
    let code = with_caps(&[(0, true), (1, true)], 237, &rules);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    assert_eq!(
        read(&mut DeviceList::default(), &mut kernel),
        named(&["nvidia1", "nvidia0/1/0"])
    );
}

#[test]
fn a_capability_that_the_driver_does_not_list_makes_all_unknown() {
    let code = with_caps(&[(0, true)], 237, &[(21, true), (99, true)]);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    assert_eq!(
        read(&mut DeviceList::default(), &mut kernel),
        Err(UnknownReason::Foreign)
    );
}

#[test]
fn whatever_is_in_doubt_is_unknown_with_its_reason() {
    let code = || Some(gpu_program(&[(0, true)]));
    let mut denied = Fake::with(1, program::NAME, code());
    denied.refuses.0 = Some(Errno::EPERM);
    let mut two = Fake::with(1, program::NAME, code());
    two.attached.push(2);
    let mut replaced = Fake::with(1, program::NAME, code());
    replaced.programs.clear();
    let mut changed = gpu_program(&[(0, true)]);
    changed[8] = 0;
    for (mut kernel, reason) in [
        (denied, "denied"),
        (Fake::default(), "none"),
        (Fake::with(1, program::NAME, None), "withheld"),
        (Fake::with(1, "sd_devices", code()), "foreign"),
        (Fake::with(1, program::NAME, Some(changed)), "foreign"),
        (two, "foreign"),
        (replaced, "failed"),
    ] {
        let answer = read(&mut DeviceList::default(), &mut kernel).map_err(UnknownReason::word);
        assert_eq!(answer, Err(reason));
    }
}

/// The capability may return with the next restart, and a program with the next step.
#[test]
fn what_was_unknown_is_asked_for_again() {
    let mut kernel = Fake::default();
    let mut owned = DeviceList::default();
    assert_eq!(read(&mut owned, &mut kernel), Err(UnknownReason::None));
    kernel.attach(7, program::NAME, Some(gpu_program(&[(3, true)])));
    assert_eq!(read(&mut owned, &mut kernel), named(&["nvidia3"]));
}

/// All possible instances of 32 GPUs, as the driver lists them whether they exist or not.
fn full_table() -> (String, BTreeMap<String, u32>) {
    let (mut text, mut minors) = ("config 1\nmonitor 2\n".to_owned(), BTreeMap::new());
    let mut next = 3;
    let mut add = |name: String| {
        writeln!(text, "{name} {next}").unwrap();
        minors.insert(name, next);
        next += 1;
    };
    for gpu in 0..32 {
        for gi in 0..15 {
            add(format!("gpu{gpu}/gi{gi}/access"));
            for ci in 0..8 {
                add(format!("gpu{gpu}/gi{gi}/ci{ci}/access"));
            }
        }
    }
    (text, minors)
}

#[test]
fn the_drivers_whole_table_is_read() {
    let (table, minors) = full_table();
    assert!(table.len() > 64 << 10 && table.lines().count() == 4322);
    let rules = [
        "gpu31/gi14/access",
        "gpu31/gi14/ci7/access",
        "gpu0/gi0/access",
        "gpu0/gi0/ci0/access",
    ];
    let rules = rules.map(|name| (minors[name].cast_signed(), !name.starts_with("gpu0/")));
    let code = with_caps(&[(31, true), (0, false)], 237, &rules);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    let read = Node::with(&table).read(&mut DeviceList::default(), &mut kernel);
    assert_eq!(read, named(&["nvidia31/14/7"]));
}

#[test]
fn a_table_that_cannot_be_read_is_logged_once_and_asked_for_again() {
    let code = with_caps(&[(0, true)], 237, &[(21, true), (22, true)]);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    let node = Node::with(&"gpu0/gi1/access 21\n".repeat(1 << 16));
    let mut owned = DeviceList::default();
    assert_eq!(node.read(&mut owned, &mut kernel), Err(UnknownReason::Failed));
    let logged = owned.logged.clone().unwrap();
    assert!(
        logged.contains("mig-minors: found \"more than 1024 KiB\""),
        "{logged}"
    );
    node.put("proc/driver/nvidia-caps/mig-minors", TABLE);
    assert_eq!(node.read(&mut owned, &mut kernel), named(&["nvidia0/1/0"]));
    // A job without an instance does not need it.
    let node = Node::with(&"gpu0/gi1/access 21\n".repeat(1 << 16));
    let mut kernel = Fake::with(1, program::NAME, Some(gpu_program(&[(0, true)])));
    assert_eq!(
        node.read(&mut DeviceList::default(), &mut kernel),
        named(&["nvidia0"])
    );
}

/// A kernel without BPF for cgroups has no programs; the same error for a program that it attached is another
/// fault.
#[test]
fn what_the_kernel_says_of_a_program_is_no_sign_that_there_is_none() {
    let kernel = |refuses| Fake {
        refuses,
        ..Fake::with(1, program::NAME, Some(gpu_program(&[(0, true)])))
    };
    for (refuses, reason, logged) in [
        ((Some(Errno::EINVAL), None), "none", None),
        (
            (Some(Errno::EBADF), None),
            "failed",
            Some("/x: BPF_PROG_QUERY: EBADF"),
        ),
        ((None, Some(Errno::EPERM)), "denied", None),
        (
            (None, Some(Errno::EINVAL)),
            "failed",
            Some("BPF_OBJ_GET_INFO_BY_FD: EINVAL"),
        ),
        // Its cgroup was just removed.
        ((Some(Errno::ENOENT), None), "failed", None),
    ] {
        let mut owned = DeviceList::default();
        let answer = read(&mut owned, &mut kernel(refuses)).map_err(UnknownReason::word);
        assert_eq!(answer, Err(reason), "{refuses:?}");
        let says = owned.logged.unwrap_or_default();
        assert!(
            logged.map_or(says.is_empty(), |logged| says.contains(logged)),
            "{refuses:?}: {says}"
        );
    }
}
