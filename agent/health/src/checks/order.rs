//! The order of findings: the first of an incident names it.

use crate::finding::{Finding, Rank};

/// Every check, with parts that have their own place, first to last. The places share one scale with `rank` in
/// `xids.toml`, where each Xid has its own. Records hold them.
pub static ORDER: &[(u8, &str, &str)] = &[
    // The first Xid; each row of the Xid table has its place.
    (10, "xid", ""),
    (42, "gpu-recovery-action", ""),
    (44, "gpu-driver-unusable", ""),
    (45, "gpu-missing", ""),
    (46, "gpu-down", ""),
    (47, "gpu-row-remap", ""),
    (47, "gpu-sram-threshold", ""),
    (48, "gpu-driver-blocked", ""),
    (49, "gpu-unreadable", ""),
    (50, "edac-uncorrected", ""),
    (51, "kernel-crash", ""),
    (52, "machine-check", ""),
    (53, "memory-missing", ""),
    (53, "cpu-missing", ""),
    (54, "rdma-missing", ""),
    (55, "rdma-port-down", ""),
    (55, "gpu-ecc-uncorrected", ""),
    (57, "rdma-port-blocked", ""),
    (57, "rdma-firmware-timeout", ""),
    (57, "rdma-port-unreadable", ""),
    (58, "gpu-nvlink-down", ""),
    (59, "gpu-nvlink-down", "together"),
    (59, "gpu-fabric", ""),
    (59, "gpu-driver-error", ""),
    (60, "pcie-degraded", ""),
    (60, "pcie-error", ""),
    (60, "rdma-port-flapping", ""),
    (60, "rdma-pfc-storm", "storm"),
    (61, "rdma-port-degraded", ""),
    (61, "rdma-link-integrity", ""),
    (62, "rdma-bit-errors", ""),
    (62, "gpu-pcie-slow", ""),
    (63, "rdma-lossless-loss", ""),
    (64, "gpfs-daemon-down", ""),
    (64, "gpfs-node-state", ""),
    (64, "disk-error", ""),
    (64, "filesystem-error", ""),
    (64, "mount-read-only", ""),
    (64, "mount-unresponsive", ""),
    (64, "network-adapter-error", ""),
    (64, "nvme-failing", ""),
    (64, "lustre-lnet-down", ""),
    (65, "gpu-slowdown", ""),
    (66, "gpu-temperature", ""),
    (66, "rdma-retries-exceeded", "again"),
    (70, "gpu-missing", "gres"),
    (71, "rdma-cnp-ignored", ""),
    (72, "rdma-retries-exceeded", ""),
    (73, "rdma-pfc-storm", ""),
    (74, "gpu-nvlink-errors", ""),
    (74, "rdma-packet-loss", ""),
    (75, "gpu-ecc-corrected", ""),
    (75, "rdma-configuration", "profile"),
    (75, "gpu-configuration", ""),
    (76, "gpu-pcie-replays", ""),
    (76, "rdma-ports-missing", ""),
    (76, "mount-missing", ""),
    (76, "module-missing", ""),
    (76, "rdma-port-degraded", "peers"),
    (77, "rdma-pause-without-cnp", ""),
    (78, "rdma-configuration", "peers"),
    (78, "gpu-configuration", "peers"),
    (78, "job-blocked", ""),
    (78, "reading-blocked", ""),
    (78, "values-unread", ""),
    (78, "kernel-stall", ""),
    (78, "memory-exhausted", ""),
    (78, "mount-full", ""),
    (78, "nvme-worn", ""),
    (78, "storage-server", ""),
    (78, "gpfs-waiters-long", ""),
    (78, "lustre-target-unreachable", ""),
    (78, "lustre-evicted", ""),
    (79, "rdma-configuration", "gid"),
    (79, "gpu-double-booked", ""),
    (80, "gpu-foreign-process", ""),
    (81, "gpu-memory-held", ""),
    (82, "gpu-application-errors", ""),
    (85, "gpu-persistence-off", ""),
    (87, "gpu-stalled", ""),
    (88, "gpu-idle", ""),
    (89, "collector-silent", ""),
    (90, "custom-check", ""),
];

/// How far behind its check's place a shared fault is.
const SHARED: u8 = 10;

/// The place of a finding.
pub fn rank(finding: &Finding) -> u8 {
    let of = |part: &str| {
        let mut places = ORDER
            .iter()
            .filter(|(_, id, of)| super::check(&finding.check).is_some_and(|c| c.id == *id) && *of == part);
        places.next().map_or(u8::MAX, |(place, ..)| *place)
    };
    match finding.rank {
        Rank::Of(part) => of(part),
        Rank::Shared(part) => of(part).saturating_add(SHARED),
        Rank::At(place) => place,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ORDER;
    use crate::checks::CHECKS;

    #[test]
    fn every_check_is_in_the_list_and_no_part_of_it_twice() {
        assert!(ORDER.is_sorted_by_key(|(place, ..)| place));
        let parts: BTreeSet<_> = ORDER.iter().map(|(_, id, of)| (id, of)).collect();
        assert_eq!(parts.len(), ORDER.len());
        let listed: BTreeSet<&str> = ORDER.iter().map(|(_, id, _)| *id).collect();
        assert_eq!(listed, CHECKS.iter().map(|check| check.id).collect());
    }
}
