//! An alias of a compatibility page under construction: its unit, and which of our series it shows.

use super::{AMD_LABELS, DCGM_LABELS};
use crate::inline::Pairs;
use crate::metric::{Alias, Join, Joined, Kind};

impl Joined {
    /// The row.
    pub fn row(self) -> &'static Join {
        match self {
            Self::Dcgm => &DCGM_LABELS,
            Self::Amd => &AMD_LABELS,
        }
    }
}

/// An alias under construction.
pub(crate) struct AliasBuilder(Alias);

impl AliasBuilder {
    /// On a page that puts the labels of `join` on every series.
    pub(super) const fn new(page: &'static str, name: &'static str, kind: Kind, join: Joined) -> Self {
        Self(Alias {
            join: Some(join),
            ..Alias::new(page, name, kind, &[])
        })
    }

    /// In the other exporter's unit: our value multiplied by `scale`, and rounded if `whole`.
    const fn scaled(self, scale: f64, whole: bool) -> Alias {
        Alias {
            scale,
            whole,
            ..self.0
        }
    }

    /// Unscaled.
    pub(crate) const fn same(self) -> Alias {
        self.0
    }

    /// Bytes per second, rounded, because our value is an average.
    pub(crate) const fn whole(self) -> Alias {
        self.scaled(1.0, true)
    }

    /// Percent, rounded, instead of a ratio.
    pub(crate) const fn percent(self) -> Alias {
        self.scaled(100.0, true)
    }

    /// MiB, which both exporters call MB.
    pub(crate) const fn mebibytes(self) -> Alias {
        self.scaled(1.0 / 1_048_576.0, true)
    }

    /// 1000 KiB, which DCGM calls MB.
    pub(crate) const fn thousand_kibibytes(self) -> Alias {
        self.scaled(1.0 / 1_024_000.0, true)
    }

    /// Megabytes per second.
    pub(crate) const fn megabytes(self) -> Alias {
        self.scaled(1e-6, true)
    }

    /// Megahertz.
    pub(crate) const fn megahertz(self) -> Alias {
        self.scaled(1e-6, true)
    }

    /// Kilobytes of 1000 bytes.
    pub(crate) const fn kilobytes(self) -> Alias {
        self.scaled(1e-3, true)
    }

    /// 10^9 transfers per second.
    pub(crate) const fn gigatransfers(self) -> Alias {
        self.scaled(1e-9, false)
    }

    /// Millijoules.
    pub(crate) const fn millijoules(self) -> Alias {
        self.scaled(1e3, true)
    }

    /// Microjoules.
    pub(crate) const fn microjoules(self) -> Alias {
        self.scaled(1e6, true)
    }

    /// Nanoseconds.
    pub(crate) const fn nanoseconds(self) -> Alias {
        self.scaled(1e9, true)
    }

    /// Only series with these values of our labels.
    pub(crate) const fn only(self, only: &'static [(&'static str, &'static str)]) -> Self {
        Self(Alias {
            only: Pairs::new(only),
            ..self.0
        })
    }

    /// With these labels of theirs and ours besides the joined ones.
    pub(crate) const fn labels(self, labels: &'static [(&'static str, &'static str)]) -> Self {
        Self(Alias {
            labels: Pairs::new(labels),
            ..self.0
        })
    }

    /// With these labels of theirs, whose value is constant.
    pub(crate) const fn fixed(self, fixed: &'static [(&'static str, &'static str)]) -> Self {
        Self(Alias {
            fixed: Pairs::new(fixed),
            ..self.0
        })
    }
}

/// Aliases of two pages for one metric.
pub(super) const fn join<const N: usize>(first: &[Alias], second: &[Alias]) -> [Alias; N] {
    assert!(N == first.len() + second.len(), "N is not the number of aliases");
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() {
            first[at]
        } else {
            second[at - first.len()]
        };
        at += 1;
    }
    all
}
