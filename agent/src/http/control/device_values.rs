//! The readings of one device, for status pages.

use collectors::{Label, Metric, Value};
use model::snapshot::DeviceState;

/// The readings of one device, if they may be shown.
pub(super) struct DeviceValues<'a>(pub(super) Option<&'a DeviceState>);

impl DeviceValues<'_> {
    /// The series of a metric: labels and value.
    pub(super) fn all(&self, metric: &'static Metric) -> impl Iterator<Item = (&[Label], f64)> {
        let told = self.0.into_iter();
        let series = told.flat_map(|d| d.layout.series.iter().zip(d.values.iter()));
        series.filter_map(move |(series, value)| {
            #[expect(clippy::cast_precision_loss, reason = "for display")]
            let value = match value {
                Value::U64(v) => *v as f64,
                Value::F64(v) => *v,
                Value::Absent => return None,
            };
            (series.metric == metric).then_some((&*series.labels, value))
        })
    }

    /// The sum of a metric's series; `None`: it has none.
    pub(super) fn sum(&self, metric: &'static Metric) -> Option<f64> {
        self.all(metric).map(|(_, v)| v).reduce(|a, b| a + b)
    }

    /// Whether that sum is above 0.
    pub(super) fn is(&self, metric: &'static Metric) -> bool {
        self.sum(metric).is_some_and(|v| v > 0.0)
    }

    /// A label of the first series of a metric.
    pub(super) fn label(&self, metric: &'static Metric, label: &str) -> Option<String> {
        let at = metric.labels.iter().position(|l| *l == label)?;
        self.all(metric).next()?.0.get(at).map(ToString::to_string)
    }
}
