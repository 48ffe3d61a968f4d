//! The families of a page, and the metrics of each collector that fill them. Fixed while the collectors are the same.

use std::cell::OnceCell;
use std::collections::HashMap;

use collectors::{Alias, Metric, Spec, Unit};

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
    pub(super) switch: Switch,
}

/// One family.
#[derive(Debug)]
pub(super) struct Family {
    said: header::Family<'static>,
    /// Made when first written: most families are on no page of a node, and a scraper asks for one format.
    text: OnceCell<Box<[u8]>>,
    openmetrics: OnceCell<Box<[u8]>>,
    pub(super) columns: Vec<Column>,
    /// Several collectors fill it, so their series may be equal.
    pub(super) shared: bool,
}

impl Family {
    fn new(said: header::Family<'static>) -> Self {
        Self {
            said,
            text: OnceCell::new(),
            openmetrics: OnceCell::new(),
            columns: Vec::new(),
            shared: false,
        }
    }

    pub(super) fn header(&self, format: Format) -> &[u8] {
        let header = match format {
            Format::Text => &self.text,
            Format::OpenMetrics => &self.openmetrics,
        };
        header.get_or_init(|| {
            let mut out = Vec::new();
            self.said.write(format, &mut out);
            out.into()
        })
    }
}

/// By metric of one collector: its columns.
pub(super) type Wanted = HashMap<&'static str, Vec<(usize, Shape)>>;

/// One page.
#[derive(Debug, Default)]
pub(super) struct Schema {
    made_for: Vec<&'static Spec>,
    pub(super) families: Vec<Family>,
    /// By collector: metric -> its columns, by slot.
    pub(super) wanted: Vec<Wanted>,
}

impl Schema {
    pub(super) fn fits(&self, collectors: &[CollectorState]) -> bool {
        self.made_for.len() == collectors.len()
            && self
                .made_for
                .iter()
                .zip(collectors)
                .all(|(have, now)| std::ptr::eq(*have, now.spec))
    }

    /// The page of that name; without one, our own.
    pub(super) fn new(page: Option<&str>, collectors: &[CollectorState]) -> Self {
        let mut schema = Self::default();
        let mut places: HashMap<&'static str, usize> = HashMap::new();
        for (number, collector) in collectors.iter().enumerate() {
            schema.made_for.push(collector.spec);
            let (mut wanted, mut slots) = (Wanted::new(), 0);
            for metric in collector.spec.metrics.iter().copied() {
                for shape in shapes(page, metric) {
                    let name = shape.name(metric);
                    let place = *places.entry(name).or_insert_with(|| {
                        schema.families.push(Family::new(said(metric, shape)));
                        schema.families.len() - 1
                    });
                    if let Some(family) = schema.families.get_mut(place) {
                        family.shared |= family.columns.iter().any(|c| c.collector != number);
                        family.columns.push(Column {
                            collector: number,
                            slot: slots,
                            metric,
                            shape,
                            switch: Switch::ByTier,
                        });
                        wanted.entry(metric.name).or_default().push((slots, shape));
                        slots += 1;
                    }
                }
            }
            schema.wanted.push(wanted);
        }
        schema.switch(&Defaults::default());
        schema
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

/// The first metric of a family provides its metadata.
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
pub(super) fn pages(collectors: &[CollectorState]) -> Vec<&'static str> {
    let metrics = collectors.iter().flat_map(|c| c.spec.metrics);
    let mut pages: Vec<&str> = metrics.flat_map(|m| m.aliases).map(|a| a.page.as_str()).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}
