//! The mount point of a filesystem, by /proc/1/mountinfo.

use std::collections::BTreeMap;

use crate::Env;
use crate::sys::root;
use crate::text::{printable, unescaped};

/// Limit of the file, in bytes: a node with containers has thousands of mounts.
const LONGEST: u64 = 4 << 20;

/// Mount points by filesystem. One that is mounted several times independently has none: which instance has which mount
/// point is unknown without a call on the mount, which may block.
pub(super) fn mount_points(env: &Env) -> BTreeMap<String, String> {
    let of = |pid: &str| root::read_lossy_within(&env.path(&format!("/proc/{pid}/mountinfo")), LONGEST);
    let text = of("1").ok().flatten().or_else(|| of("self").ok().flatten());
    parse(&text.unwrap_or_default())
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for line in text.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let (mut left, mut right) = (left.split(' '), right.split(' '));
        let device_and_path = left.nth(2).zip(left.nth(1));
        let source = right
            .next()
            .filter(|kind| *kind == "lustre")
            .and_then(|_| right.next());
        // `10.2.0.40@o2ib:10.2.0.41@o2ib:/scratch/projects`
        let fs = source.and_then(|source| source.split_once(":/")?.1.split('/').next());
        if let (Some((device, path)), Some(fs)) = (device_and_path, fs) {
            found.entry(fs).or_default().push((device, path));
        }
    }
    let one = |(fs, mounts): (&str, Vec<(&str, &str)>)| {
        // Others of its device are bind mounts.
        let (device, path) = mounts.first()?;
        let is_one = mounts.iter().all(|(other, _)| other == device);
        is_one.then(|| (fs.to_owned(), printable(&unescaped(path), 256)))
    };
    found.into_iter().filter_map(one).collect()
}

/// For fuzzing.
pub(super) fn check(text: &str) {
    for (fs, point) in parse(text) {
        assert!(!fs.contains('/') && point.len() <= 256);
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
