//! Facts that need two workers, computed by pure functions of snapshot and ledger.

pub mod affinity;
pub mod jobs;
pub mod owners;
pub mod runs;
pub mod xid;
