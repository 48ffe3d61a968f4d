//! The `nodewarden` daemon. Data flow: workers read the node ([`collectors`]), the daemon keeps snapshot and ledger
//! ([`model`], [`daemon`]), [`health`] turns them into verdicts, and the [`parent`] carries out the few actions.
//! [`exposition`] and [`http`] show the state to Prometheus, [`cli`] to people.

#![forbid(unsafe_code)]

pub mod audit;
mod bucket;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod figures;
mod helper;
pub mod http;
pub mod link;
pub mod own;
pub mod parent;
mod random;
pub mod refusals;
pub mod runner;
pub mod screen;
pub mod web;
pub mod worker;

/// Identifies a build: parent, daemon and workers of different builds do not talk to each other.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NODEWARDEN_BUILD"));
