//! The selection of a request: `?tier=`, `collect[]=`, `exclude[]=`, and the configured defaults.

use collectors::settings::nearest;
use collectors::{Metric, Tier};

use model::filter::{Filter, OWN};

use super::tier;
use crate::Defaults;

/// Names that a query may have.
const PARAMETERS: [&str; 3] = ["tier", "collect[]", "exclude[]"];
const TIERS: [&str; 3] = ["core", "detail", "debug"];

/// The selection of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The highest tier, where the request names one.
    pub tier: Option<Tier>,
    /// The collectors.
    pub filter: Filter,
}

impl Selection {
    /// Parses the query of a request. `known`: the names of all collectors.
    ///
    /// # Errors
    /// The found and the expected text. An unknown parameter, tier or collector is an error, because a misspelt
    /// name would silently return another page.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, String> {
        let (mut wanted, mut collect, mut exclude) = (None, Vec::new(), Vec::new());
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decode(key)?, decode(value)?);
            match key.as_str() {
                "tier" => {
                    let tier = tier(&value).ok_or_else(|| {
                        let found = quote(&value);
                        match nearest(&value, TIERS.into_iter()) {
                            Some(meant) => format!("tier: found {found}, did you mean {meant}?"),
                            None => format!("tier: found {found}, expected core, detail or debug"),
                        }
                    })?;
                    if wanted.replace(tier).is_some_and(|before| before != tier) {
                        return Err("tier: found two, expected one".to_owned());
                    }
                }
                "collect[]" => collect.push(collector(&key, value, known)?),
                "exclude[]" => exclude.push(collector(&key, value, known)?),
                _ => {
                    let found = quote(&key);
                    return Err(match nearest(&key, PARAMETERS.into_iter()) {
                        Some(meant) => format!("unknown parameter {found}, did you mean {meant}?"),
                        None => format!("unknown parameter {found}, expected tier, collect[] or exclude[]"),
                    });
                }
            }
        }
        let filter = match (collect.is_empty(), exclude.is_empty()) {
            (true, true) => Filter::All,
            (false, true) => Filter::Only(collect),
            (true, false) => Filter::Except(exclude),
            (false, false) => {
                return Err("found both collect[] and exclude[], expected one of them".to_owned());
            }
        };
        Ok(Self { tier: wanted, filter })
    }
}

fn collector(key: &str, name: String, known: &[&str]) -> Result<String, String> {
    if name == OWN || known.contains(&name.as_str()) {
        return Ok(name);
    }
    let found = quote(&name);
    Err(match nearest(&name, known.iter().copied().chain([OWN])) {
        Some(meant) => format!("{key}: unknown collector {found}, did you mean {meant}?"),
        None => format!(
            "{key}: unknown collector {found}, expected one of {}, {OWN}",
            known.join(", ")
        ),
    })
}

/// Undoes percent-encoding, and `+` for a space.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after;
                let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
                bytes.push(digit(*high).unwrap_or(0) * 16 + digit(*low).unwrap_or(0));
            }
            (b'%', _) => {
                let found = quote(text);
                return Err(format!(
                    "found {found}, expected two hexadecimal digits behind each %"
                ));
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("found {}, expected UTF-8", quote(text)))
}

/// The found text for an answer: at most 60 characters, escaped, on one line.
fn quote(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{more}")
}

/// The visible part of a page: the request, over the configured defaults.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The highest tier.
    pub tier: Tier,
    /// The collectors.
    pub filter: &'a Filter,
    /// Metrics that the configuration includes or excludes by name.
    pub switches: &'a Defaults,
}

impl<'a> Shown<'a> {
    /// The visible part of our own page.
    pub fn new(selection: &'a Selection, switches: &'a Defaults) -> Self {
        Self {
            tier: selection.tier.unwrap_or(switches.tier),
            filter: &selection.filter,
            switches,
        }
    }

    /// The visible part of a compatibility page: every tier, unless the request names one.
    pub fn complete(selection: &'a Selection, switches: &'a Defaults) -> Self {
        Self {
            tier: selection.tier.unwrap_or(Tier::Debug),
            ..Self::new(selection, switches)
        }
    }

    /// Whether a metric is shown.
    pub fn metric(&self, metric: &Metric) -> bool {
        Switch::of(metric, self.switches).shows(metric.tier, self.tier)
    }
}

/// How the configuration switches a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    ByTier,
    On,
    Off,
}

impl Switch {
    pub(super) fn of(metric: &Metric, switches: &Defaults) -> Self {
        let named = |names: &[String]| names.iter().any(|n| n == metric.name);
        // No list makes a private metric public.
        if metric.tier == Tier::Private || named(&switches.exclude) {
            Self::Off
        } else if named(&switches.include) {
            Self::On
        } else {
            Self::ByTier
        }
    }

    pub(super) fn shows(self, tier: Tier, up_to: Tier) -> bool {
        match self {
            Self::ByTier => tier <= up_to,
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// Fuzz target: any headers and any query get an answer; an error is one line.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    super::Format::accepted(line());
    super::negotiate::gzip_accepted(line());
    if let Err(why) = Selection::parse(line(), &["host"]) {
        assert!(!why.is_empty() && !why.contains(char::is_control), "{why:?}");
    }
}

#[cfg(test)]
mod tests;
