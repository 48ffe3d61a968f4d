//! Facts that need two workers, computed by pure functions of snapshot and ledger.

pub mod affinity;
pub mod xid;
