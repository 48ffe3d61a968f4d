//! The type of a key's value: checked, and described in errors and in the reference.

use toml::Value;

use super::duration;

/// The type of a value.
#[derive(Debug)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number within bounds.
    Integer {
        /// For messages: `a number of bytes`.
        what: &'static str,
        /// The minimum.
        from: i64,
        /// The maximum.
        to: i64,
    },
    /// A duration in the form of [`duration`].
    Duration {
        /// Whether 0 is allowed.
        zero: bool,
    },
    /// A string of a certain form.
    Text {
        /// For messages: `a user name or uid`.
        what: &'static str,
        /// Whether it has that form.
        fits: fn(&str) -> bool,
    },
    /// A name that must be known.
    Name {
        /// For messages: `a metric name`.
        what: &'static str,
        /// Returns why a name is rejected.
        find: fn(&str) -> Result<(), String>,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An absolute path.
    Path,
    /// An array.
    List {
        /// For messages: `an array of PCI addresses`.
        what: &'static str,
        /// The type of each value.
        of: &'static Self,
        /// Whether it may be empty.
        empty: bool,
    },
    /// One value, or an array of such values.
    OneOrMore(&'static Self),
    /// A table with any names.
    Map {
        /// For messages: `a table of check = mode`.
        what: &'static str,
        /// The type of each value.
        of: &'static Self,
    },
    /// A table with all of these names, and perhaps some of the optional ones.
    Record {
        /// For messages.
        what: &'static str,
        /// Names and the types of their values.
        fields: &'static [(&'static str, Self)],
        /// Names that may be absent, and the types of their values.
        optional: &'static [(&'static str, Self)],
    },
}

/// An invalid value.
#[derive(Debug)]
pub struct Fault {
    /// Names and positions that lead to it from the key's value.
    pub inside: Vec<String>,
    /// The value found and the one expected.
    pub message: String,
}

impl Kind {
    /// The expected value, for error messages.
    pub fn expected(&self) -> String {
        match self {
            Self::Boolean => "true or false".to_owned(),
            Self::Integer { what, from, to } => format!("{what} from {from} to {to}"),
            Self::Duration { zero: true } => duration::EXPECTED.to_owned(),
            Self::Duration { zero: false } => {
                "a duration above 0, such as \"250ms\", \"15s\" or \"5m\"".to_owned()
            }
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                match words.split_last() {
                    Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                    _ => words.concat(),
                }
            }
            Self::Path => "an absolute path".to_owned(),
            Self::OneOrMore(of) => of.expected(),
            Self::Text { what, .. }
            | Self::Name { what, .. }
            | Self::List { what, .. }
            | Self::Map { what, .. }
            | Self::Record { what, .. } => (*what).to_owned(),
        }
    }

    /// The expected value, including each value of an array or table.
    pub fn describe(&self) -> String {
        match self {
            Self::List { of, .. } | Self::Map { of, .. } => {
                format!("{}; each: {}", self.expected(), of.describe())
            }
            Self::OneOrMore(of) => format!("{}, or an array", of.describe()),
            _ => self.expected(),
        }
    }

    /// All faults of a value.
    pub fn check(&self, value: &Value) -> Vec<Fault> {
        let inner = |of: &Self, name: String, value: &Value| {
            of.check(value).into_iter().map(move |mut fault| {
                fault.inside.insert(0, name.clone());
                fault
            })
        };
        let fits = match (self, value) {
            (Self::Boolean, Value::Boolean(_)) => true,
            (Self::Integer { from, to, .. }, Value::Integer(n)) => (from..=to).contains(&n),
            (Self::Duration { zero }, Value::String(s)) => {
                duration::parse(s).is_some_and(|d| *zero || !d.is_zero())
            }
            (Self::Text { fits, .. }, Value::String(s)) => fits(s),
            (Self::Choice(words), Value::String(s)) => words.contains(&s.as_str()),
            (Self::Path, Value::String(s)) => s.starts_with('/') && !s.contains('\0'),
            (Self::Name { find, .. }, Value::String(s)) => {
                let refused = find(s).err().map(|message| Fault {
                    inside: Vec::new(),
                    message,
                });
                return refused.into_iter().collect();
            }
            (Self::List { of, .. } | Self::OneOrMore(of), Value::Array(items))
                if !items.is_empty() || !matches!(self, Self::List { empty: false, .. }) =>
            {
                let items = items.iter().enumerate();
                return items
                    .flat_map(|(n, item)| inner(of, n.to_string(), item))
                    .collect();
            }
            (Self::OneOrMore(of), _) => return of.check(value),
            (Self::Map { of, .. }, Value::Table(table)) => {
                let rows = table.iter();
                return rows
                    .flat_map(|(name, item)| {
                        inner(of, name.clone(), item).map(move |mut fault| {
                            // The place of a table without a key says little.
                            if item.is_table() && fault.inside.len() == 1 {
                                fault.message = format!("{name}: {}", fault.message);
                            }
                            fault
                        })
                    })
                    .collect();
            }
            (Self::Record { fields, optional, .. }, Value::Table(table)) => {
                let known = || fields.iter().chain(*optional);
                let missing = fields.iter().map(|(name, _)| *name);
                let mut missing = missing.filter(|name| !table.contains_key(*name));
                let mut foreign = table
                    .keys()
                    .filter(|name| known().all(|(known, _)| known != name));
                let what = match (missing.next(), foreign.next()) {
                    (_, Some(name)) => format!("a table with the unknown key {name:?}"),
                    (Some(name), None) => format!("a table without {name}"),
                    (None, None) => {
                        let fields = known().filter_map(|(name, of)| Some((name, of, table.get(*name)?)));
                        return fields
                            .flat_map(|(name, of, item)| inner(of, (*name).to_owned(), item))
                            .collect();
                    }
                };
                return vec![Fault {
                    inside: Vec::new(),
                    message: format!("found {what}, expected {}", self.expected()),
                }];
            }
            _ => false,
        };
        if fits {
            return Vec::new();
        }
        vec![Fault {
            inside: Vec::new(),
            message: format!("found {}, expected {}", describe(value), self.expected()),
        }]
    }

    /// Whether its values are tables with names, of which each name is there once.
    pub(super) fn is_named(&self) -> bool {
        let has_name = |of: &Self| match of {
            Self::Record { fields, .. } => fields.iter().any(|(name, _)| *name == "name"),
            _ => false,
        };
        matches!(self, Self::List { of, .. } if has_name(of))
    }

    /// A value in its stored form: always an array if one value may replace an array.
    pub(super) fn normal(&self, value: Value) -> Value {
        match (self, value) {
            (_, Value::Array(items)) => Value::Array(items),
            (Self::OneOrMore(_), one) => Value::Array(vec![one]),
            (_, value) => value,
        }
    }
}

/// A value as an error message shows it.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::String(s) => {
            let short: String = s.chars().take(60).collect();
            let more = if short.len() < s.len() { "..." } else { "" };
            format!("string {short:?}{more}")
        }
        Value::Integer(i) => format!("integer {i}"),
        Value::Float(f) => format!("float {f}"),
        Value::Boolean(b) => format!("boolean {b}"),
        Value::Datetime(d) => format!("date-time {d}"),
        Value::Array(_) => "an array".to_owned(),
        Value::Table(_) => "a table".to_owned(),
    }
}
