//! The `ethernet` table of the configuration, and the rules of `rdma` that this collector keeps too.

use serde::Deserialize;

use crate::rdma::settings::RdmaSettings as Ports;
use crate::{Error, Settings};

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct EthernetSettings {
    /// Whether drivers of network interfaces are asked at all.
    pub(super) enabled: bool,
}

impl Default for EthernetSettings {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Which ports are looked at: those that the rdma collector reads. What it leaves out, such as ports of storage, is not
/// touched here either.
///
/// # Errors
/// When the table of `rdma` cannot be read.
pub(super) fn ports(settings: &Settings) -> Result<Ports, Error> {
    settings.of(crate::rdma::SPEC.name).get()
}
