//! Programs that a test writes and then starts. The kernel starts no file that any process has open for writing (ETXTBSY),
//! and a process that another thread starts has our open files until its exec: so a process of its own writes them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::exec;
use crate::wait::PATIENCE;

/// Writes a script that everyone may run.
///
/// # Errors
/// The message of install(1).
pub fn write(path: &Path, text: &str) -> Result<()> {
    install(Path::new("/dev/stdin"), path, text)
}

/// Copies a program.
///
/// # Errors
/// The message of install(1).
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    install(from, to, "")
}

fn install(from: &Path, to: &Path, input: &str) -> Result<()> {
    let mut command = Command::new("install");
    command.args(["-m", "755"]).arg(from).arg(to);
    let output = exec::run(command, input.as_bytes(), PATIENCE)?;
    output.ok().with_context(|| to.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_program_is_started_while_other_threads_start_processes() {
        let dir = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        Command::new("true").status().unwrap();
                    }
                });
            }
            for n in 0..100 {
                let (script, program) = (
                    dir.path().join(format!("{n}")),
                    dir.path().join(format!("true{n}")),
                );
                write(&script, "#!/bin/sh\nexit 7\n").unwrap();
                copy(Path::new("/bin/true"), &program).unwrap();
                let code = |path: &Path| Command::new(path).status().unwrap().code();
                assert_eq!((code(&script), code(&program)), (Some(7), Some(0)));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let error = write(Path::new("/proc/none/script"), "").unwrap_err();
        assert!(format!("{error:#}").contains("/proc/none/script"), "{error:#}");
    }
}
