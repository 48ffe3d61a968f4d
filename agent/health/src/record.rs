//! What survives a restart, as one JSON document: cursor and consequences cannot come apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use collectors::{BootId, Cursor};
use serde::{Deserialize, Serialize};

use super::comment::Comment;
use super::drain::Drain;
use super::incident::Incident;
use super::reads::known::Known;
use model::derive::xid::{Faults, Inventory};
use model::ledger::Ledger;

/// The form of the record. A newer one is refused: what it holds would be lost.
const SCHEMA: u32 = 2;

/// Why a record cannot be used. The store sets it aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A later release wrote it.
    #[error("the record has form {found}, this program knows forms up to {known}")]
    Newer {
        /// Its form.
        found: u32,
        /// The newest known.
        known: u32,
    },
    /// It is no record.
    #[error("no record: {0}")]
    Broken(String),
}

/// Everything that survives a restart. What an earlier release did not write yet is empty.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub schema: u32,
    /// When it was begun, in seconds since the epoch.
    pub origin: i64,
    pub boot: BootId,
    /// Where each collector's watcher is to go on, by the collector's name.
    pub cursors: BTreeMap<String, Cursor>,
    /// Form 1 knew one watcher, that of the kernel's log.
    #[serde(skip_serializing)]
    cursor: Option<Cursor>,
    pub ledger: Ledger,
    /// Xids of which one source has told and the other has not, of this boot.
    pub faults: Faults,
    pub inventory: Inventory,
    pub incidents: Vec<Incident>,
    pub serial: u64,
    pub dropped: u64,
    pub drain: Drain,
    pub comment: Comment,
    /// Number of the next request to the parent.
    pub actions: u64,
    pub would_drain: BTreeMap<String, u64>,
    pub drains: BTreeMap<String, u64>,
    pub undrains: u64,
    pub overrides: u64,
    /// Conditions that are bad.
    pub bad: BTreeSet<String>,
    /// What each collector has noted for its next worker, by the collector's name.
    pub notes: BTreeMap<String, String>,
    /// RDMA ports and adapters of earlier snapshots.
    pub known: Known,
    /// What each check keeps, by its id. One that cannot be read costs no other.
    pub checks: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Form {
    schema: u32,
}

impl State {
    /// A first start.
    pub(super) fn new(wall: i64) -> Self {
        Self {
            schema: SCHEMA,
            origin: wall,
            ..Self::default()
        }
    }

    /// Reads a record.
    pub(super) fn parse(json: &str) -> Result<Self, RestoreError> {
        let broken = |e: serde_json::Error| RestoreError::Broken(e.to_string());
        let form: Form = serde_json::from_str(json).map_err(broken)?;
        if form.schema > SCHEMA {
            return Err(RestoreError::Newer {
                found: form.schema,
                known: SCHEMA,
            });
        }
        let mut state: Self = serde_json::from_str(json).map_err(broken)?;
        if let Some(cursor) = state.cursor.take() {
            let name = collectors::kernel_log::SPEC.name.to_owned();
            state.cursors.entry(name).or_insert(cursor);
        }
        state.schema = SCHEMA;
        Ok(state)
    }

    /// Writes it.
    pub(super) fn json(&self) -> Arc<str> {
        // Maps have keys that are strings or numbers, and no value can fail: there is nothing to go wrong.
        serde_json::to_string(self).unwrap_or_default().into()
    }
}
