//! Pages for Prometheus: content negotiation, selection, and the encoder. Pure: no I/O, no clock, no randomness.

#![forbid(unsafe_code)]

mod column;
mod defaults;
pub mod encoder;
pub mod gzip;
pub mod header;
pub mod line;
pub mod negotiate;
pub mod number;
mod plan;
mod schema;
pub mod select;

pub mod source;
mod starts;
pub mod writer;

use collectors::Tier;

pub use defaults::Defaults;
pub use encoder::Encoder;
pub use negotiate::Format;
pub use select::{Selection, Shown};
pub use source::{Dropped, Source};
pub use writer::{Family, Writer};

/// Parses the word of a tier, as in a query, an option or the configuration.
pub fn tier(word: &str) -> Option<Tier> {
    match word {
        "core" => Some(Tier::Core),
        "detail" => Some(Tier::Detail),
        "debug" => Some(Tier::Debug),
        _ => None,
    }
}
