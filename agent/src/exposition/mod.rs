//! Text for Prometheus: which format a scraper wants, what of the node it asks for, and the pages themselves.

mod dcgm;
pub mod encoder;
pub mod gzip;
pub mod header;
pub mod line;
pub mod negotiate;
pub mod number;
pub mod own;
mod plan;
mod schema;
pub mod select;

#[cfg(test)]
pub(crate) mod parse;
#[cfg(test)]
pub(crate) mod sample;

use collectors::Tier;

pub use encoder::{Dropped, Encoder};
pub use negotiate::Format;
pub use own::{OwnFacts, Page};
pub use select::{Filter, Selection, Shown};

/// The tier of that word, as a query, an option or the configuration names it.
pub fn tier(word: &str) -> Option<Tier> {
    match word {
        "core" => Some(Tier::Core),
        "detail" => Some(Tier::Detail),
        "debug" => Some(Tier::Debug),
        _ => None,
    }
}

/// The word of a tier.
pub fn tier_word(tier: Tier) -> &'static str {
    match tier {
        Tier::Core => "core",
        Tier::Detail => "detail",
        Tier::Debug => "debug",
        Tier::Private => "private",
    }
}

/// Every metric that there is: those of the collectors and the daemon's own.
pub fn metrics() -> impl Iterator<Item = &'static collectors::Metric> {
    collectors::metrics().chain(own::METRICS.iter().copied())
}
