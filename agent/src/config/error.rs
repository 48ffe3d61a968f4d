//! Errors of a configuration, with file and position: every error of every file, not only the first.

use std::fmt;

/// A position in a configuration file or in a `--set` option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as it was named, or the whole option.
    pub source: String,
    /// Line from 1; 0 if the source has one line only or the position is unknown.
    pub line: usize,
    /// Column from 1, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        Ok(())
    }
}

impl Place {
    /// Without a position.
    pub(super) fn nowhere() -> Self {
        Self {
            source: "configuration".to_owned(),
            line: 0,
            column: 0,
        }
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its position.
    pub place: Place,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A rejected configuration: one line per error, files in the order in which they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Every problem; never empty.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
