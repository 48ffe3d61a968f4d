//! The lines of one collector on one page, valid while its devices keep their layouts.

use std::collections::HashMap;
use std::sync::Arc;

use collectors::block::MAX_SERIES;
use collectors::{Joined, Label, Series, Tier, Value};

use super::column::Lines;
use super::schema::{Column, Shape, Wanted};
use super::{Defaults, line, number};
use model::snapshot::{CollectorState, DeviceState, Prepared};

/// The plan of one collector.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The shown devices: number and layout. The `Arc` keeps the address from being used again.
    made_for: Vec<(usize, Arc<Prepared>)>,
    columns: Vec<Lines>,
    groups: usize,
    /// Series beyond the limit.
    pub(super) over_limit: u64,
}

impl Plan {
    pub(super) fn fits(&self, collector: &CollectorState, shown: impl Fn(&DeviceState) -> bool) -> bool {
        let mut planned = self.made_for.iter();
        for (number, device) in collector.devices.iter().enumerate().filter(|(_, d)| shown(d)) {
            let same = planned
                .next()
                .is_some_and(|(n, layout)| *n == number && Arc::ptr_eq(layout, &device.layout));
            if !same {
                return false;
            }
        }
        planned.next().is_none()
    }

    /// `complete`: the page shows every metric of the collector's table.
    pub(super) fn new(
        collector: &CollectorState,
        wanted: &Wanted<'_>,
        (complete, defaults): (bool, &Defaults),
        shown: impl Fn(&DeviceState) -> bool,
    ) -> Self {
        let mut plan = Self::default();
        let slots = wanted.values().map(Vec::len).sum();
        plan.columns.resize_with(slots, Lines::default);
        let mut firsts: HashMap<Box<[u8]>, (usize, usize)> = HashMap::new();
        let mut total = 0;
        for (number, device) in collector.devices.iter().enumerate().filter(|(_, d)| shown(d)) {
            plan.made_for.push((number, Arc::clone(&device.layout)));
            let mut room = false;
            for (at, series) in device.layout.series.iter().enumerate() {
                if series.metric.tier == Tier::Private {
                    continue;
                }
                // A histogram is shown whole or not at all.
                if series.is_first() {
                    let slots = series.metric.slots();
                    room = total + slots <= MAX_SERIES;
                    total += if room { slots } else { 0 };
                }
                if !room {
                    plan.over_limit += 1;
                    continue;
                }
                if complete && !wanted.contains_key(series.metric.name) {
                    // Not in the collector's table of metrics: it has no metadata, so it is not shown.
                    plan.over_limit += 1;
                }
                let columns = wanted.get(series.metric.name).into_iter().flatten();
                for column in columns.filter(|column| column.asked) {
                    if let Some(joined) = joined(series, column.shape, &device.layout.series) {
                        plan.add(
                            (number, at),
                            (series, joined),
                            (column.slot, column.shape, defaults),
                            &mut firsts,
                        );
                    }
                }
            }
        }
        plan.columns.iter_mut().for_each(Lines::fit);
        plan
    }

    fn add(
        &mut self,
        (device, at): (usize, usize),
        (series, joined): (&Series, Option<&Series>),
        (slot, shape, defaults): (usize, Shape, &Defaults),
        firsts: &mut HashMap<Box<[u8]>, (usize, usize)>,
    ) {
        let Some(lines) = self.columns.get_mut(slot) else {
            return;
        };
        let place = lines.add((device, at), |text| {
            write_start(series, joined, (shape, defaults), text);
        });
        let Some((other, first)) = firsts.get(lines.start(place)).copied() else {
            firsts.insert(lines.start(place).into(), (slot, place));
            return;
        };
        let other = self.columns.get_mut(other);
        if let Some(group) = other.and_then(|o| o.group(first, self.groups)) {
            self.groups = self.groups.max(group + 1);
            if let Some(lines) = self.columns.get_mut(slot) {
                lines.group(place, group);
            }
        }
    }

    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// One column, if it has lines.
    pub(super) fn column(&self, slot: usize) -> Option<&Lines> {
        self.columns.get(slot).filter(|lines| !lines.is_empty())
    }

