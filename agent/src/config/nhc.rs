//! NHC (Node Health Check) as a command of the site. By default it sets the node's state in Slurm, as does nodewarden; the two
//! would undo each other. So its own marking must be off.
//!
//! NHC takes `VARIABLE=value` arguments, then `/etc/sysconfig/nhc` (Debian: `/etc/default/nhc`), then `export` lines of nhc.conf:
//! the last one counts (`nhc` 1.4.3, `nhcmain_parse_cmdline` and below).

use std::path::{Path, PathBuf};

use collectors::sys::root;

/// Its programs.
const PROGRAMS: [&str; 2] = ["nhc", "nhc-wrapper"];

/// Limit of a file of NHC, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Variables, and what their values must be. A detached run reports the run before, and gets none of the arguments.
const MARK: &str = "MARK_OFFLINE";
const DETACHED: &str = "DETACHED_MODE";

/// The words of a command, also those of a script in `sh -c`.
fn words(command: &[String]) -> impl DoubleEndedIterator<Item = &str> {
    let between = |c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')');
    let all = command.iter().flat_map(move |arg| arg.split(between));
    all.map(|word| word.trim_matches(['"', '\'']))
        .filter(|word| !word.is_empty())
}

fn is_program(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| PROGRAMS.contains(&name))
}

/// Whether the command starts NHC, by name.
pub(crate) fn is_nhc(command: &[String]) -> bool {
    words(command).any(is_program)
}

/// The last value of a variable among the words.
fn value<'a>(command: &'a [String], variable: &str) -> Option<&'a str> {
    let mut values = words(command)
        .rev()
        .filter_map(|word| word.strip_prefix(variable)?.strip_prefix('='));
    values.next()
}

/// Why this command must not check the node: NHC whose arguments leave its marking on.
pub(crate) fn fault(command: &[String]) -> Option<String> {
    is_nhc(command).then(|| fault_of(command)).flatten()
}

fn fault_of(command: &[String]) -> Option<String> {
    if let Some(found) = value(command, DETACHED).filter(|value| *value != "0") {
        return Some(format!(
            "found {DETACHED}={found}, expected {DETACHED}=0: a detached NHC reports the run before, and marks the node \
             whatever its arguments say"
        ));
    }
    let found = match value(command, MARK) {
        Some("0") => return None,
        Some(other) => format!("{MARK}={other}"),
        None => format!("NHC without {MARK}"),
    };
    Some(format!(
        "found {found}, expected the argument {MARK}=0: NHC drains and resumes the node itself, and would undo nodewarden's drains"
    ))
}

