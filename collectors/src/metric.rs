//! The metric table's row. A metric is declared once, as a `static`. The exposition, docs/metrics.md and the compatibility
//! pages are made from the declaration.

use serde::{Deserialize, Serialize};

use crate::inline::{Pairs, Text};

/// What a value means over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, except when its source restarts. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Always 1; the facts are in the labels. Its name ends in `_info`.
    Info,
    /// How many readings were at or below each of these bounds, their sum and their number.
    Histogram(Buckets),
}

/// The upper bounds of a histogram's buckets, in the metric's unit. The last bucket, +Inf, is always there and not listed.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(&'static [f64]);

impl Buckets {
    /// Bounds that ascend and are finite; anything else does not compile where the metric is a `static`.
    ///
    /// # Panics
    /// When they do not ascend, or are as many as a layout cannot number.
    pub const fn new(bounds: &'static [f64]) -> Self {
        assert!(bounds.len() < 1000, "too many buckets");
        let mut rest = bounds;
        let mut last = f64::NEG_INFINITY;
        while let [first, more @ ..] = rest {
            assert!(*first > last && *first < f64::INFINITY, "bounds must ascend");
            last = *first;
            rest = more;
        }
        Self(bounds)
    }

    /// The bounds, ascending, without +Inf.
    pub const fn bounds(self) -> &'static [f64] {
        self.0
    }
}

impl PartialEq for Buckets {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

// Bounds are finite, so that each is equal to itself.
impl Eq for Buckets {}

/// The unit of a metric's value. Its word is the suffix of the name (before `_total`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count or a state.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A fraction from 0 to 1.
    Ratio,
    /// Bytes in a second: what a link can carry.
    BytesPerSecond,
    /// Transfers in a second, as PCI Express counts its speed: 32 GT/s is 3.2e10.
    TransfersPerSecond,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Joules.
    Joules,
    /// Hertz.
    Hertz,
}

impl Unit {
    /// The suffix that a metric's name must carry, empty for [`Unit::None`].
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
            Self::BytesPerSecond => "bytes_per_second",
            Self::TransfersPerSecond => "transfers_per_second",
            Self::Celsius => "celsius",
            Self::Watts => "watts",
            Self::Joules => "joules",
            Self::Hertz => "hertz",
        }
    }
}

/// How much a metric costs to store, and so whether it is served without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Served by default; dashboards and alerts need no more.
    Core,
    /// Served when asked for.
    Detail,
    /// For the people who write collectors.
    Debug,
    /// Never served: a fact for the health checks only.
    Private,
}

/// How a compatibility page shows a metric: as another exporter names it, labels it and counts it. Without a pointer: there are
/// hundreds of these rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alias {
    /// The page: `node_exporter` is served at `/metrics/node_exporter`.
    pub page: Text<15>,
    /// The other exporter's name.
    pub name: Text<71>,
    /// What the other exporter says that it is.
    pub kind: Kind,
    /// Their label and ours, in their order. A label of ours that is not listed is left out.
    pub labels: Pairs<95>,
    /// Their labels with a constant value, after those.
    pub fixed: Pairs<47>,
    /// What our value is multiplied by. 1 keeps whole numbers exact.
    pub scale: f64,
    /// Their value is a whole number: ours is rounded after it was multiplied.
    pub whole: bool,
    /// Only series with these labels of ours are shown.
    pub only: Pairs<79>,
    /// Labels of theirs that stand on another series of ours. A series of a device without that other one is not shown: the
    /// other exporter has no such device.
    pub join: Option<Joined>,
}

impl Alias {
    /// The same name, labels as listed, and nothing else changed.
    pub const fn new(
        page: &'static str,
        name: &'static str,
        kind: Kind,
        labels: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            page: Text::new(page),
            name: Text::new(name),
            kind,
            labels: Pairs::new(labels),
            fixed: Pairs::EMPTY,
            scale: 1.0,
            whole: false,
            only: Pairs::EMPTY,
            join: None,
        }
    }
}

/// The row of joined labels of an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Those of dcgm-exporter.
    Dcgm,
    /// Those of AMD's device-metrics-exporter.
    Amd,
}

/// Labels that another exporter puts on every series and we on one info series of the same device.
#[derive(Debug)]
pub struct Join {
    /// Our info metric.
    pub info: &'static Metric,
    /// The labels of ours in which both agree; one that the metric does not have counts as empty.
    pub by: &'static [&'static str],
    /// Their label and that of the info metric. They stand before [`Alias::labels`]; an empty one is left out.
    pub labels: &'static [(&'static str, &'static str)],
}

/// One row of the metric table.
#[derive(Debug)]
pub struct Metric {
    /// The name as Prometheus sees it.
    pub name: &'static str,
    /// What the value means over time.
    pub kind: Kind,
    /// The unit of the value.
    pub unit: Unit,
    /// Label names, in the order in which values are given to [`crate::Block`].
    pub labels: &'static [&'static str],
    /// One sentence for people, ending in a full stop.
    pub help: &'static str,
    /// Whether it is served by default.
    pub tier: Tier,
    /// Where the value comes from: kernel file, API call or specification.
    pub source: &'static str,
    /// What it is called on compatibility pages.
    pub aliases: &'static [Alias],
}

impl Metric {
    /// How many series of a layout one set of label values takes: more than one for a histogram.
    pub const fn slots(&self) -> usize {
        match self.kind {
            Kind::Histogram(buckets) => buckets.bounds().len() + 3,
            Kind::Counter | Kind::Gauge | Kind::Info => 1,
        }
    }
}

/// A metric is its row of the table: comparing names would touch two texts for each series of a page.
impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Metric {}
