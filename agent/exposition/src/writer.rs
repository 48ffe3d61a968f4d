//! Writes families that no collector reads: the header once, and only selected metrics.

use std::collections::BTreeSet;

use collectors::{Metric, Part, Value};

use super::starts::Starts;
use super::{Format, Shown, number};

/// A page under construction.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    format: Format,
    shown: Shown<'a>,
    starts: &'a mut Starts,
    seen: BTreeSet<Vec<u8>>,
}

/// One family under construction.
pub struct Family<'a, 'b> {
    writer: &'a mut Writer<'b>,
    metric: &'static Metric,
    headed: bool,
}

impl<'b> Writer<'b> {
    pub(super) fn new(
        out: &'b mut Vec<u8>,
        format: Format,
        shown: Shown<'b>,
        starts: &'b mut Starts,
    ) -> Self {
        Self {
            out,
            format,
            shown,
            starts,
            seen: BTreeSet::new(),
        }
    }

    /// The selection of the request.
    pub fn shown(&self) -> Shown<'b> {
        self.shown
    }

    /// The page and its format, for a family that has no row in a table of metrics.
    pub fn raw(&mut self) -> (Format, &mut Vec<u8>) {
        (self.format, self.out)
    }

    /// Writes a family if it is selected: its header before its first series.
    pub fn family(&mut self, metric: &'static Metric, fill: impl FnOnce(&mut Family<'_, 'b>)) {
        if self.shown.metric(metric) {
            self.seen.clear();
            fill(&mut Family {
                writer: self,
                metric,
                headed: false,
            });
        }
    }
}

impl Family<'_, '_> {
    /// Writes a series with a whole number.
    pub fn u64(&mut self, labels: &[&str], value: u64) {
        self.put(labels, Value::U64(value));
    }

    /// Writes a series. The caller writes each series once.
    pub fn put(&mut self, labels: &[&str], value: Value) {
        self.start(labels, Part::Whole);
        self.end(value);
    }

    /// Writes a series unless it was written before: for lists of another source, which may hold duplicates.
    pub fn once(&mut self, labels: &[&str], value: Value) {
        self.head();
        let before = self.writer.out.len();
        self.start(labels, Part::Whole);
        let line = self.writer.out.get(before..).unwrap_or_default().to_vec();
        if self.writer.seen.insert(line) {
            self.end(value);
        } else {
            self.writer.out.truncate(before);
        }
    }

    /// Writes a histogram. `buckets` are cumulative, one for each bound of the metric.
    pub fn histogram(&mut self, labels: &[&str], buckets: impl Iterator<Item = u64>, sum: f64, count: u64) {
        for (at, seen) in (0..).zip(buckets.chain([count])) {
            self.start(labels, Part::Bucket(at));
            self.end(Value::U64(seen));
        }
        self.start(labels, Part::Sum);
        self.end(Value::F64(sum));
        self.start(labels, Part::Count);
        self.end(Value::U64(count));
    }

    fn head(&mut self) {
        if !self.headed {
            self.headed = true;
            let writer = &mut *self.writer;
            writer.starts.header(self.metric, writer.format, writer.out);
        }
    }

    fn start(&mut self, labels: &[&str], part: Part) {
        self.head();
        let writer = &mut *self.writer;
        writer.starts.start(self.metric, part, labels, writer.out);
    }

    fn end(&mut self, value: Value) {
        number::value(value, self.writer.out);
        self.writer.out.push(b'\n');
    }
}
