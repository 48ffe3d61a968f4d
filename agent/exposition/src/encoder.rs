//! Pages in both formats. The plan of a page is made once per set of layouts; after that a scrape formats numbers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use collectors::Value;

use super::plan::{self, Plan};
use super::schema::{self, Schema};
use super::select::{Selection, Shown};
use super::{Defaults, Dropped, Format, Source, Writer, number};
use model::jobs::Hidden;
use model::snapshot::{DeviceState, Snapshot};

/// The name of our own page, beside those of [`Encoder::pages`].
pub const METRICS: &str = "metrics";

/// The state of one page.
#[derive(Default)]
struct Kept {
    schema: Schema,
    plans: Vec<Plan>,
    switches: Arc<Defaults>,
    /// By collector: the groups of equal lines that this scrape has written.
    shown: Vec<Vec<bool>>,
    dropped: Vec<Dropped>,
}

/// Writes pages and keeps their plans: one per server.
#[derive(Default)]
pub struct Encoder {
    pages: BTreeMap<&'static str, Kept>,
    /// The jobs that have no series on the current page.
    hidden: Hidden,
}

impl Encoder {
    /// The names of the compatibility pages.
    pub fn pages(snapshot: &Snapshot) -> Vec<&'static str> {
        schema::pages(&snapshot.collectors)
    }

    /// Appends our own page (`name`: none) or one of [`Encoder::pages`]. A compatibility page holds the mapped
    /// metrics of every tier, unless the request names a tier.
    pub fn page(
        &mut self,
        name: Option<&'static str>,
        source: &dyn Source,
        selection: &Selection,
        format: Format,
        out: &mut Vec<u8>,
    ) {
        let defaults = source.defaults();
        let shown = match name {
            Some(_) => Shown::complete(selection, &defaults),
            None => Shown::new(selection, &defaults),
        };
        let name = name.unwrap_or(METRICS);
        self.hidden = source.hidden();
        self.families(name, source.snapshot(), &defaults, shown, format, out);
        let mut writer = Writer::new(out, format, shown);
        source.families(name, &self.dropped(), &self.hidden, &mut writer);
        end(format, out);
    }

    /// The series dropped by the last write of each page, in the order of the snapshot.
    pub fn dropped(&self) -> Vec<(&'static str, &[Dropped])> {
        let pages = self.pages.iter();
        pages
            .map(|(name, kept)| (*name, kept.dropped.as_slice()))
            .collect()
    }

    fn families(
        &mut self,
        name: &'static str,
        snapshot: &Snapshot,
        switches: &Arc<Defaults>,
        shown: Shown<'_>,
        format: Format,
        out: &mut Vec<u8>,
    ) {
        let kept = self.pages.entry(name).or_default();
        kept.prepare(
            (name != METRICS).then_some(name),
            snapshot,
            switches,
            &self.hidden,
        );
        kept.write(snapshot, shown, format, out);
    }
}

impl Kept {
    fn prepare(
        &mut self,
        page: Option<&str>,
        snapshot: &Snapshot,
        switches: &Arc<Defaults>,
        hidden: &Hidden,
    ) {
        let collectors = &snapshot.collectors;
        if !self.schema.fits(collectors) {
            *self = Self {
                schema: Schema::new(page, collectors),
                ..Self::default()
            };
        }
        if !Arc::ptr_eq(&self.switches, switches) {
            self.schema.switch(switches);
            if self.switches.labels != switches.labels {
                self.plans.clear();
            }
            self.switches = Arc::clone(switches);
        }
        self.plans.resize_with(collectors.len(), Plan::default);
        self.shown.resize_with(collectors.len(), Vec::new);
        self.dropped.clear();
        let parts = self.plans.iter_mut().zip(&mut self.shown);
        for ((plan, groups), (collector, wanted)) in parts.zip(collectors.iter().zip(&self.schema.wanted)) {
            let shown = |d: &DeviceState| {
                d.shown(snapshot.at, collector.max_age()) && !hidden.device(collector.spec.name, &d.subject)
            };
            if !plan.fits(collector, shown) {
                *plan = Plan::new(collector, wanted, (page.is_none(), switches), shown);
            }
            groups.clear();
            groups.resize(plan.groups(), false);
            let refused: u64 = collector
                .devices
                .iter()
                .filter(|d| shown(d))
                .map(|d| d.refused)
                .sum();
            self.dropped.push(Dropped {
                over_limit: plan.over_limit + refused,
                duplicates: 0,
            });
        }
    }

    /// Writes the samples that have a value. Of samples with equal name and labels the first wins.
    fn write(&mut self, snapshot: &Snapshot, shown: Shown<'_>, format: Format, out: &mut Vec<u8>) {
        let takes: Vec<bool> = snapshot
            .collectors
            .iter()
            .map(|c| shown.filter.takes(c.spec.name))
            .collect();
        let mut others = HashSet::new();
        for family in &self.schema.families {
            let mut headed = false;
            others.clear();
            for column in &family.columns {
                let wanted = takes.get(column.collector).copied().unwrap_or(false)
                    && column.switch.shows(column.metric.tier, shown.tier);
                let (Some(plan), Some(collector)) = (
                    self.plans.get(column.collector).filter(|_| wanted),
                    snapshot.collectors.get(column.collector),
                ) else {
                    continue;
                };
                let scale = column.shape.scale();
                for found in plan.lines(column.slot, collector) {
                    let groups = self.shown.get_mut(column.collector);
                    let group = found.group.and_then(|g| groups?.get_mut(g));
                    let again = group.is_some_and(|seen| std::mem::replace(seen, true))
                        || (family.shared && !others.insert(found.start));
                    if again {
                        if let Some(dropped) = self.dropped.get_mut(column.collector) {
                            dropped.duplicates += 1;
                        }
                        continue;
                    }
                    if !headed {
                        headed = true;
                        out.extend_from_slice(family.header(format));
                    }
                    out.extend_from_slice(found.start);
                    // Of a histogram only the sum has a unit; counts are not scaled.
                    let counts = column.metric.slots() > 1 && matches!(found.value, Value::U64(_));
                    if counts {
                        number::value(found.value, out);
                    } else {
                        plan::write_scaled(found.value, scale, out);
                    }
                    out.push(b'\n');
                }
            }
        }
    }
}

/// OpenMetrics ends with `# EOF`, so a truncated page is detected.
fn end(format: Format, out: &mut Vec<u8>) {
    if format == Format::OpenMetrics {
        out.extend_from_slice(b"# EOF\n");
    }
}

#[cfg(test)]
mod tests;
