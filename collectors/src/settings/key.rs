//! One row of the table of configuration keys, of the daemon and of collectors alike.

use toml::Value;

use super::{Kind, Settings};
use crate::Error;

/// A rule that involves several keys.
pub(super) type Rule = fn(&Settings) -> Result<(), Error>;

/// A configuration key. Parsing, errors, the reference and the example file follow from it; [`Settings::get`] reads it.
#[derive(Debug)]
pub struct Key {
    /// Its dotted path, such as `rdma.exclude`.
    pub name: &'static str,
    /// What a value must be.
    pub kind: Kind,
    /// The value where none is set, as TOML.
    pub default: Option<&'static str>,
    /// A value that a site could set, as TOML.
    pub example: Option<&'static str>,
    /// A rule that involves other keys, checked where this key is set and every value fits its own row.
    pub rule: Option<Rule>,
    /// The release that introduced it.
    pub since: &'static str,
    /// What it is for, for the reference and the example file.
    pub help: &'static str,
}

impl Key {
    /// Its table, empty at the top, and its name there.
    pub fn split(&self) -> (&'static str, &'static str) {
        self.name.rsplit_once('.').unwrap_or(("", self.name))
    }

    /// The default as a value.
    pub fn default_value(&self) -> Option<Value> {
        self.default.and_then(|text| text.parse().ok())
    }
}

/// Makes rows: `NAME = "path": kind, default "toml", example "toml", rule f, since "0.1.0", "help";`, in this order, what
/// does not apply left out. The first line names the list of all rows.
#[macro_export]
macro_rules! keys {
    (@some) => { None };
    (@some $given:expr) => { Some($given) };
    ($vis:vis $all:ident; $(
        $id:ident = $name:literal: $kind:expr $(, default $default:literal)? $(, example $example:literal)?
        $(, rule $rule:expr)?, since $since:literal, $help:literal;
    )*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            $vis static $id: $crate::settings::Key = $crate::settings::Key {
                name: $name,
                kind: $kind,
                default: $crate::keys!(@some $($default)?),
                example: $crate::keys!(@some $($example)?),
                rule: $crate::keys!(@some $($rule)?),
                since: $since,
                help: $help,
            };
        )*
        /// Every row, in the order of the reference.
        $vis static $all: &[&$crate::settings::Key] = &[$(&$id),*];
    };
}
