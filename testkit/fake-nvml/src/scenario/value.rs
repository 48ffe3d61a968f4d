//! Values of a scenario: fixed, or a function of the time.

use serde::Deserialize;

/// The time of a scenario: how many steps, and how many seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// Whole steps since the driver was loaded.
    pub steps: u64,
    /// Seconds since the driver was loaded.
    pub seconds: f64,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` is 1.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number; `nan` too.
    Float(f64),
    /// A text.
    Text(String),
    /// One that moves.
    Moving(Moving),
}

/// A value that moves with the time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moving {
    /// The first value.
    #[serde(default)]
    pub start: f64,
    /// What each step adds.
    #[serde(default)]
    pub per_step: f64,
    /// What each second adds.
    #[serde(default)]
    pub per_second: f64,
    /// The value at each step, in place of the other keys; the last one stays.
    #[serde(default)]
    pub steps: Vec<f64>,
}

impl Value {
    /// As a number, `None` for a text.
    #[must_use]
    pub fn float(&self, time: Time) -> Option<f64> {
        Some(match self {
            Self::Bool(b) => f64::from(*b),
            #[expect(
                clippy::cast_precision_loss,
                reason = "for metrics that are floating point anyway"
            )]
            Self::Int(i) => *i as f64,
            Self::Float(f) => *f,
            Self::Text(_) => return None,
            Self::Moving(m) => m.at(time),
        })
    }

    /// As a whole number, `None` for a text. Exact where the value is fixed.
    #[must_use]
    pub fn int(&self, time: Time) -> Option<i64> {
        match self {
            Self::Int(i) => Some(*i),
            #[expect(clippy::cast_possible_truncation, reason = "counters below 2^53")]
            other => other.float(time).map(|f| f.floor() as i64),
        }
    }

    /// As a text, `None` for a number.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Moving {
    fn at(&self, time: Time) -> f64 {
        if let Some(last) = self.steps.last() {
            let index = usize::try_from(time.steps).unwrap_or(usize::MAX);
            return *self.steps.get(index).unwrap_or(last);
        }
        #[expect(clippy::cast_precision_loss, reason = "steps are few")]
        let steps = time.steps as f64;
        self.start + self.per_step * steps + self.per_second * time.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        #[derive(Deserialize)]
        struct Holder {
            v: Value,
        }
        toml::from_str::<Holder>(text).unwrap().v
    }

    fn at(steps: u64) -> Time {
        Time {
            steps,
            seconds: 10.0 * f64::from(u32::try_from(steps).unwrap()),
        }
    }

    #[test]
    fn fixed_values_stay() {
        assert_eq!(value("v = 7").int(at(9)), Some(7));
        assert_eq!(value("v = true").int(at(9)), Some(1));
        assert_eq!(
            value("v = 9007199254740993").int(at(0)),
            Some(9_007_199_254_740_993)
        );
        assert_eq!(value("v = 'x'").int(at(0)), None);
        assert!(value("v = nan").float(at(0)).unwrap().is_nan());
    }

    #[test]
    fn counters_move_by_step_and_by_second() {
        assert_eq!(value("v = { start = 5, per_step = 2 }").int(at(3)), Some(11));
        assert_eq!(value("v = { per_second = 1.5 }").int(at(3)), Some(45));
    }

    #[test]
    fn a_list_gives_each_step_and_its_last_value_stays() {
        let list = value("v = { steps = [1, 4, 2] }");
        let values: Vec<_> = (0..5).map(|s| list.int(at(s)).unwrap()).collect();
        assert_eq!(values, [1, 4, 2, 2, 2]);
    }

    #[test]
    fn an_unknown_word_in_a_moving_value_is_refused() {
        #[derive(Debug, Deserialize)]
        struct Holder {
            #[expect(dead_code, reason = "only whether it can be read")]
            v: Value,
        }
        assert!(toml::from_str::<Holder>("v = { start = 1, per_minute = 2 }").is_err());
    }
}
