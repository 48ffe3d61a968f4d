//! A counter file and its metric.

use crate::Metric;

/// Width of a counter. PMA counters clamp at their maximum, they do not wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdma) enum Width {
    /// 4 to 32 bits.
    Bits(u8),
    /// 64 bits, or 32 on hardware without extended counters. 32 ones are treated as a clamped counter, because a 64-bit
    /// counter has this value in one reading out of billions.
    Extended,
    /// Not known to clamp.
    Wide,
}

impl Width {
    /// The value at which such a counter clamps.
    pub(in crate::rdma) const fn maximum(self) -> Option<u64> {
        match self {
            Self::Bits(bits) => Some((1 << bits) - 1),
            Self::Extended => Some(u32::MAX as u64),
            Self::Wide => None,
        }
    }

    /// Whether a counter with this value has clamped; `None` if it is not known to clamp. A value past the width of a
    /// narrow counter has too; past 32 bits an extended counter has 64.
    pub(in crate::rdma) fn is_saturated(self, count: u64) -> Option<bool> {
        let maximum = self.maximum()?;
        Some(match self {
            Self::Bits(_) => count >= maximum,
            Self::Extended | Self::Wide => count == maximum,
        })
    }
}

/// One file of `counters/` or `hw_counters/`.
#[derive(Debug)]
pub(in crate::rdma) struct Row {
    /// File name.
    pub(in crate::rdma) file: &'static str,
    /// Metric.
    pub(in crate::rdma) metric: &'static Metric,
    /// Factor for the value in the file.
    pub(in crate::rdma) scale: u32,
    /// Width of the counter.
    pub(in crate::rdma) width: Width,
}

/// Declares one static per counter, `ROWS` with their files and `METRICS` with all of them. `$source` precedes the file name
/// in the source. A row: static, file, metric name, unit, tier, width, factor, optional node_exporter name, help.
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

/// Joins several lists into one.
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
    assert!(at == N, "N is not the number of metrics");
    all
}
