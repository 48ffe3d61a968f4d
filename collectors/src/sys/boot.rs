//! The boot id, the boot time, and the time since boot.

use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::root;
use crate::{BootId, Env, Error};

/// Limit of /proc/stat, in bytes: every interrupt has a column, and a machine can have many thousands.
const MAX_STAT: u64 = 16 << 20;

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

/// The boot time in seconds since the epoch: `btime` of /proc/stat. `Ok(None)`: no such file.
///
/// # Errors
/// When the file cannot be read, is too long, or has no such line.
pub fn btime(path: &Path) -> Result<Option<u64>, Error> {
    let Some(bytes) = root::read_bytes(path, MAX_STAT)? else {
        return Ok(None);
    };
    if bytes.len() as u64 >= MAX_STAT {
        // Cut off, perhaps within the number.
        return Err(Error::parse(path.display().to_string(), "", "less than 16 MiB"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    match line.map(|number| number.trim().parse()) {
        Some(Ok(btime)) => Ok(Some(btime)),
        _ => Err(Error::parse(
            path.display().to_string(),
            line.unwrap_or("no such line"),
            "a line `btime SECONDS`",
        )),
    }
}

#[inline]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_time_is_found_behind_any_number_of_interrupts_and_not_in_a_file_that_is_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |interrupts: usize| {
            let (intr, rest) = ("0 ".repeat(interrupts), "ctxt 1\nbtime 1795254388\nprocesses 1\n");
            std::fs::write(file.path(), format!("cpu 1 2\nintr {intr}\n{rest}")).unwrap();
            btime(file.path())
        };
        assert_eq!(read(100_000).unwrap(), Some(1_795_254_388));
        assert!(read((16 << 19) - 15).is_err(), "within the number");
        std::fs::write(file.path(), "cpu 1\nbtime x\n").unwrap();
        assert!(btime(file.path()).is_err());
        assert_eq!(btime("/none".as_ref()).unwrap(), None);
        assert!(btime("/proc/stat".as_ref()).unwrap().is_some());
    }
}
