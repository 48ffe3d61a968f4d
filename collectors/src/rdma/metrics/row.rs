//! A counter's file and the metric that it becomes.

use crate::Metric;

/// How large a number a counter can hold. The counters of the PMA clamp there: they do not wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdma) enum Width {
    /// So many bits, 4 to 32.
    Bits(u8),
    /// 64 bits, or 32 on hardware without extended counters: 32 ones are taken for a clamped counter, since a wide one
    /// passes that number in one reading out of billions.
    Extended,
    /// Not known to clamp.
    Wide,
}

impl Width {
    /// The number at which such a counter stops.
    pub(in crate::rdma) const fn maximum(self) -> Option<u64> {
        match self {
            Self::Bits(bits) => Some((1 << bits) - 1),
            Self::Extended => Some(u32::MAX as u64),
            Self::Wide => None,
        }
    }
}

/// One file of `counters/` or `hw_counters/`.
#[derive(Debug)]
pub(in crate::rdma) struct Row {
    /// The file.
    pub(in crate::rdma) file: &'static str,
    /// The metric.
    pub(in crate::rdma) metric: &'static Metric,
    /// What the number in the file is multiplied by.
    pub(in crate::rdma) scale: u64,
    /// How large it can become.
    pub(in crate::rdma) width: Width,
}

/// Makes a static for each counter, `ROWS` of their files and `METRICS` of all. First what stands before the file in its
/// source. A line: name of the static, file, name
/// of the metric, unit, tier, width, factor, node_exporter's name or nothing, help.
macro_rules! counters {
    ($source:literal; $($name:ident $file:literal $metric:literal $unit:ident $tier:ident $width:expr, $scale:literal
        [$($alias:literal)?] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $name: Metric = Metric {
                name: $metric,
                kind: Kind::Counter,
                unit: Unit::$unit,
                labels: super::PORT,
                help: $help,
                tier: Tier::$tier,
                source: concat!($source, $file),
                aliases: &[$(super::alias::port($alias, Kind::Counter))?],
            };
        )*
        pub(in crate::rdma) static ROWS: &[Row] = &[
            $(Row { file: $file, metric: &$name, scale: $scale, width: $width },)*
        ];
        pub(super) static METRICS: &[&Metric] = &[$(&$name,)*];
    };
}
pub(super) use counters;

/// One list of several.
pub(super) const fn join<const N: usize, const P: usize>(
    parts: [&[&'static Metric]; P],
) -> [&'static Metric; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut from = 0;
        while from < parts[part].len() {
            all[at] = parts[part][from];
            at += 1;
            from += 1;
        }
        part += 1;
    }
    assert!(at == N, "all places are taken");
    all
}
