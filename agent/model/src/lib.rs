//! What the node looks like and what has happened on it: [`snapshot`] and [`ledger`], what is derived from them
//! ([`derive`]), who owns which GPU ([`ownership`]), what jobs use ([`jobs`]), and the vocabulary of its scheduler ([`scheduler`]). Pure: no I/O, no clock,
//! no randomness.

#![forbid(unsafe_code)]

pub mod derive;
pub mod figures;
pub mod filter;
pub mod jobs;
pub mod ledger;
pub mod ownership;
pub mod scheduler;
pub mod snapshot;

#[cfg(any(test, feature = "testing"))]
pub mod sample;
