//! This machine's identity: host name and boot time. Read again for every look: a clock set after boot, or a name
//! from DHCP, changes them.

use collectors::sys::boot;

/// This machine's host name, as slurmd reports it.
pub fn hostname() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_default()
}

/// This machine's boot time, in seconds since the epoch. `None`: unreadable.
pub fn boot_time() -> Option<i64> {
    let btime = boot::btime("/proc/stat".as_ref()).ok()??;
    i64::try_from(btime).ok()
}
