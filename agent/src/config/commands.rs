//! `[commands.NAME]`: programs of the site that the runner may start.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use collectors::settings::duration;
use serde::{Deserialize, Serialize};

use super::gpfs;

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

/// What a key that names a command may name, for a message.
pub(super) fn expected(commands: &BTreeMap<String, SiteCommand>) -> String {
    let names: Vec<&str> = commands.keys().map(String::as_str).collect();
    match names.as_slice() {
        [] => "a table [commands.NAME], which is absent".to_owned(),
        names => format!("one of [commands]: {}", names.join(", ")),
    }
}

impl SiteCommand {
    /// The time limit.
    pub fn deadline(&self) -> Duration {
        duration::parse(&self.timeout).unwrap_or_default()
    }

    /// What the type of the key allows and must not be: for each fault its field, empty for the name, and the found and the
    /// expected value.
    pub fn faults(name: &str, row: &Self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if let Err(message) = check_name(name) {
            faults.push(("", message));
        }
        if gpfs::is_one(name) {
            let message = format!(
                "commands.{name}: found a name of a command of GPFS (gpfs.commands), expected another one"
            );
            faults.push(("", message));
        }
        let program = row.command.first().map(String::as_str).unwrap_or_default();
        if !Path::new(program).is_absolute() {
            let message =
                format!("commands.{name}.command: found program {program:?}, expected an absolute path");
            faults.push(("command", message));
        }
        if row.command.iter().any(|arg| arg.contains('\0')) {
            faults.push(("command", format!("commands.{name}.command: found a NUL byte")));
        }
        let deadline = row.deadline();
        if deadline.is_zero() || deadline > MOST {
            let found = &row.timeout;
            let message = format!("commands.{name}.timeout: found {found}, expected 1ms to 1h");
            faults.push(("timeout", message));
        }
        faults
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
        let fields = |name: &str, command: &[&str], timeout: &str| {
            let faults = SiteCommand::faults(name, &row(command, timeout));
            faults.into_iter().map(|(field, _)| field).collect::<Vec<_>>()
        };
        assert_eq!(fields("nhc-check-2", &["/usr/sbin/nhc", "-q"], "30s"), [""; 0]);
        for (name, command, timeout, faulty) in [
            ("Nhc", &["/usr/sbin/nhc"][..], "30s", &[""][..]),
            ("gpfs-mmhealth", &["/usr/sbin/nhc"], "30s", &[""]),
            ("nhc", &["nhc"], "30s", &["command"]),
            ("nhc", &[], "30s", &["command"]),
            ("nhc", &["/usr/sbin/nhc", "a\0b"], "30s", &["command"]),
            ("nhc", &["/usr/sbin/nhc"], "0", &["timeout"]),
            ("nhc", &["/usr/sbin/nhc"], "2h", &["timeout"]),
            (
                "Nhc",
                &["nhc", "a\0b"],
                "2h",
                &["", "command", "command", "timeout"],
            ),
        ] {
            assert_eq!(
                fields(name, command, timeout),
                faulty,
                "{name} {command:?} {timeout}"
            );
        }
    }
}
