//! The reading of one device as it is sent: a layout (its series) and the values in the same order.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ptr;
use std::sync::Arc;

use foldhash::quality::FixedState;

use crate::Error;
use crate::budget::DeviceShare;
use crate::label::{Label, Labels};
use crate::metric::{Kind, Metric};

pub use crate::budget::{MAX_LABEL_BYTES, MAX_SERIES, SeriesBudget};

/// One value. A value that could not be read is [`Value::Absent`], never 0. A histogram is several values: one for each
/// [`Part`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    U64(u64),
    /// A real number.
    F64(f64),
    /// Unreadable, or not offered by this device.
    Absent,
}

/// The part of a metric that one series holds. Only histograms have several parts, so every value is one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The whole metric.
    Whole,
    /// The bucket of a histogram up to this bound, cumulative; the index after the last bound is +Inf.
    Bucket(u16),
    /// The sum of a histogram's readings.
    Sum,
    /// The number of a histogram's readings.
    Count,
}

/// One series of a layout: a metric and its label values, in the order of [`Metric::labels`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The row of the metric table.
    pub metric: &'static Metric,
    /// Label values.
    pub labels: Arc<[Label]>,
    /// The part of the metric.
    pub part: Part,
}

impl Series {
    /// All series of one set of label values in a layout, in order.
    pub fn all(metric: &'static Metric, labels: Arc<[Label]>) -> impl Iterator<Item = Self> {
        parts(metric).map(move |part| Self {
            metric,
            labels: Arc::clone(&labels),
            part,
        })
    }

    /// Whether this is the first series of a set of label values.
    pub fn is_first(&self) -> bool {
        matches!(self.part, Part::Whole | Part::Bucket(0))
    }
}

/// The parts of a metric, in the order of a layout.
fn parts(metric: &Metric) -> impl Iterator<Item = Part> + use<> {
    let buckets = match metric.kind {
        Kind::Histogram(buckets) => u16::try_from(buckets.bounds().len()).ok(),
        Kind::Counter | Kind::Gauge | Kind::Info => None,
    };
    let histogram = buckets.into_iter().flat_map(|last| {
        let ends = [Part::Sum, Part::Count];
        (0..=last).map(Part::Bucket).chain(ends)
    });
    let whole = buckets.is_none().then_some(Part::Whole);
    whole.into_iter().chain(histogram)
}

/// The values of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Histogram<'a> {
    /// For each bound of the metric, the number of readings at or below it. +Inf is [`Histogram::count`].
    pub buckets: &'a [u64],
    /// The sum of all readings, in the metric's unit.
    pub sum: f64,
    /// The number of readings.
    pub count: u64,
}

impl Histogram<'_> {
    fn value(&self, part: Part) -> Value {
        match part {
            Part::Bucket(at) => Value::U64(self.buckets.get(usize::from(at)).copied().unwrap_or(self.count)),
            Part::Sum => Value::F64(self.sum),
            Part::Count | Part::Whole => Value::U64(self.count),
        }
    }
}

/// The series that a block holds, in order.
pub type Layout = Vec<Series>;

/// The reading of one device, filled in order at every reading. While it names the same series in the same order,
/// the layout stays the same object and nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Block {
    layout: Arc<Layout>,
    /// Texts of the series that this reading adds; `None` while it adds none.
    labels: Option<Box<Labels>>,
    /// Whether this reading has changed the layout.
    changed: bool,
    /// One for each series of the layout.
    marks: Vec<Mark>,
    /// That of the last value: the series of a device have the same first label.
    first: Box<FirstLabel>,
    values: Vec<Value>,
    /// This block's share of its collector's series budget.
    share: DeviceShare,
    refused: u64,
    fault: Option<Fault>,
}

/// A label, and what marks begin with for it.
#[derive(Clone, Debug, Default)]
struct FirstLabel {
    text: String,
    begin: Option<u64>,
}

/// Why a reading with values is incomplete: the state of the device could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The value of the `reason` label.
    pub reason: &'static str,
    /// The text.
    pub text: String,
}

impl Block {
    /// An empty block that shares a limit with the other devices of its collector.
    pub fn within(budget: &Arc<SeriesBudget>) -> Self {
        Self {
            share: DeviceShare::of(budget),
            ..Self::default()
        }
    }

    /// Starts a new reading. The previous layout is kept for comparison.
    pub fn clear(&mut self) {
        self.values.clear();
        self.labels = None;
        self.changed = false;
        self.refused = 0;
        self.fault = None;
    }

    /// Marks the reading as incomplete: the device is not up, and the values that could be read are shown.
    pub fn incomplete(&mut self, error: &Error) {
        self.fault = Some(Fault {
            reason: error.reason(),
            text: error.to_string(),
        });
    }

    /// Why the reading is incomplete, if it is.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Adds one value.
    pub fn push(&mut self, metric: &'static Metric, labels: &[&str], value: Value) {
        debug_assert_eq!(metric.slots(), 1, "{} is a histogram", metric.name);
        let mark = self.mark(metric, labels);
        self.put(mark, metric, labels, 1, |_| value);
    }

