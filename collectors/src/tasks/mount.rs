//! Which mount the file is on that a system call is about.

use std::path::Path;

use crate::mountinfo;
use crate::sys::task::{SystemCall, Thread};

/// `nfs4 /home`: type and mount point, as the process sees it. `None`: the call is about no file, or the kernel does not
/// show which.
pub(super) fn of(process: &Path, thread: &Thread, call: SystemCall) -> Option<String> {
    let descriptor = call.descriptor?;
    let info = thread.descriptor_info(descriptor)?;
    let id = mount_id(&info)?;
    let text = mountinfo::read(process).ok().flatten()?;
    let mount = mountinfo::mounts(&text).find(|mount| mount.id == id)?;
    Some(format!("{} {}", mount.fstype, mount.point()))
}

/// `mnt_id:\t36` of /proc/PID/fdinfo/FD.
fn mount_id(info: &str) -> Option<u32> {
    let line = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_before_3_15_shows_no_mount() {
        assert_eq!(
            mount_id("pos:\t0\nflags:\t0100000\nmnt_id:\t36\nino:\t7"),
            Some(36)
        );
        assert_eq!(mount_id("pos:\t0\nflags:\t0100000"), None);
    }
}
