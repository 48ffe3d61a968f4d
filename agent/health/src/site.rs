//! What checks are told of the site's configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use collectors::PciAddress;

use super::Mode;
use super::settings::Rdma;
use super::xids::Table;

/// The part of the configuration that checks go by.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Check id -> mode, in place of the check's own default.
    pub checks: BTreeMap<String, Mode>,
    /// The GPUs that must be there.
    pub gpu_addresses: Vec<PciAddress>,
    /// How RDMA adapters are meant to be.
    pub rdma: Rdma,
    /// The Xid table in force.
    pub xids: Arc<Table>,
}
