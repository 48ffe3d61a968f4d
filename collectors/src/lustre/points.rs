//! The mount point of a filesystem, by /proc/1/mountinfo.

use std::collections::BTreeMap;

use crate::subject::MAX_NAME;
use crate::text::printable;
use crate::{Env, mountinfo};

/// Mount points by filesystem. One that is mounted several times independently has none: which instance has which mount
/// point is unknown without a call on the mount, which may block.
pub(super) fn mount_points(env: &Env) -> BTreeMap<String, String> {
    let of = |process| mountinfo::read(&env.path(process)).ok().flatten();
    parse(&of("/proc/1").or_else(|| of("/proc/self")).unwrap_or_default())
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Vec<mountinfo::Mount<'_>>> = BTreeMap::new();
    // A hidden mount counts too: its instance is there.
    for mount in mountinfo::mounts(text).filter(|mount| mount.fstype == "lustre") {
        // `10.2.0.40@o2ib:10.2.0.41@o2ib:/scratch/projects`
        let source = mount.source();
        let fs = source
            .split_once(":/")
            .and_then(|(_, path)| path.split('/').next());
        if let Some(fs) = fs {
            found.entry(fs.to_owned()).or_default().push(mount);
        }
    }
    let one = |(fs, mounts): (String, Vec<mountinfo::Mount<'_>>)| {
        // Others of its device are bind mounts.
        let first = mounts.first()?;
        let is_one = mounts.iter().all(|other| other.device == first.device);
        is_one.then(|| (fs, printable(first.point().as_bytes(), MAX_NAME)))
    };
    found.into_iter().filter_map(one).collect()
}

/// For fuzzing.
pub(super) fn check(text: &str) {
    for (fs, point) in parse(text) {
        assert!(!fs.contains('/') && point.len() <= MAX_NAME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_mount_is_the_same_mount_and_a_second_one_makes_the_point_unknown() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            90 1 0:52 / /lustre/my\\040scratch rw shared:1 - lustre 10.2.0.40@o2ib:10.2.0.41@o2ib:/scratch rw,flock\n\
            91 1 0:52 /a /srv rw - lustre 10.2.0.40@o2ib:10.2.0.41@o2ib:/scratch/a rw\n\
            92 1 0:53 / /home rw - lustre 10.2.0.40@o2ib:/home rw\n\
            93 1 0:54 / /home2 rw - lustre 10.2.0.40@o2ib:/home rw\n\
            94 1 0:55 / /fake rw - tmpfs lustre:/fake rw\n";
        let expected = [("scratch".to_owned(), "/lustre/my scratch".to_owned())];
        assert_eq!(parse(text), expected.into());
    }
}
