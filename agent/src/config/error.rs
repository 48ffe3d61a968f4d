//! What is wrong with a configuration, and where: every problem of every file, not just the first.

use std::fmt;

/// A position in a configuration file or in a `--set` option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as it was named, or the whole option.
    pub source: String,
    /// Line from 1; 0 where the source has only one or the position is not known.
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
    /// No position in any source.
    pub(super) fn nowhere() -> Self {
        Self {
            source: "configuration".to_owned(),
            line: 0,
            column: 0,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A configuration that was not taken: one line per problem, files in the order in which they are read.
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
