//! The site's configuration for checks.

use std::sync::Arc;

use super::settings::Settings;
use super::xids::Table;

/// The part of the configuration that checks use.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The keys of `[health]`.
    pub settings: Settings,
    /// The Xid table in force.
    pub xids: Arc<Table>,
}
