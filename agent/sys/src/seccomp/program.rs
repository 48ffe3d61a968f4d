//! From a policy to instructions of BPF.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use super::FilterError;
use super::calls::{self, MODERN, NEWEST};
use super::policy::{Kind, Policy, Rule, Test};

const EPERM: u32 = libc::EPERM.unsigned_abs();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();

/// Offset of the call's number in `struct seccomp_data`.
const NUMBER: u32 = 0;
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER: u16 = 0x25;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// The filter of a policy for this architecture.
pub(super) fn compile(policy: &Policy) -> Result<BpfProgram, FilterError> {
    let (matched, other) = match policy.kind {
        Kind::Only => (SeccompAction::Allow, SeccompAction::Errno(EPERM)),
        Kind::AllBut => (SeccompAction::Errno(EPERM), SeccompAction::Allow),
    };
    let arch = std::env::consts::ARCH.try_into().map_err(table)?;
    let filter = SeccompFilter::new(rules(policy)?, other, matched, arch).map_err(table)?;
    let mut program: BpfProgram = filter.try_into().map_err(table)?;
    for instruction in &mut program {
        // The library's answer to a call of another architecture is to kill.
        if instruction.code == RETURN && instruction.k == libc::SECCOMP_RET_KILL_PROCESS {
            instruction.k = ENOSYS;
        }
    }
    // A call of another architecture has other numbers, and is answered with ENOSYS by either part.
    let mut whole = modern(policy);
    whole.append(&mut program);
    Ok(whole)
}

fn table(e: seccompiler::BackendError) -> FilterError {
    FilterError::Table(e.to_string())
}

/// The calls with their conditions. A call that this architecture does not have is left out.
fn rules(policy: &Policy) -> Result<BTreeMap<i64, Vec<SeccompRule>>, FilterError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for name in policy.calls() {
        if let Some(number) = calls::number(name) {
            rules.insert(number.into(), Vec::new());
        }
    }
    let whole: Vec<i64> = rules.keys().copied().collect();
    for Rule { call, when } in policy.rules.iter().copied().flatten() {
        // A condition would narrow a call that the policy names as a whole.
        if let Some(number) = calls::number(call).filter(|n| !whole.contains(&i64::from(*n))) {
            let conditions: Result<Vec<_>, _> =
                when.iter().map(|(arg, test)| condition(*arg, *test)).collect();
            let rule = SeccompRule::new(conditions?).map_err(table)?;
            rules.entry(number.into()).or_default().push(rule);
        }
    }
    Ok(rules)
}

fn condition(argument: u8, test: Test) -> Result<SeccompCondition, FilterError> {
    let (length, operator, value) = match test {
        Test::Is(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value),
        Test::IsNot(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value),
        Test::Bits(mask, value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value),
        Test::Null => (SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
        Test::IsOwnPid => {
            let pid = std::process::id().into();
            (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, pid)
        }
    };
    SeccompCondition::new(argument, length, operator, value).map_err(table)
}

/// Answers calls from [`MODERN`] on with ENOSYS where the policy does not know them: libraries expect to run on older
/// kernels, and their arguments lie in memory, which a filter cannot read.
fn modern(policy: &Policy) -> BpfProgram {
    let known = |name: &&str| calls::number(name).filter(|n| (MODERN..=NEWEST).contains(n));
    let mut numbers: Vec<u32> = policy
        .calls()
        .chain(policy.modern.iter().copied())
        .filter_map(|n| known(&n))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let count = u8::try_from(numbers.len()).unwrap_or(u8::MAX);
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    // Past the whole list and its last instruction.
    let mut part = vec![
        instruction(LOAD, 0, 0, NUMBER),
        instruction(JUMP_IF_AT_LEAST, 0, count.saturating_add(2), MODERN),
        instruction(JUMP_IF_GREATER, count, 0, NEWEST),
    ];
    for (number, before) in numbers.into_iter().zip(0..count) {
        part.push(instruction(JUMP_IF_EQUAL, count - before, 0, number));
    }
    part.push(instruction(RETURN, 0, 0, ENOSYS));
    part
}
