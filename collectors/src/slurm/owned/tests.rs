use std::collections::BTreeMap;

use super::*;
use crate::slurm::program::tests::{gpu_program, with_caps};
use crate::sys::bpf::Program;

/// A kernel with one cgroup.
#[derive(Default)]
struct Fake {
    attached: Vec<u32>,
    programs: BTreeMap<u32, Program>,
    denied: bool,
    /// Steps that begin while a program is read: each replaces the one that is being read by the next.
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
        if self.denied {
            return Err(Errno::EPERM);
        }
        Ok(self.attached.clone())
    }

    fn read(&mut self, _: &Path, id: u32) -> Result<Program, Errno> {
        self.read += 1;
        if self.steps > 0 {
            self.steps -= 1;
            let Program { name, code } = self.programs.remove(&id).ok_or(Errno::ENOENT)?;
            self.attach(id + 12, &name, code);
        }
        self.programs.get(&id).cloned().ok_or(Errno::ENOENT)
    }
}

fn caps() -> Caps {
    let lines = [
        "gpu0/gi1/access 21",
        "gpu0/gi1/ci0/access 22",
        "gpu0/gi2/access 30",
        "gpu0/gi2/ci0/access 31",
    ];
    Caps {
        major: 237,
        instances: lines.into_iter().filter_map(instance).collect(),
    }
}

fn read(owned: &mut Owned, kernel: &mut Fake) -> Result<Vec<String>, Unknown> {
    owned
        .read(kernel, Path::new("/x"), || Some(caps()))
        .map(<[String]>::to_vec)
}

fn named(names: &[&str]) -> Result<Vec<String>, Unknown> {
    Ok(names.iter().map(|n| (*n).to_owned()).collect())
}

#[test]
fn a_program_is_read_once_and_again_when_a_step_brings_another() {
    let mut kernel = Fake::with(354, program::NAME, Some(gpu_program(&[(0, true), (1, false)])));
    let mut owned = Owned::default();
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
    assert_eq!(read(&mut Owned::default(), &mut kernel), named(&["nvidia5"]));
    assert_eq!(kernel.read, 4);
    // Not for ever, and not by what an earlier program said.
    let mut owned = Owned::default();
    assert_eq!(read(&mut owned, &mut kernel), named(&["nvidia5"]));
    kernel.attach(900, program::NAME, code());
    kernel.steps = 1000;
    assert_eq!(read(&mut owned, &mut kernel), Err(Unknown::Failed));
}

/// As Slurm 22.05 writes it for two slices on one GPU (MultipleFiles): the GPU is allowed, and what the slices need.
#[test]
fn an_instance_is_told_by_the_minors_of_its_capabilities_and_its_gpu_is_not_the_jobs() {
    let rules = [(21, true), (22, true), (30, false), (31, false)];
    let code = with_caps(&[(0, true), (1, true)], 237, &rules);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    assert_eq!(
        read(&mut Owned::default(), &mut kernel),
        named(&["nvidia1", "nvidia0/1/0"])
    );
}

#[test]
fn a_capability_that_the_driver_does_not_list_makes_all_unknown() {
    let code = with_caps(&[(0, true)], 237, &[(21, true), (99, true)]);
    let mut kernel = Fake::with(1, program::NAME, Some(code));
    assert_eq!(read(&mut Owned::default(), &mut kernel), Err(Unknown::Foreign));
}

#[test]
fn whatever_is_in_doubt_is_unknown_with_its_reason() {
    let code = || Some(gpu_program(&[(0, true)]));
    let mut denied = Fake::with(1, program::NAME, code());
    denied.denied = true;
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
        let answer = read(&mut Owned::default(), &mut kernel).map_err(Unknown::word);
        assert_eq!(answer, Err(reason));
    }
}

/// The right may come back with the next restart, and a program with the next step.
#[test]
fn what_was_unknown_is_asked_for_again() {
    let mut kernel = Fake::default();
    let mut owned = Owned::default();
    assert_eq!(read(&mut owned, &mut kernel), Err(Unknown::None));
    kernel.attach(7, program::NAME, Some(gpu_program(&[(3, true)])));
    assert_eq!(read(&mut owned, &mut kernel), named(&["nvidia3"]));
}
