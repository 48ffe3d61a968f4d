//! The rules of a Slurm device program, as `slurmstepd` wrote them, read back from its instructions.
//!
//! `init_ebpf_prog`, `add_device_ebpf_prog` and `close_ebpf_prog` of src/plugins/cgroup/v2/ebpf.c, the same in
//! 22.05 to 26.05: 6 instructions that take the request apart, then for each device of gres.conf a block of up to 3
//! tests and a verdict, then a default. The first matching rule decides. A program of any other shape is not
//! Slurm's, and unknown.

/// Its name in the kernel.
pub const NAME: &str = "Slurm_Cgroup_v2";

/// One instruction of BPF (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u8,
    /// Its registers: the destination in the low half, the source in the high one.
    pub registers: u8,
    /// The number of instructions to jump, or the offset to read.
    pub offset: i16,
    /// The immediate operand.
    pub immediate: i32,
}

impl Instruction {
    /// The 8 bytes of each, in this machine's byte order. `None`: the last one is incomplete.
    pub fn all(bytes: &[u8]) -> Option<Vec<Self>> {
        let (whole, rest) = bytes.as_chunks::<8>();
        let each = |&[code, registers, o0, o1, i0, i1, i2, i3]: &[u8; 8]| Self {
            code,
            registers,
            offset: i16::from_ne_bytes([o0, o1]),
            immediate: i32::from_ne_bytes([i0, i1, i2, i3]),
        };
        rest.is_empty().then(|| whole.iter().map(each).collect())
    }
}

/// The devices of a rule. `None`: any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceMatch {
    /// 1 a block device, 2 a character device (`BPF_DEVCG_DEV_*`).
    pub kind: Option<i32>,
    /// The major number.
    pub major: Option<i32>,
    /// The minor number.
    pub minor: Option<i32>,
}

/// `BPF_DEVCG_DEV_CHAR`.
pub const CHARACTER: i32 = 2;

/// The verdict of a program about one device or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The devices.
    pub device: DeviceMatch,
    /// Whether the job may use it.
    pub allow: bool,
}

/// A device program of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// In order; the first matching rule decides.
    pub rules: Vec<Rule>,
    /// For devices without a matching rule: those that are not in gres.conf.
    pub default: bool,
}

/// `BPF_LDX | BPF_MEM | BPF_W`, `BPF_ALU | BPF_AND`, `BPF_ALU | BPF_RSH`, `BPF_JMP | BPF_JNE`, `BPF_ALU64 | BPF_MOV`, `BPF_EXIT`.
const LOAD: u8 = 0x61;
const AND: u8 = 0x54;
const SHIFT: u8 = 0x74;
const UNLESS: u8 = 0x55;
const MOVE: u8 = 0xb7;
const EXIT: u8 = 0x95;

/// Kind to register 2, access to 3, major to 4, minor to 5 (`INIT_INST`).
const HEADER: [Instruction; 6] = [
    instruction(LOAD, 0x12, 0, 0),
    instruction(AND, 0x02, 0, 0xffff),
    instruction(LOAD, 0x13, 0, 0),
    instruction(SHIFT, 0x03, 0, 16),
    instruction(LOAD, 0x14, 4, 0),
    instruction(LOAD, 0x15, 8, 0),
];

const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers,
        offset,
        immediate,
    }
}

/// Parses a program. `None`: it contains anything that Slurm's programs do not.
pub fn parse(program: &[Instruction]) -> Option<Rules> {
    let mut rest = program.strip_prefix(&HEADER)?;
    let mut rules = Vec::new();
    loop {
        let (device, tests, after) = tests(rest)?;
        let [verdict, end, next @ ..] = after else {
            return None;
        };
        let allow = allows(*verdict)?;
        if *end != instruction(EXIT, 0, 0, 0) || !jump_behind(tests) {
            return None;
        }
        if tests.is_empty() {
            // The default ends the program.
            let whole = next.is_empty();
            return whole.then_some(Rules {
                rules,
                default: allow,
            });
        }
        rules.push(Rule { device, allow });
        rest = next;
    }
}

/// The tests at the start of a block, the devices they match, and the remaining instructions.
fn tests(block: &[Instruction]) -> Option<(DeviceMatch, &[Instruction], &[Instruction])> {
    let mut device = DeviceMatch::default();
    let many = block.iter().take_while(|i| i.code == UNLESS).count();
    let (tests, after) = block.split_at_checked(many)?;
    for test in tests {
        let field = match test.registers {
            2 => &mut device.kind,
            4 => &mut device.major,
            5 => &mut device.minor,
            _ => return None,
        };
        if field.replace(test.immediate).is_some() {
            return None;
        }
    }
    Some((device, tests, after))
}

/// Whether each test jumps behind the verdict and its exit.
fn jump_behind(tests: &[Instruction]) -> bool {
    let left = (1..=tests.len()).rev();
    tests
        .iter()
        .zip(left)
        .all(|(test, left)| usize::try_from(test.offset) == Ok(left + 1))
}

fn allows(verdict: Instruction) -> Option<bool> {
    match (verdict.code, verdict.registers, verdict.offset, verdict.immediate) {
        (MOVE, 0, 0, 0) => Some(false),
        (MOVE, 0, 0, 1) => Some(true),
        _ => None,
    }
}

impl Rules {
    /// Whether a job may use a character device, by the kernel's evaluation.
    pub fn allows(&self, major: i32, minor: i32) -> bool {
        let fits = |rule: &&Rule| {
            let is = |field: Option<i32>, value: i32| field.is_none_or(|f| f == value);
            is(rule.device.kind, CHARACTER) && is(rule.device.major, major) && is(rule.device.minor, minor)
        };
        self.rules
            .iter()
            .find(fits)
            .map_or(self.default, |rule| rule.allow)
    }

    /// The minors of `major` that are listed and allowed: the job's own. Unlisted devices are not in gres.conf, and
    /// their owner is unknown. `None` if a rule matches more than one device, which gres.conf never produces.
    pub fn owned(&self, major: i32) -> Option<Vec<u32>> {
        let mut owned = Vec::new();
        let mut seen = Vec::new();
        for Rule { device, allow } in &self.rules {
            let about = device.kind.is_none_or(|k| k == CHARACTER) && device.major.is_none_or(|m| m == major);
            if !about {
                continue;
            }
            let (Some(_), Some(_), Some(minor)) = (device.kind, device.major, device.minor) else {
                return None;
            };
            // The first rule decides.
            if seen.contains(&minor) {
                continue;
            }
            seen.push(minor);
            if *allow {
                owned.push(u32::try_from(minor).ok()?);
            }
        }
        Some(owned)
    }
}

/// Fuzzing: devices read as owned are those that the kernel allows.
///
/// # Panics
/// If they are not.
pub(crate) fn check(data: &[u8]) {
    let Some(rules) = Instruction::all(data).and_then(|program| parse(&program)) else {
        return;
    };
    let majors = rules.rules.iter().filter_map(|rule| rule.device.major);
    for major in majors {
        for minor in rules.owned(major).into_iter().flatten() {
            assert!(rules.allows(major, minor.cast_signed()), "{major}:{minor}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
