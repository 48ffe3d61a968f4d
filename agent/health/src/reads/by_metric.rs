//! The series of one device, found by metric.

use collectors::Metric;
use model::places::Places;
use model::snapshot::Sample;

/// Series in the order in which they were read.
#[derive(Debug)]
pub(crate) struct ByMetric<'a> {
    samples: Vec<Sample<'a>>,
    places: Places,
}

impl<'a> ByMetric<'a> {
    pub(crate) fn new(samples: Vec<Sample<'a>>) -> Self {
        let places = Places::of(samples.iter().map(|s| s.metric));
        Self { samples, places }
    }

    /// The series of a metric.
    pub(crate) fn all(&self, metric: &'static Metric) -> impl Iterator<Item = &Sample<'a>> {
        self.places
            .all(metric)
            .filter_map(|place| self.samples.get(place))
    }

    /// The only series of a metric.
    pub(crate) fn one(&self, metric: &'static Metric) -> Option<&Sample<'a>> {
        self.all(metric).next()
    }
}
