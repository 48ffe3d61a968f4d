//! The generation of a GPU's NVLinks: it decides which counters to query.

/// The generation, by the counters that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// NVLink 1 to 3, up to Ada.
    UpToThree,
    /// NVLink 4, Hopper.
    Four,
    /// NVLink 5, Blackwell.
    Five,
    /// Newer than this table, or unknown: every counter is queried, and the driver rejects those that it lacks.
    Unknown,
}

impl Generation {
    /// By the GPU's architecture: links that are down, and some drivers, report no version or one that no header defines.
    /// The version decides only for an architecture that this table lacks. 4 is NVLink 3.0.
    pub(super) fn of(architecture: &str, version: Option<u32>) -> Self {
        match (architecture, version) {
            ("pascal" | "volta" | "turing" | "ampere" | "ada", _) => Self::UpToThree,
            ("hopper", _) => Self::Four,
            ("blackwell", _) => Self::Five,
            (_, Some(1..=5)) => Self::UpToThree,
            (_, Some(6)) => Self::Four,
            (_, Some(7)) => Self::Five,
            _ => Self::Unknown,
        }
    }

    /// Whether its links have the error counters of NVLink 1 to 3.
    pub(super) fn has_flits(self) -> bool {
        matches!(self, Self::UpToThree | Self::Unknown)
    }

    /// Whether its links have the error counters of NVLink 4's data link layer.
    pub(super) fn has_data_link(self) -> bool {
        self != Self::UpToThree
    }

    /// Whether its links have the counters of NVLink 5.
    pub(super) fn has_counts(self) -> bool {
        matches!(self, Self::Five | Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_decides_and_not_an_odd_version() {
        for odd in [None, Some(0), Some(6), Some(8), Some(u32::MAX)] {
            assert_eq!(Generation::of("ampere", odd), Generation::UpToThree, "{odd:?}");
            assert_eq!(Generation::of("hopper", odd), Generation::Four, "{odd:?}");
            assert_eq!(Generation::of("blackwell", odd), Generation::Five, "{odd:?}");
        }
    }

    #[test]
    fn without_a_known_architecture_the_version_decides_and_without_both_all_is_asked() {
        for (version, generation) in [
            (Some(4), Generation::UpToThree),
            (Some(6), Generation::Four),
            (Some(7), Generation::Five),
            (Some(0), Generation::Unknown),
            (Some(8), Generation::Unknown),
            (None, Generation::Unknown),
        ] {
            assert_eq!(Generation::of("", version), generation, "{version:?}");
        }
        let all = Generation::Unknown;
        assert!(all.has_flits() && all.has_data_link() && all.has_counts());
    }
}
