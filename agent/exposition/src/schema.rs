//! The families of a page, and the metrics of each collector that fill them. Fixed while the collectors are the same.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use collectors::{Alias, Metric, Spec, Tier, Unit};

use super::select::Switch;
use super::{Format, header};
use crate::Defaults;
use model::snapshot::CollectorState;

/// How a metric is shown on a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Under its own name.
    Own,
    /// Under another exporter's name.
    Other(&'static Alias),
}

impl Shape {
    pub(super) fn name(self, metric: &'static Metric) -> &'static str {
        match self {
            Self::Own => metric.name,
            Self::Other(alias) => alias.name.as_str(),
        }
    }

    /// The factor for values, and whether to round the product.
    pub(super) fn scale(self) -> (f64, bool) {
        match self {
            Self::Own => (1.0, false),
            Self::Other(alias) => (alias.scale, alias.whole),
        }
    }
}

/// One metric within a family.
#[derive(Debug)]
pub(super) struct Column {
    /// The collector's place in the snapshot.
    pub(super) collector: usize,
    /// The column's place in that collector's plan.
    pub(super) slot: usize,
    pub(super) metric: &'static Metric,
    pub(super) shape: Shape,
    /// The metric's tier, here because a look at each metric would touch the whole table at every scrape.
    tier: Tier,
    switch: Switch,
    /// The current scrape asks for it.
    pub(super) shown: bool,
    /// A scrape has asked for it since the schema was made. A plan has no lines of the others.
    pub(super) asked: bool,
}

impl Column {
    /// Whether it is on a page up to this tier.
    pub(super) fn is_in(&self, up_to: Tier) -> bool {
        self.switch.shows(self.tier, up_to)
    }
}

/// One family.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// Made when first written: most families are on no page of a node, and a scraper asks for one format.
    text: OnceCell<Box<[u8]>>,
    openmetrics: OnceCell<Box<[u8]>>,
    pub(super) columns: Vec<Column>,
    /// Several collectors fill it, so their series may be equal.
    pub(super) shared: bool,
}

impl Family {
    pub(super) fn header(&self, format: Format) -> &[u8] {
        let header = match format {
            Format::Text => &self.text,
            Format::OpenMetrics => &self.openmetrics,
        };
        header.get_or_init(|| {
            let mut out = Vec::new();
            // The first metric of a family provides its metadata.
            if let Some(first) = self.columns.first() {
                said(first.metric, first.shape).write(format, &mut out);
            }
            out.into()
        })
    }
}

/// By metric of one collector: its columns.
pub(super) type Wanted<'a> = HashMap<&'static str, Vec<&'a Column>>;

/// One page.
#[derive(Debug, Default)]
pub(super) struct Schema {
    made_for: Vec<&'static Spec>,
    pub(super) families: Vec<Family>,
}

impl Schema {
    pub(super) fn fits(&self, collectors: &[Arc<CollectorState>]) -> bool {
        self.made_for.len() == collectors.len()
            && self
                .made_for
                .iter()
                .zip(collectors)
                .all(|(have, now)| std::ptr::eq(*have, now.spec))
    }

    /// The page of that name; without one, our own.
    pub(super) fn new(page: Option<&str>, collectors: &[Arc<CollectorState>]) -> Self {
        let mut schema = Self::default();
        let mut places: HashMap<&'static str, usize> = HashMap::new();
        for (number, collector) in collectors.iter().enumerate() {
            schema.made_for.push(collector.spec);
            let mut slots = 0;
            for metric in collector.spec.metrics.iter().copied() {
                for shape in shapes(page, metric) {
                    let name = shape.name(metric);
                    let place = *places.entry(name).or_insert_with(|| {
                        schema.families.push(Family::default());
                        schema.families.len() - 1
                    });
                    if let Some(family) = schema.families.get_mut(place) {
                        family.shared |= family.columns.iter().any(|c| c.collector != number);
                        family.columns.push(Column {
                            collector: number,
                            slot: slots,
                            metric,
                            shape,
                            tier: metric.tier,
                            switch: Switch::ByTier,
                            shown: false,
                            asked: false,
                        });
                        slots += 1;
                    }
                }
            }
        }
        for family in &mut schema.families {
            family.columns.shrink_to_fit();
        }
        schema.families.shrink_to_fit();
        schema.switch(&Defaults::default());
        schema
    }

    /// The columns of one collector.
    pub(super) fn wanted(&self, collector: usize) -> Wanted<'_> {
        let mut wanted = Wanted::new();
        let columns = self.families.iter().flat_map(|f| &f.columns);
        for column in columns.filter(|c| c.collector == collector) {
            wanted.entry(column.metric.name).or_default().push(column);
        }
        wanted
    }

    /// Applies the configuration of single metrics.
    pub(super) fn switch(&mut self, switches: &Defaults) {
        for column in self.families.iter_mut().flat_map(|f| &mut f.columns) {
            column.switch = Switch::of(column.metric, switches);
        }
    }
}

fn shapes(page: Option<&str>, metric: &'static Metric) -> impl Iterator<Item = Shape> {
    let own = page.is_none().then_some(Shape::Own);
    // Our own page leaves the rows of the others unread, and so out of memory.
    let others = page.map(|page| metric.aliases.iter().filter(move |a| &*a.page == page));
    own.into_iter()
        .chain(others.into_iter().flatten().map(Shape::Other))
}

fn said(metric: &'static Metric, shape: Shape) -> header::Family<'static> {
    match shape {
        Shape::Own => metric.into(),
        Shape::Other(alias) => header::Family {
            name: alias.name.as_str(),
            kind: match (alias.kind, metric.kind) {
                // A histogram stays one: its samples are buckets, sum and count.
                (_, kind @ collectors::Kind::Histogram(_)) => kind,
                (kind, _) => kind,
            },
            unit: Unit::None,
            help: metric.help,
        },
    }
}

/// The compatibility pages that these collectors fill.
pub(super) fn pages(collectors: &[Arc<CollectorState>]) -> Vec<&'static str> {
    let metrics = collectors.iter().flat_map(|c| c.spec.metrics);
    let mut pages: Vec<&str> = metrics.flat_map(|m| m.aliases).map(|a| a.page.as_str()).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}
