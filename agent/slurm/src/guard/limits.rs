//! `[health.guard]`, and what it allows in a partition.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// No limit is lower: two nodes with faults of their own are no accident of the whole cluster.
const LEAST: u64 = 2;
/// Slots for drains whose cause is proven to be one device, as a multiple of the others.
const DEVICE: u64 = 4;

/// `[health.guard]`. The defaults of the keys are in their rows: agent/src/config/keys.rs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `mode`: whether a drain needs a slot.
    pub on: bool,
    /// `drains`: the most drains of a partition within `window`.
    pub drains: u64,
    /// `percent`: the same, in percent of its nodes. The lower limit counts.
    pub percent: u64,
    /// `per_code`: the most drains of a partition with one cause within `window`.
    pub per_code: u64,
    /// `standing`: drains of a partition that stand at the same time.
    pub standing: Standing,
    /// `window`: the time of a slot.
    pub window: Duration,
    /// `stop_files`: while one of them exists, nothing is written.
    pub stop_files: Vec<PathBuf>,
}

/// Whether a stop file can be looked for: `stat` takes its path as an argument.
pub fn is_stop_file(path: &str) -> bool {
    path.starts_with('/') && !path.contains(['\0', '\n'])
}

/// `standing`: a number of nodes, or a part of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// Nodes.
    Nodes(u64),
    /// Percent of the partition's nodes.
    Percent(u64),
}

impl Default for Standing {
    fn default() -> Self {
        Self::Percent(5)
    }
}

impl Standing {
    /// Reads `12` or `5%`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "a number of nodes such as 20, or a part of the partition such as 5%";
        let number = |text: &str| text.parse().ok().filter(|n| *n > 0).ok_or(EXPECTED);
        match text.strip_suffix('%') {
            Some(percent) => {
                number(percent).and_then(|n| (n <= 100).then_some(Self::Percent(n)).ok_or(EXPECTED))
            }
            None => number(text).map(Self::Nodes),
        }
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{nodes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The limits in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Drains within the window.
    pub drains: u64,
    /// Drains with one cause within the window.
    pub per_code: u64,
    /// The same, whose cause is proven to be one device.
    pub device: u64,
    /// Drains that stand at the same time.
    pub standing: u64,
    /// The same, for a drain whose cause is proven to be one device.
    pub standing_device: u64,
}

impl Settings {
    /// The limits in a partition with this many nodes.
    pub fn limits(&self, nodes: u64) -> Limits {
        let part = |percent: u64| nodes.saturating_mul(percent) / 100;
        let drains = self.drains.min(part(self.percent)).max(LEAST);
        let standing = match self.standing {
            Standing::Nodes(nodes) => nodes,
            Standing::Percent(percent) => part(percent),
        }
        .max(LEAST);
        Limits {
            drains,
            per_code: self.per_code.min(drains).max(1),
            device: drains.saturating_mul(DEVICE),
            standing,
            standing_device: standing.saturating_mul(DEVICE),
        }
    }

    /// The settings in one word, which each slot names: nodes whose settings differ see it.
    pub fn word(&self) -> String {
        format!(
            "{}/{}%/{}/{}/{}s",
            self.drains,
            self.percent,
            self.per_code,
            self.standing,
            self.window.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            on: true,
            drains: 10,
            percent: 5,
            per_code: 3,
            standing: Standing::Percent(5),
            window: Duration::from_secs(600),
            stop_files: Vec::new(),
        }
    }

    #[test]
    fn the_lower_of_number_and_percent_counts_and_never_under_two() {
        for (nodes, drains, per_code, standing) in [
            (1, 2, 2, 2),
            (40, 2, 2, 2),
            (100, 5, 3, 5),
            (200, 10, 3, 10),
            (10_000, 10, 3, 500),
        ] {
            let limits = settings().limits(nodes);
            assert_eq!(
                (limits.drains, limits.per_code, limits.standing),
                (drains, per_code, standing),
                "{nodes} nodes"
            );
            assert_eq!(limits.device, 4 * drains);
        }
    }

    #[test]
    fn standing_is_a_number_or_a_percentage() {
        assert_eq!(Standing::parse("20"), Ok(Standing::Nodes(20)));
        assert_eq!(Standing::parse("5%"), Ok(Standing::Percent(5)));
        for text in ["", "0", "0%", "101%", "5 %", "-1", "1.5", "%", "all"] {
            assert!(Standing::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn settings_that_differ_have_another_word() {
        let other = Settings {
            per_code: 4,
            ..settings()
        };
        assert_eq!(settings().word(), "10/5%/3/5%/600s");
        assert_ne!(settings().word(), other.word());
    }
}