    /// As [`Mark::of`].
    fn mark(&mut self, metric: &'static Metric, labels: &[&str]) -> Mark {
        let Some((label, others)) = labels.split_first() else {
            return Mark::of(metric, labels);
        };
        let first = &mut self.first;
        if first.text != *label {
            first.text.clear();
            first.text.push_str(label);
            first.begin = None;
        }
        let begin = *first.begin.get_or_insert_with(|| Mark::begin(label));
        Mark::after(begin, metric, others)
    }

    /// Adds one value if the series of this mark is the next one of the layout, as at nearly every reading.
    #[inline]
    pub fn again(&mut self, mark: Mark, value: Value) -> bool {
        let is_next = self.refused == 0 && self.marks.get(self.values.len()) == Some(&mark);
        if is_next {
            self.values.push(value);
        }
        is_next
    }

    /// [`Self::push`] with the mark of this metric and these labels, kept since an earlier reading.
    pub fn push_marked(&mut self, mark: Mark, metric: &'static Metric, labels: &[&str], value: Value) {
        debug_assert_eq!(mark, Mark::of(metric, labels), "{} {labels:?}", metric.name);
        self.put(mark, metric, labels, 1, |_| value);
    }

    /// Adds a histogram, or its absence.
    pub fn histogram(&mut self, metric: &'static Metric, labels: &[&str], seen: Option<Histogram<'_>>) {
        debug_assert!(metric.slots() > 1, "{} is no histogram", metric.name);
        let mark = self.mark(metric, labels);
        self.put(mark, metric, labels, metric.slots(), |part| {
            seen.map_or(Value::Absent, |h| h.value(part))
        });
    }

    fn put(
        &mut self,
        mark: Mark,
        metric: &'static Metric,
        labels: &[&str],
        slots: usize,
        value: impl Fn(Part) -> Value,
    ) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        // After the first refusal all further series are refused, so the layout is the same at every reading.
        if self.refused > 0 {
            self.refused += slots as u64;
            return;
        }
        let at = self.values.len();
        if self.marks.get(at) != Some(&mark) {
            self.cut(at);
            let bytes: usize = labels.iter().map(|l| l.len()).sum();
            if !self.share.take(slots, bytes * slots) {
                self.refused += slots as u64;
                return;
            }
            self.changed = true;
            let labels = self.labels.get_or_insert_default().of(labels);
            Arc::make_mut(&mut self.layout).extend(Series::all(metric, labels));
            let parts = (0..slots as u64).map(|part| mark.part(part));
            self.marks.extend(parts);
        }
        if slots == 1 {
            self.values.push(value(Part::Whole));
            return;
        }
        let layout = self.layout.get(at..at + slots).unwrap_or_default();
        self.values.extend(layout.iter().map(|s| value(s.part)));
    }

    /// Counts series as refused that a device leaves out to leave room for others of its collector. All that follow are refused.
    pub(crate) fn refuse(&mut self, series: u64) {
        self.refused += series;
    }

    /// Adds a whole number.
    pub fn u64(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        self.push(metric, labels, Value::U64(value));
    }

    /// Adds a whole number that may be absent.
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

    /// Ends a reading: series of the previous reading that this one did not name leave the layout.
    pub fn finish(&mut self) {
        self.cut(self.values.len());
        self.labels = None;
        if std::mem::take(&mut self.changed) {
            Arc::make_mut(&mut self.layout).shrink_to_fit();
            self.marks.shrink_to_fit();
            self.values.shrink_to_fit();
        }
    }

    fn cut(&mut self, at: usize) {
        let Some(gone @ [_, ..]) = self.layout.get(at..) else {
            return;
        };
        let bytes = gone.iter().flat_map(|s| s.labels.iter()).map(|l| l.len()).sum();
        self.share.give(gone.len(), bytes);
        self.changed = true;
        Arc::make_mut(&mut self.layout).truncate(at);
        self.marks.truncate(at);
    }

    /// The series of this reading.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The values, in the order of the layout.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Series of this reading that were refused because the collector reached [`MAX_SERIES`] or
    /// [`MAX_LABEL_BYTES`], or would have.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Series and values side by side.
    pub fn iter(&self) -> impl Iterator<Item = (&Series, Value)> {
        self.layout.iter().zip(self.values.iter().copied())
    }
}

/// Identifies a set of label values of a metric: a 64-bit hash in which every bit depends on every value. Comparing labels
/// instead would walk over 700 strings that have left the processor's caches since the last reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The mark of a metric with these label values.
    pub fn of(metric: &'static Metric, labels: &[&str]) -> Self {
        match labels.split_first() {
            Some((label, others)) => Self::after(Self::begin(label), metric, others),
            None => Self::after(0, metric, &[]),
        }
    }

    /// The part of the first label.
    fn begin(label: &str) -> u64 {
        FixedState::default().hash_one(label)
    }

    fn after(begin: u64, metric: &'static Metric, others: &[&str]) -> Self {
        let mut hasher = FixedState::default().build_hasher();
        (begin, ptr::from_ref(metric).addr()).hash(&mut hasher);
        for label in others {
            label.hash(&mut hasher);
        }
        Self(hasher.finish())
    }

    /// That of a part of the metric.
    const fn part(self, part: u64) -> Self {
        Self(self.0.wrapping_add(part))
    }
}

#[cfg(test)]
mod tests;
