//! Text for Prometheus.

pub mod number;
pub mod own;
pub mod prefix;
pub mod text;

#[cfg(test)]
pub(crate) mod parse;
#[cfg(test)]
pub(crate) mod sample;

use collectors::Tier;

pub use own::{OwnFacts, Page};
pub use text::{CONTENT_TYPE, Encoder};

/// The tier of that word, as a query or an option names it.
pub fn tier(word: &str) -> Option<Tier> {
    match word {
        "core" => Some(Tier::Core),
        "detail" => Some(Tier::Detail),
        "debug" => Some(Tier::Debug),
        _ => None,
    }
}

impl Encoder {
    /// Writes one whole exposition: the collectors' families and the daemon's own.
    pub fn page(&mut self, page: &Page, tier: Tier, out: &mut String) {
        let dropped = self.collectors(&page.snapshot, tier, out);
        own::render(page, &dropped, tier, out);
    }
}
