//! Which mount the file is on that a system call is about.

use std::path::Path;

use procfs_core::process::MountInfo;

use crate::sys::root;
use crate::sys::task::{SystemCall, Thread};

/// A node of containers has thousands of mounts of a hundred bytes.
const MOST_MOUNTS: u64 = 1 << 20;

/// `nfs4 /home`: type and mount point, as the process sees it. `None`: the call is about no file, or the kernel does not
/// show which.
pub(super) fn of(process: &Path, thread: &Thread, call: SystemCall) -> Option<String> {
    let descriptor = call.descriptor?;
    let info = thread.descriptor_info(descriptor)?;
    let id = mount_id(&info)?;
    let mounts = root::read_lossy_within(&process.join("mountinfo"), MOST_MOUNTS)
        .ok()
        .flatten()?;
    mounts.lines().find_map(|line| parse(line, id))
}

/// `mnt_id:\t36` of /proc/PID/fdinfo/FD.
fn mount_id(info: &str) -> Option<&str> {
    let line = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    Some(line.trim())
}

/// Type and mount point of a line of mountinfo, if it is that mount's. A line of another one that cannot be read costs nothing.
fn parse(line: &str, id: &str) -> Option<String> {
    let is_it = line.split(' ').next() == Some(id);
    let mount = is_it.then(|| MountInfo::from_line(line).ok())??;
    Some(format!("{} {}", mount.fs_type, mount.mount_point.display()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mount_is_found_by_its_number_with_any_number_of_optional_fields() {
        for optional in ["", "shared:1 ", "shared:1 master:2 "] {
            let line = format!("36 35 0:52 / /home rw,noatime {optional}- nfs4 server:/home rw,hard");
            assert_eq!(parse(&line, "36").as_deref(), Some("nfs4 /home"));
            assert_eq!(parse(&line, "35"), None);
        }
        assert_eq!(parse("36 35 0:52 / /home rw", "36"), None);
        assert_eq!(
            mount_id("pos:\t0\nflags:\t0100000\nmnt_id:\t36\nino:\t7"),
            Some("36")
        );
        // Linux before 3.15.
        assert_eq!(mount_id("pos:\t0\nflags:\t0100000"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left(line in "[ -~]{0,80}", id in "[0-9]{1,3}") {
            if let Some(found) = parse(&line, &id) {
                prop_assert!(line.starts_with(&id));
                prop_assert!(found.contains(' '));
            }
        }
    }
}
