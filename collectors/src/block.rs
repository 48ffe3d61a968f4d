//! What a device's reading looks like on its way out: a layout (which series) and values in the same order.

use std::sync::Arc;

use crate::metric::Metric;

/// One value. A value that could not be read is [`Value::Absent`], never 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    U64(u64),
    /// A real number.
    F64(f64),
    /// Not read, or not offered by this device.
    Absent,
}

/// One series of a layout: a metric and its label values, in the order of [`Metric::labels`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The row of the metric table.
    pub metric: &'static Metric,
    /// Label values.
    pub labels: Vec<String>,
}

/// Which series a block holds, in order.
pub type Layout = Vec<Series>;

/// The reading of one device. A device fills it from front to back at every reading; while it names the same series
/// in the same order the layout stays the same object and nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Block {
    layout: Arc<Layout>,
    values: Vec<Value>,
}

impl Block {
    /// Starts a new reading; the layout of the last one is kept for comparison.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Adds one value.
    pub fn push(&mut self, metric: &'static Metric, labels: &[&str], value: Value) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let at = self.values.len();
        let known = self.layout.get(at).is_some_and(|s| {
            s.metric == metric
                && s.labels.len() == labels.len()
                && s.labels.iter().zip(labels).all(|(have, want)| have == want)
        });
        if !known {
            let layout = Arc::make_mut(&mut self.layout);
            layout.truncate(at);
            layout.push(Series {
                metric,
                labels: labels.iter().map(|l| (*l).to_owned()).collect(),
            });
        }
        self.values.push(value);
    }

    /// Adds a whole number.
    pub fn u64(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        self.push(metric, labels, Value::U64(value));
    }

    /// Adds a whole number that may be missing.
    pub fn maybe_u64(&mut self, metric: &'static Metric, labels: &[&str], value: Option<u64>) {
        self.push(metric, labels, value.map_or(Value::Absent, Value::U64));
    }

    /// Adds a real number.
    pub fn f64(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        self.push(metric, labels, Value::F64(value));
    }

    /// Adds the series of an info metric.
    pub fn info(&mut self, metric: &'static Metric, labels: &[&str]) {
        self.push(metric, labels, Value::U64(1));
    }

    /// Ends a reading: series that the last reading had and this one did not name leave the layout.
    pub fn finish(&mut self) {
        if self.layout.len() > self.values.len() {
            Arc::make_mut(&mut self.layout).truncate(self.values.len());
        }
    }

    /// Which series this reading holds.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The values, in the order of the layout.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Series and values side by side.
    pub fn iter(&self) -> impl Iterator<Item = (&Series, Value)> {
        self.layout.iter().zip(self.values.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Kind, Tier, Unit};

    static M: Metric = Metric {
        name: "m",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["l"],
        help: "M.",
        tier: Tier::Core,
        source: "test",
        aliases: &[],
    };

    #[test]
    fn an_unchanged_reading_keeps_the_layout_object() {
        let mut block = Block::default();
        block.u64(&M, &["a"], 1);
        block.u64(&M, &["b"], 2);
        block.finish();
        let first = Arc::clone(block.layout());
        block.clear();
        block.u64(&M, &["a"], 3);
        block.push(&M, &["b"], Value::Absent);
        block.finish();
        assert!(Arc::ptr_eq(&first, block.layout()));
        assert_eq!(block.values(), [Value::U64(3), Value::Absent]);
    }

    #[test]
    fn a_series_that_is_not_named_again_leaves_the_layout() {
        let mut block = Block::default();
        block.u64(&M, &["a"], 1);
        block.u64(&M, &["b"], 2);
        block.finish();
        block.clear();
        block.u64(&M, &["b"], 2);
        block.finish();
        assert_eq!(block.layout().len(), 1);
        assert_eq!(block.layout()[0].labels, ["b"]);
    }
}
