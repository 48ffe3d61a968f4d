//! Runs a filter as the kernel does, so that a test can ask about calls that it must not make.

use std::collections::BTreeSet;

use seccompiler::sock_filter;

pub(super) const ALLOW: u32 = 0x7fff_0000;
pub(super) const DENY: u32 = 0x0005_0001;
pub(super) const UNKNOWN: u32 = 0x0005_0026;
/// `AUDIT_ARCH_I386`.
pub(super) const FOREIGN: u32 = 0x4000_0003;
const OWN: u32 = if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0xc000_003e
};

/// The answer to a call: number, architecture if another one, arguments.
pub(super) fn answer(program: &[sock_filter], number: u32, arch: Option<u32>, args: &[u64]) -> u32 {
    let load = |offset: u32| match offset {
        0 => number,
        4 => arch.unwrap_or(OWN),
        _ => {
            let at = (offset as usize - 16) / 8;
            let value = args.get(at).copied().unwrap_or(0);
            (if (offset - 16) % 8 == 4 {
                value >> 32
            } else {
                value & 0xffff_ffff
            }) as u32
        }
    };
    let (mut at, mut a) = (0, 0);
    loop {
        let i = &program[at];
        at += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { i.jt } else { i.jf });
        match i.code {
            0x20 => a = load(i.k),
            0x54 => a &= i.k,
            0x15 => jump(a == i.k),
            0x25 => jump(a > i.k),
            0x35 => jump(a >= i.k),
            0x05 => at += i.k as usize,
            0x06 => return i.k,
            other => panic!("instruction {other:x}"),
        }
    }
}

/// All answers that it may give.
pub(super) fn answers(program: &[sock_filter]) -> BTreeSet<u32> {
    program.iter().filter(|i| i.code == 6).map(|i| i.k).collect()
}
