//! One statistic of a driver and the metric that it becomes.

use crate::Metric;

/// What a value is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ethernet) enum Scale {
    /// As it is.
    One,
    /// Microseconds become seconds.
    Microseconds,
    /// A percentage becomes a ratio. More than 100 is none.
    Percent,
}

/// One statistic, or one for each priority or lane. Rows of one metric and the same labels
/// are added up, unless they are names of one count.
#[derive(Debug)]
pub(in crate::ethernet) struct Row {
    /// The driver's word; `#` stands for the number of a priority or lane.
    word: &'static str,
    pub(in crate::ethernet) metric: &'static Metric,
    /// The metric's last label, where it is not the number.
    pub(in crate::ethernet) label: Option<&'static str>,
    pub(in crate::ethernet) scale: Scale,
    /// It says something of priority flow control, and nothing of a priority without it.
    pub(in crate::ethernet) of_pfc: bool,
    /// The driver has another name for the same count: the larger one counts, not the sum.
    pub(in crate::ethernet) is_other_name: bool,
}

impl Row {
    pub(super) const fn new(word: &'static str, metric: &'static Metric) -> Self {
        Self {
            word,
            metric,
            label: None,
            scale: Scale::One,
            of_pfc: false,
            is_other_name: false,
        }
    }

    pub(super) const fn of_pfc(word: &'static str, metric: &'static Metric) -> Self {
        Self {
            of_pfc: true,
            ..Self::new(word, metric)
        }
    }

    /// One of several names of the same count. Each of them needs it.
    pub(super) const fn one_of_names(self) -> Self {
        Self {
            is_other_name: true,
            ..self
        }
    }

    pub(super) const fn labelled(self, label: &'static str) -> Self {
        Self {
            label: Some(label),
            ..self
        }
    }

    pub(super) const fn scaled(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// Whether this is its statistic: the number in it, or none.
    pub(in crate::ethernet) fn matches(&self, name: &str) -> Option<Option<u8>> {
        let Some((before, behind)) = self.word.split_once('#') else {
            return (self.word == name).then_some(None);
        };
        let number = name.strip_prefix(before)?.strip_suffix(behind)?;
        // One digit: there are eight priorities and eight lanes.
        match number.as_bytes() {
            [digit @ b'0'..=b'7'] => Some(Some(digit - b'0')),
            _ => None,
        }
    }

    /// Whether both are added up.
    pub(in crate::ethernet) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.metric, other.metric) && self.label == other.label
    }
}
