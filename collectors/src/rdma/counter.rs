//! The counters of one folder, each with its metric.

use std::cell::OnceCell;
use std::path::Path;
use std::time::Instant;

use super::attribute::{Attribute, AttributeFiles};
use super::metrics;
use super::metrics::drivers::Means;
use super::metrics::{COUNTER_SATURATED, Width};
use super::text::{Reason, number};
use crate::block::Mark;
use crate::sys::root;
use crate::{Block, Error, Metric, Value};

/// One file of a folder of counters.
pub(super) struct Counter {
    file: Attribute,
    pub(super) meaning: Meaning,
}

/// How a counter is shown.
pub(super) struct Meaning {
    /// The driver's name for it.
    pub(super) name: Box<str>,
    /// Its metric.
    pub(super) metric: &'static Metric,
    /// Whether the metric has the counter's name as last label.
    pub(super) is_named: bool,
    /// False if the name misdescribes the value, or occurs twice.
    pub(super) is_shown: bool,
    /// Those of its series and of the flag that it is at its maximum, since the first reading.
    marks: OnceCell<[Mark; 2]>,
    scale: u32,
    /// Decides at which value it stops counting.
    width: Width,
}

/// The value of a counter.
pub(super) struct CounterReading {
    pub(super) value: Value,
    /// Whether it is at its maximum; `None` if that is unknown.
    pub(super) is_saturated: Option<bool>,
}

impl Counter {
    /// Reads it.
    #[inline]
    pub(super) fn read(&mut self, now: Instant) -> Result<CounterReading, Reason> {
        let count = self.file.read(now, number)?;
        self.meaning.reading(count)
    }
}

impl Meaning {
    /// The meaning of a driver's counter, given those before it. If one of them already has its metric, this one is
    /// shown under its own name.
    pub(super) fn new<'a>(
        name: String,
        means: Means,
        before: impl Iterator<Item = &'a Self> + Clone,
    ) -> Self {
        let row = means.row.filter(|row| before.clone().all(|m| !m.is(row.metric)));
        Self {
            metric: row.map_or(means.own, |r| r.metric),
            is_named: row.is_none(),
            is_shown: before.clone().all(|m| *m.name != name),
            scale: row.map_or(1, |r| r.scale),
            width: row.map_or(Width::Wide, |_| means.width),
            marks: OnceCell::new(),
            name: name.into(),
        }
    }

    /// A counter whose name misdescribes its value.
    pub(super) fn nothing(name: String) -> Self {
        Self {
            name: name.into(),
            metric: &metrics::HW_COUNTER,
            is_named: true,
            is_shown: false,
            scale: 1,
            width: Width::Wide,
            marks: OnceCell::new(),
        }
    }

    /// Whether it becomes this metric without its name as a label.
    pub(super) fn is(&self, metric: &'static Metric) -> bool {
        !self.is_named && std::ptr::eq(self.metric, metric)
    }

    /// Adds it to the series of a port, which is the same at every reading.
    #[inline]
    pub(super) fn push(&self, port: [&str; 2], value: Value, is_saturated: Option<bool>, out: &mut Block) {
        let [own, flag] = *self.marks.get_or_init(|| self.marks_of(port));
        if !out.again(own, value) {
            self.add(own, port, value, out);
        }
        if self.clamps() {
            let value = match is_saturated {
                Some(true) => Value::U64(1),
                _ => Value::Absent,
            };
            if !out.again(flag, value) {
                let [device, port] = port;
                out.push_marked(flag, &COUNTER_SATURATED, &[device, port, &*self.name], value);
            }
        }
    }

    #[cold]
    fn add(&self, mark: Mark, [device, port]: [&str; 2], value: Value, out: &mut Block) {
        if self.is_named {
            out.push_marked(mark, self.metric, &[device, port, &*self.name], value);
        } else {
            out.push_marked(mark, self.metric, &[device, port], value);
        }
    }

    #[cold]
    fn marks_of(&self, [device, port]: [&str; 2]) -> [Mark; 2] {
        let named = &[device, port, &*self.name][..];
        let labels = if self.is_named { named } else { &[device, port] };
        [Mark::of(self.metric, labels), Mark::of(&COUNTER_SATURATED, named)]
    }

    /// Whether it stops counting at some value.
    #[inline]
    pub(super) fn clamps(&self) -> bool {
        self.width.maximum().is_some()
    }

    /// The reading for a count.
    #[inline]
    pub(super) fn reading(&self, count: u64) -> Result<CounterReading, Reason> {
        let value = count.checked_mul(self.scale.into()).ok_or(Reason::Malformed)?;
        Ok(CounterReading {
            value: Value::U64(value),
            is_saturated: self.width.is_saturated(count),
        })
    }
}

/// The counters of a folder, by name; the one first that makes mlx5 fill the kernel's cache of all of them. In
/// another order, each of the 90 files costs up to 3 firmware commands.
pub(super) fn of(
    folder: &Path,
    means: impl Fn(&str) -> Option<Means>,
    files: &AttributeFiles,
) -> Result<Vec<Counter>, Error> {
    let mut counters: Vec<Counter> = Vec::new();
    for name in names(folder)? {
        // A setting, not a counter.
        if name == "lifespan" {
            continue;
        }
        if let Some(means) = means(&name) {
            counters.push(Counter {
                file: files.attribute(folder.join(&name)),
                meaning: Meaning::new(name, means, counters.iter().map(|c| &c.meaning)),
            });
        }
    }
    counters.sort_by_key(|c| &*c.meaning.name != "rx_write_requests");
    Ok(counters)
}

/// The files of a folder; none if the driver has no such folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let mut names = root::list(folder)?.unwrap_or_default();
    names.retain(|n| n.len() <= 128 && !n.chars().any(char::is_control));
    Ok(names)
}
