//! The boot id, and the time since boot.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::root;
use crate::{BootId, Env, Error};

/// The boot id: `/proc/sys/kernel/random/boot_id`, a lower-case UUID.
///
/// # Errors
/// When the file is absent or has other content.
pub fn boot_id(env: &Env) -> Result<BootId, Error> {
    if let Some(forced) = &env.boot_id {
        return Ok(BootId(forced.clone()));
    }
    let path = env.path("/proc/sys/kernel/random/boot_id");
    // A sysroot of only /sys is common in tests and captures; the running kernel's own id is correct then.
    let text = match root::read_text(&path)? {
        Some(text) => text,
        None => root::read_text("/proc/sys/kernel/random/boot_id".as_ref())?.unwrap_or_default(),
    };
    let valid = text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if valid {
        Ok(BootId(text))
    } else {
        Err(Error::parse(path.display().to_string(), &text, "a UUID"))
    }
}

fn clock(id: ClockId) -> Duration {
    // Both clocks exist on every supported kernel.
    clock_gettime(id).map_or(Duration::ZERO, Duration::from)
}

/// Time since boot, including suspended time (CLOCK_BOOTTIME).
pub fn boottime() -> Duration {
    clock(ClockId::CLOCK_BOOTTIME)
}

/// Time since boot, without suspended time (CLOCK_MONOTONIC); the clock of /dev/kmsg's time stamps.
pub fn monotonic() -> Duration {
    clock(ClockId::CLOCK_MONOTONIC)
}

/// [`monotonic`] as of the kernel's last tick, up to 10 ms ago (CLOCK_MONOTONIC_COARSE): for a look between any two of
/// hundreds of reads, since it costs a tenth.
pub fn monotonic_coarse() -> Duration {
    clock(ClockId::CLOCK_MONOTONIC_COARSE)
}

/// Clock ticks per second, the unit of time in /proc (`sysconf(_SC_CLK_TCK)`): 100 on Linux if unknown.
pub fn ticks_per_second() -> u64 {
    let told = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)
        .ok()
        .flatten();
    told.and_then(|n| u64::try_from(n).ok())
        .filter(|n| *n > 0)
        .unwrap_or(100)
}
