use proptest::prelude::*;

use super::*;

/// What slurmstepd writes (`add_device_ebpf_prog`): a test for each field that is no wildcard.
fn write(rules: &[Rule], default: bool) -> Vec<Instruction> {
    let mut program = HEADER.to_vec();
    for Rule { device, allow } in rules {
        let fields = [(2, device.kind), (4, device.major), (5, device.minor)];
        let set: Vec<(u8, i32)> = fields.into_iter().filter_map(|(r, f)| Some((r, f?))).collect();
        for (at, (register, value)) in set.iter().enumerate() {
            let behind = i16::try_from(set.len() - at + 1).unwrap();
            program.push(instruction(UNLESS, *register, behind, *value));
        }
        program.extend([
            instruction(MOVE, 0, 0, i32::from(*allow)),
            instruction(EXIT, 0, 0, 0),
        ]);
    }
    program.extend([
        instruction(MOVE, 0, 0, i32::from(default)),
        instruction(EXIT, 0, 0, 0),
    ]);
    program
}

/// What the kernel does with a program, instruction by instruction.
fn run(program: &[Instruction], kind: i32, major: i32, minor: i32) -> bool {
    let mut registers = [0_i64; 16];
    let mut at = 0;
    loop {
        let now = program[at];
        at += 1;
        let to = usize::from(now.registers & 15);
        match now.code {
            LOAD => {
                registers[to] = i64::from(match now.offset {
                    0 => kind | 6 << 16,
                    4 => major,
                    _ => minor,
                });
            }
            AND => registers[to] &= i64::from(now.immediate),
            SHIFT => registers[to] >>= now.immediate,
            UNLESS if registers[to] != i64::from(now.immediate) => at += usize::try_from(now.offset).unwrap(),
            UNLESS => {}
            MOVE => registers[to] = i64::from(now.immediate),
            EXIT => return registers[0] != 0,
            other => panic!("{other:#x}"),
        }
    }
}

fn gpu(minor: i32, allow: bool) -> Rule {
    let device = DeviceMatch {
        kind: Some(CHARACTER),
        major: Some(195),
        minor: Some(minor),
    };
    Rule { device, allow }
}

fn bytes(program: &[Instruction]) -> Vec<u8> {
    let each = |i: &Instruction| {
        let mut all = vec![i.code, i.registers];
        all.extend(i.offset.to_ne_bytes());
        all.extend(i.immediate.to_ne_bytes());
        all
    };
    program.iter().flat_map(each).collect()
}

/// The program of a job, as the kernel gives it: GPUs by minor, and whether the job has each.
pub(in crate::slurm) fn gpu_program(gpus: &[(i32, bool)]) -> Vec<u8> {
    with_caps(gpus, 0, &[])
}

/// With capabilities of instances beside them.
pub(in crate::slurm) fn with_caps(gpus: &[(i32, bool)], major: i32, caps: &[(i32, bool)]) -> Vec<u8> {
    let gpus = gpus.iter().map(|(minor, allow)| gpu(*minor, *allow));
    let caps = caps.iter().map(|(minor, allow)| {
        let mut rule = gpu(*minor, *allow);
        rule.device.major = Some(major);
        rule
    });
    bytes(&write(&gpus.chain(caps).collect::<Vec<_>>(), true))
}

/// Eight GPUs take 48 instructions, as bpftool shows them for Slurm 22.05.
#[test]
fn a_job_with_two_of_eight_gpus_owns_those() {
    let rules: Vec<Rule> = (0..8).map(|minor| gpu(minor, minor < 2)).collect();
    let program = write(&rules, true);
    assert_eq!(program.len(), 48);
    let read = Instruction::all(&bytes(&program)).unwrap();
    assert_eq!(read, program);
    let parsed = parse(&read).unwrap();
    assert_eq!(parsed.owned(195), Some(vec![0, 1]));
    assert_eq!(parsed.owned(237), Some(vec![]));
}

#[test]
fn a_job_without_gpus_owns_none_and_what_is_not_named_is_nobodys() {
    let rules: Vec<Rule> = (0..8).map(|minor| gpu(minor, false)).collect();
    let parsed = parse(&write(&rules, true)).unwrap();
    assert_eq!(parsed.owned(195), Some(vec![]));
    assert!(parsed.allows(195, 255), "nvidiactl falls to the default");
}

