//! The persistent state as one JSON document, so that cursor and consequences stay consistent.
//!
//! `{"version":3,"crc32":"xxxxxxxx","record":...}`, with the checksum of the record's text. It detects damage: a changed bit
//! must not become a cursor or a drain. It is no protection against a user who may write the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use collectors::{BootId, Cursor, PciAddress};
use serde::{Deserialize, Serialize};

use super::comment::Comment;
use super::drain::Drain;
use super::incident::Incident;
use super::mirror::Mirroring;
use super::pause::Pause;
use super::reads::known::Known;
use model::derive::xid::{Faults, Inventory};
use model::ledger::Ledger;

/// The version of the record. A newer one is rejected: its content would be lost. Older ones have no checksum and were never
/// released; they are rejected too, since damage must not look like a form without a check.
const VERSION: u32 = 3;

/// Why a record is unusable. The store sets it aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A later release wrote it.
    #[error("found a record of version {found}, expected at most {known}: a later release wrote it")]
    Newer {
        /// Its version.
        found: u32,
        /// The newest known.
        known: u32,
    },
    /// It is not a record.
    #[error("not a record: {0}")]
    Broken(String),
    /// It is damaged.
    #[error("the record is damaged: found checksum {found}, expected {expected}")]
    Damaged {
        /// As computed from its content.
        found: String,
        /// As stored.
        expected: String,
    },
    /// Machine-id and host name are those of another machine: its faults must not drain this one.
    #[error("found the record of host {found}, expected one of host {own}: another machine wrote it")]
    Foreign {
        /// The host that wrote it.
        found: String,
        /// This host.
        own: String,
    },
}

/// What identifies a machine. Either may change on the same machine, such as with a new image or a name from DHCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    machine_id: Option<String>,
    host: Option<String>,
}

impl Identity {
    /// From the texts of `/etc/machine-id` and `/proc/sys/kernel/hostname`. What identifies no machine is left out: an image
    /// without an id, and the names of a machine that has none yet.
    pub fn new(machine_id: Option<String>, host: Option<String>) -> Self {
        let is_id = |id: &String| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
        let is_name = |host: &String| !["", "localhost", "(none)"].contains(&short(host));
        Self {
            machine_id: machine_id.filter(is_id),
            host: host.filter(is_name),
        }
    }

    /// Whether both are known of both, and both differ.
    fn is_other(&self, own: &Self) -> bool {
        let differ = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if !short(a).eq_ignore_ascii_case(short(b)));
        differ(&self.machine_id, &own.machine_id) && differ(&self.host, &own.host)
    }

    /// Takes what is known of this machine now.
    fn update(&mut self, own: Self) {
        self.machine_id = own.machine_id.or(self.machine_id.take());
        self.host = own.host.or(self.host.take());
    }
}

/// A host name without its domain.
fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or_default()
}

/// The persistent state. Fields that an earlier release did not write are empty.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// Its creation time, in seconds since the epoch.
    pub origin: i64,
    /// The machine that wrote it.
    pub machine: Identity,
    pub boot: BootId,
    /// The position of each collector's watcher, by the collector's name.
    pub cursors: BTreeMap<String, Cursor>,
    pub ledger: Ledger,
    /// Xids of this boot that only one source has reported so far.
    pub faults: Faults,
    pub inventory: Inventory,
    /// The addresses of GPUs whose checks no recording of real hardware has proven: AMD's.
    pub unproven: BTreeSet<PciAddress>,
    /// One of them was on the bus in this boot.
    pub unproven_here: bool,
    pub incidents: Vec<Incident>,
    pub serial: u64,
    pub dropped: u64,
    pub drain: Drain,
    pub comment: Comment,
    /// The copy of the drain's record in the scheduler.
    #[serde(skip)]
    pub mirror: Mirroring,
    /// Number of the next request to the parent.
    pub actions: u64,
    pub would_drain: BTreeMap<String, u64>,
    pub drains: BTreeMap<String, u64>,
    pub undrains: u64,
    /// The times of automatic lifts in the last 24 h, in seconds since the epoch.
    pub lifts: Vec<i64>,
    /// Extra could be read, with or without a copy of an earlier record, or a person lifted a drain since.
    pub lifts_known: bool,
    pub overrides: u64,
    /// A person's pause of this node.
    pub pause: Option<Pause>,
    pub pauses: u64,
    /// Conditions that are bad.
    pub bad: BTreeSet<String>,
    /// Notes of each collector for its next worker, by the collector's name.
    pub notes: BTreeMap<String, String>,
    /// RDMA ports and adapters of earlier snapshots.
    pub known: Known,
    /// The stored state of each check, by its id. An unreadable one affects only its check.
    pub checks: BTreeMap<String, serde_json::Value>,
}

/// Puts a record's text into its envelope.
pub(super) fn seal(record: &str) -> String {
    let checksum = crc32fast::hash(record.as_bytes());
    format!("{{\"version\":{VERSION},\"crc32\":\"{checksum:08x}\",\"record\":{record}}}")
}

