//! This machine's identity: host name and boot time. Read again for every look: a clock set after boot, or a name
//! from DHCP, changes them.

use std::path::Path;

use collectors::sys::root;

/// Every interrupt has a column in /proc/stat, and a machine can have many thousands.
const MAX_STAT: u64 = 16 << 20;

/// This machine's host name, as slurmd reports it.
pub fn hostname() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_default()
}

/// This machine's boot time, in seconds since the epoch: `btime` of /proc/stat. `None`: unreadable.
pub fn boot_time() -> Option<i64> {
    let bytes = root::read_bytes(Path::new("/proc/stat"), MAX_STAT).ok()??;
    btime(&String::from_utf8_lossy(&bytes))
}

fn btime(stat: &str) -> Option<i64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_time_is_found_behind_any_number_of_interrupts() {
        let stat = format!(
            "cpu 1 2\nintr {}\nctxt 1\nbtime 1795254388\nprocesses 1\n",
            "0 ".repeat(100_000)
        );
        assert_eq!(btime(&stat), Some(1_795_254_388));
        assert_eq!(btime("cpu 1\nbtime x\n"), None);
        assert!(boot_time().is_some());
    }
}
