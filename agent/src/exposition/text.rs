//! The text format 0.0.4 over a snapshot. What a scrape writes is planned once per set of layouts; after that a scrape
//! formats numbers.

use std::collections::HashSet;
use std::sync::Arc;

use collectors::{Kind, Metric, Tier, Value};

use super::number;
use crate::core::snapshot::{CollectorState, DeviceState, Prepared, Snapshot};

/// What the text is, as HTTP says it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The most series of one collector that are served.
pub const MAX_SERIES: usize = 20_000;

/// What one exposition left out, per collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Series beyond [`MAX_SERIES`].
    pub over_limit: u64,
    /// Series that another device had shown already.
    pub duplicates: u64,
}

/// Where one sample comes from.
#[derive(Clone, Copy)]
struct Entry {
    device: usize,
    series: usize,
    /// Another entry of the family has the same prefix.
    repeated: bool,
}

struct Family {
    metric: &'static Metric,
    header: String,
    entries: Vec<Entry>,
}

/// What is written for one collector, while its devices keep their layouts.
#[derive(Default)]
struct Plan {
    /// The shown devices: number and layout. The `Arc` keeps the address from being used again.
    made_for: Vec<(usize, Arc<Prepared>)>,
    families: Vec<Family>,
    over_limit: u64,
}

/// Writes expositions. Keeps the plans, so one lives as long as the server.
#[derive(Default)]
pub struct Encoder {
    plans: Vec<Plan>,
}

impl Encoder {
    /// Appends every family of the collectors up to `tier`, in the order of the metric tables. Returns what was left
    /// out, by collector, in the order of the snapshot.
    pub fn collectors(&mut self, snapshot: &Snapshot, tier: Tier, out: &mut String) -> Vec<Dropped> {
        self.plans.resize_with(snapshot.collectors.len(), Plan::default);
        let mut dropped = Vec::with_capacity(self.plans.len());
        for (plan, collector) in self.plans.iter_mut().zip(&snapshot.collectors) {
            let shown = |d: &DeviceState| d.shown(snapshot.at, collector.max_age());
            if !plan.fits(collector, shown) {
                *plan = Plan::new(collector, shown);
            }
            dropped.push(Dropped {
                over_limit: plan.over_limit,
                duplicates: plan.write(collector, tier, out),
            });
        }
        dropped
    }
}

impl Plan {
    fn fits(&self, collector: &CollectorState, shown: impl Fn(&DeviceState) -> bool) -> bool {
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

    fn new(collector: &CollectorState, shown: impl Fn(&DeviceState) -> bool) -> Self {
        let mut plan = Self {
            families: collector.spec.metrics.iter().map(|m| Family::new(m)).collect(),
            ..Self::default()
        };
        let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
        let mut total = 0;
        for (number, device) in collector.devices.iter().enumerate().filter(|(_, d)| shown(d)) {
            plan.made_for.push((number, Arc::clone(&device.layout)));
            for (at, series) in device.layout.series.iter().enumerate() {
                if series.metric.tier == Tier::Private {
                    continue;
                }
                if total == MAX_SERIES {
                    plan.over_limit += 1;
                    continue;
                }
                let Some(family) = plan.families.iter_mut().find(|f| f.metric == series.metric) else {
                    // Not in the collector's table: nobody described it, so nobody is shown it.
                    plan.over_limit += 1;
                    continue;
                };
                total += 1;
                if let Some(prefix) = device.layout.prefixes.get(at)
                    && !seen.insert(prefix.clone())
                {
                    repeated.insert(prefix.clone());
                }
                family.entries.push(Entry {
                    device: number,
                    series: at,
                    repeated: false,
                });
            }
        }
        if !repeated.is_empty() {
            for entry in plan.families.iter_mut().flat_map(|f| &mut f.entries) {
                let device = collector.devices.get(entry.device);
                let prefix = device.and_then(|d| d.layout.prefixes.get(entry.series));
                entry.repeated = prefix.is_some_and(|p| repeated.contains(p));
            }
        }
        plan.families.retain(|f| !f.entries.is_empty());
        plan
    }

    /// Writes the samples that have a value; of series with one name the first wins. Returns how many lost.
    fn write(&self, collector: &CollectorState, tier: Tier, out: &mut String) -> u64 {
        let (mut duplicates, mut written) = (0, HashSet::new());
        for family in self.families.iter().filter(|f| f.metric.tier <= tier) {
            let mut headed = false;
            for entry in &family.entries {
                let Some(device) = collector.devices.get(entry.device) else {
                    continue;
                };
                let value = device.values.get(entry.series).copied().unwrap_or(Value::Absent);
                let Some(prefix) = device.layout.prefixes.get(entry.series) else {
                    continue;
                };
                if value == Value::Absent {
                    continue;
                }
                if entry.repeated && !written.insert(prefix) {
                    duplicates += 1;
                    continue;
                }
                if !headed {
                    headed = true;
                    out.push_str(&family.header);
                }
                out.push_str(prefix);
                number::value(value, out);
                out.push('\n');
            }
        }
        duplicates
    }
}

impl Family {
    fn new(metric: &'static Metric) -> Self {
        let mut text = String::new();
        header(metric, &mut text);
        Self {
            metric,
            header: text,
            entries: Vec::new(),
        }
    }
}

/// Writes the HELP and TYPE lines of a family.
pub fn header(metric: &Metric, out: &mut String) {
    out.push_str("# HELP ");
    out.push_str(metric.name);
    out.push(' ');
    for c in metric.help.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push_str("\n# TYPE ");
    out.push_str(metric.name);
    out.push_str(match metric.kind {
        Kind::Counter => " counter\n",
        Kind::Gauge | Kind::Info => " gauge\n",
    });
}

#[cfg(test)]
mod tests;