/// The text of the record in an envelope. It must be exactly as [`seal`] wrote it.
pub(super) fn open(text: &str) -> Result<&str, RestoreError> {
    let broken =
        || RestoreError::Broken("found no version and checksum, expected both at the start".to_owned());
    let rest = text.strip_prefix("{\"version\":").ok_or_else(broken)?;
    let (version, rest) = rest.split_once(',').ok_or_else(broken)?;
    match version.parse::<u32>() {
        Ok(VERSION) if version == VERSION.to_string() => {}
        Ok(found) if found > VERSION => {
            return Err(RestoreError::Newer {
                found,
                known: VERSION,
            });
        }
        _ => return Err(broken()),
    }
    let rest = rest.strip_prefix("\"crc32\":\"").ok_or_else(broken)?;
    let (expected, rest) = rest.split_once('"').ok_or_else(broken)?;
    let record = rest
        .strip_prefix(",\"record\":")
        .and_then(|r| r.strip_suffix('}'));
    let record = record.ok_or_else(broken)?;
    let found = format!("{:08x}", crc32fast::hash(record.as_bytes()));
    if found == expected {
        return Ok(record);
    }
    Err(RestoreError::Damaged {
        found,
        expected: expected.to_owned(),
    })
}

impl State {
    /// A first start.
    pub(super) fn new(wall: i64) -> Self {
        Self {
            origin: wall,
            ..Self::default()
        }
    }

    /// Reads a record.
    pub(super) fn parse(text: &str) -> Result<Self, RestoreError> {
        serde_json::from_str(open(text)?).map_err(|e| RestoreError::Broken(e.to_string()))
    }

    /// Makes it this machine's.
    pub(super) fn take_over(&mut self, own: Identity) -> Result<(), RestoreError> {
        if self.machine.is_other(&own) {
            return Err(RestoreError::Foreign {
                found: self.machine.host.take().unwrap_or_default(),
                own: own.host.unwrap_or_default(),
            });
        }
        self.machine.update(own);
        Ok(())
    }

    /// Writes it.
    pub(super) fn json(&self) -> Arc<str> {
        // It cannot fail: all map keys are strings or numbers.
        seal(&serde_json::to_string(self).unwrap_or_default()).into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_comes_back_out_of_its_envelope() {
        assert_eq!(seal("{}"), "{\"version\":3,\"crc32\":\"a3a6bf43\",\"record\":{}}");
        let text = State::new(1_700_000_000).json();
        assert_eq!(State::parse(&text).unwrap().origin, 1_700_000_000);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value["record"]["origin"], 1_700_000_000,
            "it is JSON for other programs"
        );
    }

    #[test]
    fn other_texts_are_refused_by_what_is_wrong() {
        let newer = seal("{}").replace(":3,", ":4,");
        assert_eq!(open(&newer), Err(RestoreError::Newer { found: 4, known: 3 }));
        let damaged = seal("{\"serial\":1}").replace(":1}", ":2}");
        let error = open(&damaged).unwrap_err().to_string();
        assert!(
            error.starts_with("the record is damaged: found checksum "),
            "{error}"
        );
        for text in [
            "",
            "{}",
            "\0\0\0",
            "{\"schema\":2}",
            "{\"version\":2,\"crc32\":\"\"",
            "{\"version\":+3,",
        ] {
            assert!(matches!(open(text), Err(RestoreError::Broken(_))), "{text}");
        }
    }

    #[test]
    fn a_record_is_refused_only_where_machine_id_and_host_name_are_of_another_machine() {
        let id = |c: &str| Some(c.repeat(32));
        let of = |id: &Option<String>, host: &str| Identity::new(id.clone(), Some(host.to_owned()));
        let own = of(&id("b"), "b1.example.org");
        let take = |machine: Identity| {
            let mut state = State {
                machine,
                ..State::default()
            };
            state.take_over(own.clone()).map(|()| state.machine)
        };
        for (machine_id, host) in [
            (&id("b"), "a1"),
            (&id("a"), "B1"),
            (&id("a"), "localhost"),
            (&id("a"), "localhost.localdomain"),
            (&id("a"), "(none)"),
            (&id("a"), ""),
            (&None, "a1"),
            (&Some("uninitialized".to_owned()), "a1"),
        ] {
            assert_eq!(
                take(of(machine_id, host)),
                Ok(own.clone()),
                "{machine_id:?} {host}"
            );
        }
        assert_eq!(
            take(Identity::default()),
            Ok(own.clone()),
            "of an earlier release"
        );
        let refused = take(of(&id("a"), "a1")).unwrap_err().to_string();
        assert_eq!(
            refused,
            "found the record of host a1, expected one of host b1.example.org: another machine wrote it"
        );
        // An unknown part of this start is kept from the record.
        let mut known = own.clone();
        known.update(of(&None, "localhost"));
        assert_eq!(known, own);
    }

    proptest! {
        /// A disk or memory that changes one bit, or loses the end.
        #[test]
        fn a_record_with_one_changed_bit_or_a_lost_end_is_refused(
            record in "\\{[ -~]{0,60}\\}",
            bit in any::<prop::sample::Index>(),
        ) {
            let sealed = seal(&record);
            prop_assert_eq!(open(&sealed), Ok(record.as_str()));
            let mut bytes = sealed.clone().into_bytes();
            let bit = bit.index(bytes.len() * 8);
            prop_assert!(open(&sealed[..bit / 8]).is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(text) = std::str::from_utf8(&bytes) {
                prop_assert!(open(text).is_err());
            }
        }
    }
}
