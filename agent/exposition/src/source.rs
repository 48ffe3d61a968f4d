//! What a page is written from.

use std::sync::Arc;

use model::jobs::Hidden;
use model::snapshot::Snapshot;

use super::{Defaults, Dropped, Writer};

/// What every page left out, as [`super::Encoder::dropped`] has it.
pub type Left<'a> = [(&'static str, &'a [Dropped])];

/// A node at one moment.
pub trait Source {
    /// Its readings.
    fn snapshot(&self) -> &Snapshot;

    /// What is shown where a request asks for nothing in particular.
    fn defaults(&self) -> Arc<Defaults>;

    /// The jobs that have no series of their own.
    fn hidden(&self) -> Hidden;

    /// Appends what no collector reads to the page of that name, behind the families of the collectors.
    fn families(&self, page: &'static str, left: &Left<'_>, hidden: &Hidden, w: &mut Writer<'_>);
}