/// What can only be seen in files: NHC behind a link of another name, and what NHC's own files set against its arguments.
///
/// # Errors
/// As [`fault`], or the file and line of the first such setting.
pub(crate) fn check_files(root: &Path, command: &[String]) -> Result<(), String> {
    if !is_nhc(command) {
        if !command.first().is_some_and(|program| resolves(root, program)) {
            return Ok(());
        }
        if let Some(message) = fault_of(command) {
            return Err(message);
        }
    }
    for file in files(command) {
        let path = root.join(file.strip_prefix("/").unwrap_or(&file));
        // One that cannot be read sets nothing that we know of; the argument stays.
        let Ok(Some(bytes)) = root::read_bytes(&path, MAX_FILE) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in text.lines().enumerate() {
            for variable in [MARK, DETACHED] {
                if let Some(found) = assigned(line, variable).filter(|value| *value != "0") {
                    return Err(format!(
                        "{}:{}: found {variable}={found}, which overrides the argument, expected {variable}=0",
                        file.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Whether a program is a link to NHC.
fn resolves(root: &Path, program: &str) -> bool {
    let path = root.join(Path::new(program).strip_prefix("/").unwrap_or(Path::new(program)));
    root::resolve(&path).is_ok_and(|path| path.to_str().is_some_and(is_program))
}

/// The files that NHC reads for these arguments, in order.
fn files(command: &[String]) -> Vec<PathBuf> {
    let after = |flag: &str| {
        let mut pairs = command.iter().zip(command.iter().skip(1));
        pairs.find_map(|(one, next)| (one == flag).then_some(next.as_str()))
    };
    let of = |flag, variable| after(flag).or_else(|| value(command, variable));
    let name = of("-n", "NAME").unwrap_or("nhc");
    let folder = of("-D", "CONFDIR").unwrap_or("/etc/nhc");
    let conf =
        of("-c", "CONFFILE").map_or_else(|| Path::new(folder).join(format!("{name}.conf")), PathBuf::from);
    vec![
        Path::new("/etc/default").join(name),
        Path::new("/etc/sysconfig").join(name),
        conf,
    ]
}

/// The value that a line of a shell script gives to a variable.
fn assigned<'a>(line: &'a str, variable: &str) -> Option<&'a str> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return None;
    }
    let starts = line.match_indices(variable).filter(|(at, _)| {
        let before = line.get(..*at).and_then(|text| text.chars().next_back());
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '$' | '{'))
    });
    let values = starts.filter_map(|(at, _)| line.get(at..)?.strip_prefix(variable)?.strip_prefix('='));
    let ends = |c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | ')' | '#');
    values.last().map(|value| {
        value
            .split(ends)
            .next()
            .unwrap_or_default()
            .trim_matches(['"', '\''])
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests write NHC's files")]
mod tests {
    use std::fs;

    use super::*;

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn nhc_needs_the_argument_that_turns_its_marking_off() {
        for good in [
            &["/usr/sbin/nhc", "MARK_OFFLINE=0", "TIMEOUT=20"][..],
            &["/usr/sbin/nhc", "-a", "MARK_OFFLINE=0"],
            &[
                "/usr/sbin/nhc",
                "MARK_OFFLINE=1",
                "MARK_OFFLINE=0",
                "DETACHED_MODE=0",
            ],
            &["/usr/bin/env", "MARK_OFFLINE=0", "/opt/nhc/sbin/nhc"],
            &["/bin/sh", "-c", "MARK_OFFLINE=0 nhc; exit $?"],
            &["/usr/local/sbin/check", "/etc/nhc/nhc.conf"],
            &["/usr/sbin/nhc-genconf"],
        ] {
            assert_eq!(fault(&command(good)), None, "{good:?}");
        }
        for (bad, found) in [
            (&["/usr/sbin/nhc"][..], "NHC without MARK_OFFLINE"),
            (&["/usr/sbin/nhc", "MARK_OFFLINE=1"], "MARK_OFFLINE=1"),
            (&["/usr/sbin/nhc", "MARK_OFFLINE="], "MARK_OFFLINE="),
            (
                &["/usr/sbin/nhc", "MARK_OFFLINE=0", "MARK_OFFLINE=1"],
                "MARK_OFFLINE=1",
            ),
            (
                &["/usr/bin/timeout", "60", "/usr/sbin/nhc"],
                "NHC without MARK_OFFLINE",
            ),
            (&["/bin/bash", "-c", "nhc && true"], "NHC without MARK_OFFLINE"),
            (&["/usr/sbin/nhc-wrapper", "-q"], "NHC without MARK_OFFLINE"),
            (
                &["/usr/sbin/nhc", "MARK_OFFLINE=0", "DETACHED_MODE=1"],
                "DETACHED_MODE=1",
            ),
        ] {
            let message = fault(&command(bad)).unwrap();
            assert!(
                message.starts_with(&format!("found {found}, expected ")),
                "{bad:?}: {message}"
            );
        }
    }

    #[test]
    fn a_file_of_nhc_that_turns_it_on_again_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["etc/default", "etc/sysconfig", "etc/nhc", "usr/sbin"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let nhc = command(&["/usr/sbin/nhc", "MARK_OFFLINE=0"]);
        let check = |command: &[String]| check_files(dir.path(), command);
        assert_eq!(check(&nhc), Ok(()), "no file");
        let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
        for (path, text, line) in [
            (
                "etc/default/nhc",
                "# MARK_OFFLINE=1\nTIMEOUT=60\nMARK_OFFLINE=1\n",
                Some((3, "MARK_OFFLINE=1")),
            ),
            (
                "etc/sysconfig/nhc",
                "export MARK_OFFLINE=\"1\" # on\n",
                Some((1, "MARK_OFFLINE=1")),
            ),
            (
                "etc/nhc/nhc.conf",
                "\n* || export MARK_OFFLINE=1\n",
                Some((2, "MARK_OFFLINE=1")),
            ),
            (
                "etc/nhc/nhc.conf",
                "*||DETACHED_MODE=1; TIMEOUT=9\n",
                Some((1, "DETACHED_MODE=1")),
            ),
            (
                "etc/nhc/nhc.conf",
                "* || export MARK_OFFLINE=0\n* || check_x $MARK_OFFLINE=1 NO_MARK_OFFLINE=1\n",
                None,
            ),
        ] {
            write(path, text);
            let expected = line.map(|(line, found)| {
                let variable = found.trim_end_matches("=1");
                format!("/{path}:{line}: found {found}, which overrides the argument, expected {variable}=0")
            });
            assert_eq!(check(&nhc).err(), expected, "{text:?}");
            fs::remove_file(dir.path().join(path)).unwrap();
        }
        write("etc/default/other", "MARK_OFFLINE=1");
        write("etc/nhc/site.conf", "\nDETACHED_MODE=1");
        for args in [
            &["-n", "other"][..],
            &["NAME=other"],
            &["-c", "/etc/nhc/site.conf"],
        ] {
            assert!(
                check(&[nhc.as_slice(), &command(args)].concat()).is_err(),
                "{args:?}"
            );
        }
        // A link with another name.
        write("usr/sbin/nhc", "");
        std::os::unix::fs::symlink("nhc", dir.path().join("usr/sbin/node-check")).unwrap();
        let link = command(&["/usr/sbin/node-check", "MARK_OFFLINE=0"]);
        assert_eq!(check(&link), Ok(()));
        assert!(
            check(&link[..1])
                .unwrap_err()
                .contains("NHC without MARK_OFFLINE")
        );
        write("etc/default/nhc", "MARK_OFFLINE=1");
        assert!(check(&link).is_err());
        assert_eq!(check(&command(&["/usr/sbin/other"])), Ok(()));
    }
}
