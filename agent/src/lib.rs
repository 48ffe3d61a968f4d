//! The `nodewarden` daemon. One way through it: workers read the node ([`collectors`]), the core keeps snapshot and
//! ledger ([`core`]), health turns them into verdicts ([`health`]), and the parent carries out the few acts there are
//! ([`actions`]). [`exposition`] and [`http`] show it to Prometheus, [`cli`] to people.

pub mod actions;
pub mod cli;
pub mod config;
pub mod core;
pub mod exposition;
pub mod health;
pub mod http;
pub mod link;
pub mod parent;
pub mod sys;
pub mod worker;

/// What tells one build from another: parent, daemon and workers of different builds do not talk to each other.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NODEWARDEN_BUILD"));

/// Drops a result on purpose. The caller says in a comment why nothing can be done about an error.
pub(crate) fn ignore<T, E>(_: Result<T, E>) {}
