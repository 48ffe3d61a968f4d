//! How the tables are written.

use crate::Metric;

/// Makes a static for each metric, and one of all that has the name in front. A line: name of the static, name, kind (a histogram with its
/// buckets), unit, tier, labels, source, aliases, help.
macro_rules! metrics {
    ($all:ident; $($id:ident $name:literal $kind:ident $(($buckets:expr))? $unit:ident $tier:ident $labels:expr, $source:literal,
        [$($alias:expr),* $(,)?] $help:literal;)*) => {
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
                aliases: &[$($alias),*],
            };
        )*
        /// All of this theme, in the order of the exposition.
        pub(crate) static $all: &[&crate::Metric] = &[$(&$id,)*];
    };
}
pub(crate) use metrics;

/// How many metrics there are in lists of lists.
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

/// One list of all.
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
    assert!(at == N, "all places are taken");
    all
}

/// From what a driver takes that answers from memory to a firmware that does not answer (45 s).
pub(crate) const CALLS: crate::Buckets =
    crate::Buckets::new(&[1e-5, 1e-4, 1e-3, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0]);
