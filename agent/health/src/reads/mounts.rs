//! Mounts, by their server.

use std::collections::BTreeSet;
use std::time::Duration;

use collectors::SubjectKind;
use collectors::mounts::metrics::{INFO, PROBE_AGE};
use collectors::mounts::{SPEC, is_submount};
use model::snapshot::Snapshot;

/// The server in a source: `nas` of `nas:/home` and of `//nas/home`. Sources of FUSE are any text of users.
pub(crate) fn server<'a>(fstype: &str, source: &'a str) -> Option<&'a str> {
    let name = match source.strip_prefix("//") {
        Some(share) => share.split('/').next(),
        None => source.split_once(":/").map(|(server, _)| server),
    };
    name.filter(|name| !name.is_empty() && !fstype.starts_with("fuse"))
}

/// The mount points of submounts that the client of NFS itself made.
pub(crate) fn submounts(snapshot: &Snapshot) -> BTreeSet<String> {
    let of_nfs: Vec<_> = (snapshot.samples(&INFO))
        .filter(|sample| sample.label("fstype").is_some_and(|kind| kind.starts_with("nfs")))
        .filter_map(|sample| Some((sample.label("mountpoint")?, sample.label("source")?)))
        .collect();
    let is_below = |mount: &&(&str, &str)| of_nfs.iter().any(|above| is_submount(*above, **mount));
    let found = of_nfs.iter().filter(is_below);
    found.map(|(point, _)| (*point).to_owned()).collect()
}

/// How old the answer of a mount may have been when it was read: zero if it was probed then. An old one is older by the longest reading,
/// because the ends of readings vary, and none may seem newer than the one that has the probe.
pub(crate) fn answer_age(snapshot: &Snapshot, point: &str) -> Duration {
    let mut ages = snapshot.samples(&PROBE_AGE);
    let age = ages.find(|sample| sample.label("mountpoint") == Some(point));
    let age = age.and_then(|sample| Duration::try_from_secs_f64(sample.as_f64()).ok());
    age.filter(|age| !age.is_zero())
        .map_or(Duration::ZERO, |age| age.saturating_add(SPEC.deadline))
}

/// Whether each NFS mount of this server, as the kernel names it, has answered a probe that was read after `since` (since
/// boot). False without one.
pub(crate) fn answer(snapshot: &Snapshot, name: &str, since: Duration) -> bool {
    let mounts: BTreeSet<&str> = (snapshot.samples(&INFO))
        .filter_map(|sample| {
            let label = |name| sample.label(name).unwrap_or_default();
            let (fstype, source) = (label("fstype"), label("source"));
            // The kernel writes no brackets around an IPv6 address.
            let server = server(fstype, source)?.trim_matches(['[', ']']);
            (fstype.starts_with("nfs") && server == name).then_some(label("mountpoint"))
        })
        .collect();
    let probes = snapshot
        .collector("mounts")
        .into_iter()
        .flat_map(|c| c.devices.iter());
    let answered: BTreeSet<&str> = probes
        .filter(|d| d.subject.kind == SubjectKind::Mount)
        .filter(|d| d.error.is_none() && d.late.is_none())
        .filter(|d| d.at.saturating_sub(answer_age(snapshot, &d.subject.name)) > since)
        .map(|d| d.subject.name.as_str())
        .collect();
    !mounts.is_empty() && mounts.is_subset(&answered)
}

#[cfg(test)]
mod tests {
    use super::server;

    #[test]
    fn the_server_is_that_of_the_source() {
        for (fstype, source, is) in [
            ("nfs4", "nas:/home", Some("nas")),
            ("nfs", "[fe80::1]:/home", Some("[fe80::1]")),
            ("cifs", "//nas/home", Some("nas")),
            ("lustre", "10.2.0.40@o2ib:/scratch", Some("10.2.0.40@o2ib")),
            ("xfs", "/dev/nvme0n1p1", None),
            ("gpfs", "scratch", None),
            ("nfs4", ":/home", None),
            ("fuse.sshfs", "alice@nas:/home", None),
        ] {
            assert_eq!(server(fstype, source), is, "{fstype} {source}");
        }
    }
}
