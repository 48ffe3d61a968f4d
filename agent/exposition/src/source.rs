//! The input of a page.

use std::sync::Arc;

use model::jobs::Hidden;
use model::snapshot::Snapshot;

use super::{Defaults, Writer};

/// The series of one collector that the last write of a page dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Series beyond [`collectors::block::MAX_SERIES`].
    pub over_limit: u64,
    /// Series with the same name and labels as an earlier one.
    pub duplicates: u64,
}

/// The series that each page dropped; see [`super::Encoder::dropped`].
pub type Left<'a> = [(&'static str, &'a [Dropped])];

/// A node at one moment.
pub trait Source {
    /// The readings of its collectors.
    fn snapshot(&self) -> &Snapshot;

    /// The selection for a request without parameters.
    fn defaults(&self) -> Arc<Defaults>;

    /// The jobs that have no series, because there are more than `max_jobs`.
    fn hidden(&self) -> Hidden;

    /// Appends the families that no collector reads to the page `page`, after those of the collectors.
    fn families(&self, page: &'static str, left: &Left<'_>, hidden: &Hidden, w: &mut Writer<'_>);
}
