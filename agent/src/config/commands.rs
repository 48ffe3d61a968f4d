//! `[commands.NAME]`: programs of the site that the runner may start.

use std::path::Path;
use std::time::Duration;

use collectors::settings::duration;
use serde::{Deserialize, Serialize};

/// Longest name.
const MAX_NAME: usize = 40;

/// Longest time limit: a command that needs more is a service.
const MOST: Duration = Duration::from_secs(3600);

/// `[commands.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteCommand {
    /// The program and its fixed arguments.
    pub command: Vec<String>,
    /// Its time limit, as written.
    pub timeout: String,
}

impl SiteCommand {
    /// The time limit.
    pub fn deadline(&self) -> Duration {
        duration::parse(&self.timeout).unwrap_or_default()
    }

    /// Checks what the type of the key does not.
    ///
    /// # Errors
    /// The found and the expected value.
    pub fn check(name: &str, row: &Self) -> Result<(), String> {
        check_name(name)?;
        let program = row.command.first().map(String::as_str).unwrap_or_default();
        if !Path::new(program).is_absolute() {
            return Err(format!(
                "commands.{name}.command: found program {program:?}, expected an absolute path"
            ));
        }
        if row.command.iter().any(|arg| arg.contains('\0')) {
            return Err(format!("commands.{name}.command: found a NUL byte"));
        }
        let deadline = row.deadline();
        if deadline.is_zero() || deadline > MOST {
            return Err(format!(
                "commands.{name}.timeout: found {}, expected 1ms to 1h",
                row.timeout
            ));
        }
        Ok(())
    }
}

/// Whether a text may name a command.
///
/// # Errors
/// The found and the expected form.
pub fn check_name(name: &str) -> Result<(), String> {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(known) {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_NAME).collect();
    Err(format!(
        "name of a command: found {shown:?}, expected 1 to {MAX_NAME} of a-z, 0-9 and -"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(command: &[&str], timeout: &str) -> SiteCommand {
        SiteCommand {
            command: command.iter().map(|c| (*c).to_owned()).collect(),
            timeout: timeout.to_owned(),
        }
    }

    #[test]
    fn a_row_names_a_program_by_its_path_and_has_a_time_limit() {
        let check = |name: &str, row: &SiteCommand| SiteCommand::check(name, row).map_err(|e| e.to_string());
        check("nhc-check-2", &row(&["/usr/sbin/nhc", "-q"], "30s")).unwrap();
        for (name, command, timeout) in [
            ("Nhc", &["/usr/sbin/nhc"][..], "30s"),
            ("nhc", &["nhc"], "30s"),
            ("nhc", &[], "30s"),
            ("nhc", &["/usr/sbin/nhc", "a\0b"], "30s"),
            ("nhc", &["/usr/sbin/nhc"], "0"),
            ("nhc", &["/usr/sbin/nhc"], "2h"),
        ] {
            assert!(
                check(name, &row(command, timeout)).is_err(),
                "{name} {command:?} {timeout}"
            );
        }
    }
}