/// The same device twice: two instances on one GPU.
#[test]
fn the_first_rule_decides() {
    let parsed = parse(&write(
        &[gpu(0, true), gpu(0, false), gpu(1, false), gpu(1, true)],
        true,
    ))
    .unwrap();
    assert_eq!(parsed.owned(195), Some(vec![0]));
}

#[test]
fn a_rule_about_many_devices_names_no_owner() {
    for wide in [
        DeviceMatch {
            minor: None,
            ..gpu(0, true).device
        },
        DeviceMatch {
            kind: None,
            ..gpu(0, true).device
        },
    ] {
        let rules = [Rule {
            device: wide,
            allow: true,
        }];
        assert_eq!(parse(&write(&rules, true)).unwrap().owned(195), None, "{wide:?}");
    }
}

#[test]
fn what_is_not_slurms_is_unknown() {
    let good = write(&[gpu(0, true), gpu(1, false)], true);
    assert!(parse(&good).is_some());
    let changed = |at: usize, change: fn(&mut Instruction)| {
        let mut program = good.clone();
        change(&mut program[at]);
        parse(&program)
    };
    // Header, register, jump, verdict, exit.
    assert_eq!(changed(1, |i| i.immediate = 0xff), None);
    assert_eq!(changed(6, |i| i.registers = 3), None);
    assert_eq!(changed(7, |i| i.registers = 2), None, "a field twice");
    assert_eq!(changed(6, |i| i.offset += 1), None);
    assert_eq!(changed(6, |i| i.offset = -1), None);
    assert_eq!(changed(9, |i| i.immediate = 2), None);
    assert_eq!(changed(10, |i| i.code = MOVE), None);
    assert_eq!(parse(&good[..good.len() - 1]), None);
    assert_eq!(
        parse(&[good.clone(), vec![instruction(EXIT, 0, 0, 0)]].concat()),
        None
    );
    assert_eq!(parse(&[]), None);
    assert_eq!(Instruction::all(&[0; 7]), None);
    // What systemd attaches to a unit: nothing is allowed that is not named, and kinds of access are looked at.
    let systemd = [
        instruction(LOAD, 0x12, 0, 0),
        instruction(MOVE, 0, 0, 0),
        instruction(EXIT, 0, 0, 0),
    ];
    assert_eq!(parse(&systemd), None);
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let field = |least: i32, most: i32| prop::option::weighted(0.8, least..=most);
    (field(1, 2), field(194, 196), field(0, 3), any::<bool>()).prop_map(|(kind, major, minor, allow)| Rule {
        device: DeviceMatch { kind, major, minor },
        allow,
    })
}

proptest! {
    /// Rules without any test end the program, so there are none but the default.
    #[test]
    fn what_slurm_writes_is_read_back_and_decides_as_the_kernel_does(
        rules in prop::collection::vec(any_rule().prop_filter("a test", |r| r.device != DeviceMatch::default()), 0..12),
        default: bool,
    ) {
        let program = write(&rules, default);
        let parsed = parse(&program).unwrap();
        prop_assert_eq!(&parsed, &Rules { rules, default });
        for major in 194..=196 {
            for minor in 0..=3 {
                prop_assert_eq!(parsed.allows(major, minor), run(&program, CHARACTER, major, minor));
            }
            if let Some(owned) = parsed.owned(major) {
                for minor in owned {
                    prop_assert!(parsed.allows(major, minor.cast_signed()));
                }
            }
        }
    }

    /// One byte that is not as Slurm writes it makes another program, which is refused or decides as it says.
    #[test]
    fn a_changed_program_is_refused_or_decides_as_the_kernel_does(at in 0_usize..176, to: u8) {
        let rules = [gpu(0, true), gpu(1, false), gpu(2, true)];
        let mut changed = bytes(&write(&rules, true));
        prop_assume!(at < changed.len());
        changed[at] = to;
        let program = Instruction::all(&changed).unwrap();
        if let Some(rules) = parse(&program) {
            for minor in 0..=3 {
                prop_assert_eq!(rules.allows(195, minor), run(&program, CHARACTER, 195, minor));
            }
        }
    }

    #[test]
    fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(program) = Instruction::all(&bytes) {
            drop(parse(&program));
        }
    }
}
