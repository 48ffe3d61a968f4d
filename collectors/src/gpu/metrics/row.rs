//! The macro of the GPU metric tables, and functions that join the tables.

use crate::Metric;

/// Declares one static per metric, and `$all` with all of them. A row: static, name, kind (a histogram with its buckets),
/// unit, tier, labels, source, aliases (an array, or the name of one), help.
macro_rules! metrics {
    ($all:ident; $($id:ident $name:literal $kind:ident $(($buckets:expr))? $unit:ident $tier:ident $labels:expr, $source:literal,
        $aliases:tt $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $id: crate::Metric = crate::Metric {
                name: $name,
                kind: crate::Kind::$kind $(($buckets))?,
                unit: crate::Unit::$unit,
                labels: $labels,
                help: $help,
                tier: crate::Tier::$tier,
                source: $source,
                aliases: &$aliases,
            };
        )*
        /// Every metric of this theme, in the order of the exposition.
        pub(crate) static $all: &[&crate::Metric] = &[$(&$id,)*];
    };
}
pub(crate) use metrics;

/// Number of metrics in nested lists.
pub(crate) const fn count(lists: &[&[&[&'static Metric]]]) -> usize {
    let (mut total, mut list) = (0, 0);
    while list < lists.len() {
        let mut part = 0;
        while part < lists[list].len() {
            total += lists[list][part].len();
            part += 1;
        }
        list += 1;
    }
    total
}

/// Joins nested lists into one.
pub(crate) const fn join<const N: usize>(lists: &[&[&[&'static Metric]]]) -> [&'static Metric; N] {
    let mut all = [lists[0][0][0]; N];
    let (mut at, mut list) = (0, 0);
    while list < lists.len() {
        let mut part = 0;
        while part < lists[list].len() {
            let mut from = 0;
            while from < lists[list][part].len() {
                all[at] = lists[list][part][from];
                at += 1;
                from += 1;
            }
            part += 1;
        }
        list += 1;
    }
    assert!(at == N, "N is not the number of metrics");
    all
}

/// Duration of driver calls: from answers out of memory to firmware that does not answer (45 s).
pub(crate) const CALLS: crate::Buckets =
    crate::Buckets::new(&[1e-5, 1e-4, 1e-3, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0]);
