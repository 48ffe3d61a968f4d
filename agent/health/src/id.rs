//! Incident ids: 8 characters that are easy to read out, unique within a record.

use collectors::{BootId, Subject};

use model::scheduler::IncidentId;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const BITS: u32 = 40;
const MASK: u64 = (1 << BITS) - 1;

/// The id of the incident with this serial number. Half of it is the number: ids of one record differ for a million
/// incidents. The rest distinguishes nodes and records. `origin`, the creation time of the record: a new record does
/// not repeat the ids of a deleted one. `at_ms`, the start of the incident: an incident that was never stored does not
/// pass its id on, because a drain with that id would seem to be recorded.
pub(super) fn incident(
    boot: &BootId,
    (origin, at_ms): (i64, u64),
    serial: u64,
    subject: &Subject,
    check: &str,
) -> IncidentId {
    let mut hash = Fnv::default();
    hash.add(&origin.to_le_bytes());
    hash.add(&at_ms.to_le_bytes());
    for part in [boot.0.as_str(), subject.kind.word(), &subject.name, check] {
        hash.add(part.as_bytes());
        hash.add(&[0]);
    }
    hash.add(&serial.to_le_bytes());
    let half = BITS / 2;
    let low = hash.0 ^ hash.0 >> 32;
    let mut bits = (serial << half | low & ((1 << half) - 1)) & MASK;
    // Each step is invertible within 40 bits, so different numbers stay different.
    for _ in 0..2 {
        bits = bits.wrapping_mul(0x9E_3779_B97F) & MASK;
        bits ^= bits >> half;
    }
    let text = (0..8)
        .map(|i| ALPHABET[(bits >> (i * 5) & 31) as usize] as char)
        .collect();
    IncidentId(text)
}

/// A number of this boot of this node.
pub(super) fn seed(boot: &BootId) -> u64 {
    let mut hash = Fnv::default();
    hash.add(boot.0.as_bytes());
    hash.0
}

/// FNV-1a: the same on every machine and in every release.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_well_formed_repeatable_and_different() {
        let boot = BootId("b".to_owned());
        let subject = Subject::gpu("pci:0000:3b:00.0");
        let ids: BTreeSet<IncidentId> = (0..20_000)
            .map(|n| incident(&boot, (0, 0), n, &subject, "xid"))
            .collect();
        assert_eq!(ids.len(), 20_000);
        assert!(ids.iter().all(|id| IncidentId::parse(&id.0).is_some()));
        assert_eq!(
            incident(&boot, (0, 0), 7, &subject, "xid"),
            incident(&boot, (0, 0), 7, &subject, "xid")
        );
        assert_ne!(
            incident(&boot, (0, 0), 7, &subject, "xid"),
            incident(&BootId::default(), (0, 0), 7, &subject, "xid")
        );
    }
}
