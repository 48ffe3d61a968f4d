//! When to use colour, and which.

use std::ffi::OsString;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set or TERM is "dumb".
    #[default]
    Auto,
    /// Always, for a pager that supports it.
    Always,
    /// Never.
    Never,
}

/// The option for colour.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ColourArgs {
    /// When to use colour; auto: on a terminal, unless NO_COLOR is set or TERM is "dumb".
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = false
    )]
    pub(crate) colour: Colour,
}

impl Colour {
    /// Whether to use it, on a terminal or not, in this environment.
    pub(crate) fn is_shown(self, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                // As https://no-color.org specifies: set and not empty.
                let refused = env("NO_COLOR").is_some_and(|v| !v.is_empty());
                is_terminal && !refused && env("TERM").is_some_and(|t| t != "dumb")
            }
        }
    }
}

/// The meaning of a text; it determines the colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// Less important.
    Faint,
    /// Healthy.
    Good,
    /// Unknown, or needs attention.
    Doubt,
    /// Faulty.
    Bad,
}

impl Paint {
    /// The text between the escape sequences that turn the colour on and off.
    pub(crate) fn on(self, text: &str) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Heading => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Doubt => "33",
            Self::Bad => "1;31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_shown_on_a_terminal_that_can_and_that_nobody_told_not_to() {
        let shown = |colour: Colour, terminal, vars: &[(&str, &str)]| {
            colour.is_shown(terminal, |name| {
                vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into())
            })
        };
        let xterm = ("TERM", "xterm-256color");
        assert!(shown(Colour::Auto, true, &[xterm]));
        assert!(shown(Colour::Auto, true, &[xterm, ("NO_COLOR", "")]));
        assert!(!shown(Colour::Auto, true, &[xterm, ("NO_COLOR", "1")]));
        assert!(!shown(Colour::Auto, true, &[("TERM", "dumb")]));
        assert!(!shown(Colour::Auto, true, &[]));
        assert!(!shown(Colour::Auto, false, &[xterm]));
        assert!(shown(Colour::Always, false, &[("NO_COLOR", "1")]));
        assert!(!shown(Colour::Never, true, &[xterm]));
    }
}
