//! The data of a node: its readings ([`snapshot`]), its counted events ([`ledger`]), series derived from both
//! ([`derive`]), the results of the site's commands ([`commands`]), the owners of its GPUs ([`ownership`]), the use by jobs ([`jobs`]), and the vocabulary of its scheduler
//! ([`scheduler`]). Pure: no I/O, no clock, no randomness.

#![forbid(unsafe_code)]

pub mod commands;
pub mod derive;
pub mod figures;
pub mod filter;
pub mod jobs;
pub mod ledger;
pub mod ownership;
pub mod places;
pub mod readings;
pub mod scheduler;
pub mod snapshot;

#[cfg(any(test, feature = "testing"))]
pub mod sample;
