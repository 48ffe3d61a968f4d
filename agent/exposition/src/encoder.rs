//! Pages in both formats. The plan of a page is made once per set of layouts; after that a scrape formats the numbers
//! that have changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use collectors::Tier;
use model::filter::Filter;

use super::plan::Plan;
use super::schema::{self, Column, Schema};
use super::select::{Selection, Shown};
use super::starts::Starts;
use super::{Defaults, Dropped, Format, Source, Writer};
use model::jobs::Hidden;
use model::snapshot::{DeviceState, Snapshot};

/// The name of our own page, beside those of [`Encoder::pages`].
pub const METRICS: &str = "metrics";

/// The state of one page.
#[derive(Default)]
struct Kept {
    schema: Schema,
    plans: Vec<Plan>,
    /// The families of the schema that have lines in a plan.
    filled: Vec<usize>,
    switches: Arc<Defaults>,
    /// What the last scrape asked for, until the columns change: scrapers ask for the same again.
    last: Option<(Tier, Filter)>,
    /// By collector: the groups of equal lines that this scrape has written.
    written: Vec<Vec<bool>>,
    dropped: Vec<Dropped>,
    spare: Vec<u8>,
    starts: Starts,
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
        let mut starts = self
            .pages
            .get_mut(name)
            .map(|kept| std::mem::take(&mut kept.starts))
            .unwrap_or_default();
        starts.begin();
        let mut writer = Writer::new(out, format, shown, &mut starts);
        source.families(name, &self.dropped(), &self.hidden, &mut writer);
        starts.finish();
        if let Some(kept) = self.pages.get_mut(name) {
            kept.starts = starts;
        }
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
            shown,
        );
        kept.write(snapshot, format, out);
    }
}

impl Kept {
    fn prepare(
        &mut self,
        page: Option<&str>,
        snapshot: &Snapshot,
        switches: &Arc<Defaults>,
        hidden: &Hidden,
        scrape: Shown<'_>,
    ) {
        let collectors = &snapshot.collectors;
        if !self.schema.fits(collectors) {
            *self = Self {
                schema: Schema::new(page, collectors),
                starts: std::mem::take(&mut self.starts),
                ..Self::default()
            };
        }
        if self.switches != *switches {
            self.schema.switch(switches);
            if self.switches.labels != switches.labels {
                self.plans.clear();
            }
            self.switches = Arc::clone(switches);
            self.last = None;
        }
        self.plans.resize_with(collectors.len(), Plan::default);
        self.ask(snapshot, scrape);
        self.written.resize_with(collectors.len(), Vec::new);
        self.dropped.clear();
        let mut is_new = false;
        let parts = self.plans.iter_mut().zip(&mut self.written);
        for ((plan, groups), (number, collector)) in parts.zip(collectors.iter().enumerate()) {
            let shown = |d: &DeviceState| {
                d.shown(snapshot.at, collector.max_age()) && !hidden.device(collector.spec.name, &d.subject)
            };
            if !plan.fits(collector, shown) {
                let wanted = self.schema.wanted(number);
                *plan = Plan::new(collector, &wanted, (page.is_none(), switches), shown);
                is_new = true;
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
        if is_new {
            self.find_filled();
        }
    }

    /// Notes the columns that this scrape asks for. A plan without lines of one of them is made again.
    fn ask(&mut self, snapshot: &Snapshot, scrape: Shown<'_>) {
        let is_same = |(tier, filter): &(Tier, Filter)| *tier == scrape.tier && filter == scrape.filter;
        if self.last.as_ref().is_some_and(is_same) {
            return;
        }
        self.last = Some((scrape.tier, scrape.filter.clone()));
        let collectors = snapshot.collectors.iter();
        let takes: Vec<bool> = collectors.map(|c| scrape.filter.takes(c.spec.name)).collect();
        for column in self.schema.families.iter_mut().flat_map(|f| &mut f.columns) {
            column.shown = takes.get(column.collector) == Some(&true) && column.is_in(scrape.tier);
            if column.shown
                && !std::mem::replace(&mut column.asked, true)
                && let Some(plan) = self.plans.get_mut(column.collector)
            {
                *plan = Plan::default();
            }
        }
    }

    fn find_filled(&mut self) {
        let plans = &self.plans;
        let lines = |c: &Column| plans.get(c.collector).and_then(|plan| plan.column(c.slot));
        let families = self.schema.families.iter().enumerate();
        let filled = families.filter(|(_, f)| f.columns.iter().any(|c| lines(c).is_some()));
        self.filled.clear();
        self.filled.extend(filled.map(|(place, _)| place));
        self.filled.shrink_to_fit();
    }

    /// Writes the samples that have a value. Of samples with equal name and labels the first wins.
    fn write(&mut self, snapshot: &Snapshot, format: Format, out: &mut Vec<u8>) {
        for family in self
            .filled
            .iter()
            .filter_map(|place| self.schema.families.get(*place))
        {
            for column in family.columns.iter().filter(|c| c.shown) {
                let collector = snapshot.collectors.get(column.collector);
                if let (Some(plan), Some(collector)) = (self.plans.get_mut(column.collector), collector) {
                    plan.refresh(column, collector, &mut self.spare);
                }
            }
            let columns = family.columns.iter().filter(|c| c.shown).filter_map(|c| {
                let lines = self.plans.get(c.collector)?.column(c.slot)?;
                Some((c.collector, lines))
            });
            // Only lines of several collectors are compared by text.
            let is_shared = family.shared && columns.clone().nth(1).is_some();
            let mut others = HashSet::new();
            let mut headed = false;
            let mut head = |out: &mut Vec<u8>| {
                if !std::mem::replace(&mut headed, true) {
                    out.extend_from_slice(family.header(format));
                }
            };
            for (collector, lines) in columns {
                if let Some(text) = lines.whole().filter(|_| !is_shared) {
                    head(out);
                    out.extend_from_slice(text);
                    continue;
                }
                for found in lines.found() {
                    let groups = self.written.get_mut(collector);
                    let group = found.group.and_then(|g| groups?.get_mut(g));
                    let again = group.is_some_and(|seen| std::mem::replace(seen, true))
                        || (is_shared && !others.insert(found.start));
                    if again {
                        if let Some(dropped) = self.dropped.get_mut(collector) {
                            dropped.duplicates += 1;
                        }
                        continue;
                    }
                    head(out);
                    out.extend_from_slice(found.line);
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