    /// Brings the values of one column up to date.
    pub(super) fn refresh(&mut self, column: &Column, collector: &CollectorState, spare: &mut Vec<u8>) {
        if let Some(lines) = self.columns.get_mut(column.slot) {
            // Of a histogram only the sum has a unit; counts are not scaled.
            let is_histogram = column.metric.slots() > 1;
            let scale = column.shape.scale();
            let write = |value, text: &mut Vec<u8>| match value {
                Value::U64(_) if is_histogram => number::value(value, text),
                _ => write_scaled(value, scale, text),
            };
            let is_plain = is_histogram || scale == UNSCALED;
            lines.refresh(collector, is_plain, write, spare);
        }
    }
}

/// The labels of a series, with their names.
fn labels(series: &Series) -> impl Iterator<Item = (&str, &str)> {
    let values = series.labels.iter().map(Label::as_str);
    series.metric.labels.iter().copied().zip(values)
}

fn label<'a>(series: &'a Series, name: &str) -> &'a str {
    labels(series)
        .find(|(n, _)| *n == name)
        .map_or("", |(_, value)| value)
}

/// The series that holds the joined labels of this one, if the shape joins any. The outer `None`: the shape does not
/// show this series.
fn joined<'a>(series: &Series, shape: Shape, all: &'a [Series]) -> Option<Option<&'a Series>> {
    let Shape::Other(alias) = shape else {
        return Some(None);
    };
    if !alias
        .only
        .iter()
        .all(|(name, value)| label(series, name) == value)
    {
        return None;
    }
    let Some(join) = alias.join.map(Joined::row) else {
        return Some(None);
    };
    let same = |other: &&Series| join.by.iter().all(|by| label(other, by) == label(series, by));
    // Without it, the other exporter has no such device: an AMD GPU is not on the page of DCGM.
    let found = all.iter().filter(|other| other.metric == join.info).find(same)?;
    Some(Some(found))
}

fn write_start(
    series: &Series,
    joined: Option<&Series>,
    (shape, defaults): (Shape, &Defaults),
    out: &mut Vec<u8>,
) {
    let metric = series.metric;
    let (name, kind, part) = (shape.name(metric), metric.kind, series.part);
    match shape {
        Shape::Own => {
            let shown = labels(series).filter(|(name, _)| defaults.shows_label(name));
            line::start(name, kind, part, 1.0, shown, out);
        }
        Shape::Other(alias) => {
            let others = alias.join.into_iter().flat_map(|join| join.row().labels);
            let others = others
                .filter(|(_, our)| defaults.shows_label(our))
                .map(|(their, our)| (*their, joined.map_or("", |info| label(info, our))))
                .filter(|(_, value)| !value.is_empty());
            let own = alias
                .labels
                .iter()
                .filter(|(_, our)| defaults.shows_label(our))
                .map(|(their, our)| (their, label(series, our)));
            let fixed = alias.fixed.iter();
            line::start(name, kind, part, alias.scale, others.chain(own).chain(fixed), out);
        }
    }
}

/// The factor of a value that is shown as it is, and whether it is rounded.
const UNSCALED: (f64, bool) = (1.0, false);

/// Writes a value as another exporter counts it. Whole numbers stay whole and exact where that is possible.
pub(super) fn write_scaled(value: Value, (scale, round): (f64, bool), out: &mut Vec<u8>) {
    if (scale, round) == UNSCALED {
        return number::value(value, out);
    }
    let rounded = |v: f64| if round { v.round() } else { v };
    match value {
        Value::U64(v) => {
            let whole = |x: f64| (x.fract() == 0.0 && (1.0..1e15).contains(&x)).then(|| to_u64(x));
            let up = whole(scale).and_then(|s| v.checked_mul(s));
            let down = whole(1.0 / scale).and_then(|s| (v % s == 0).then_some(v / s));
            match up.or(down) {
                Some(exact) => number::u64(exact, out),
                None => number::f64(rounded(to_f64(v) * scale), out),
            }
        }
        Value::F64(v) => number::f64(rounded(v * scale), out),
        Value::Absent => {}
    }
}

#[expect(clippy::cast_sign_loss, reason = "the caller has looked")]
fn to_u64(x: f64) -> u64 {
    x as u64
}

#[expect(clippy::cast_precision_loss, reason = "the formats' numbers are real ones")]
fn to_f64(v: u64) -> f64 {
    v as f64
}
