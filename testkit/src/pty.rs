//! A program on a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::pty::{Winsize, openpty};

use crate::wait;

/// A program whose terminal is ours. Dropping it kills the program.
#[derive(Debug)]
pub struct Pty {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Pty {
    /// Runs a command on a new controlling terminal of this size, so that keys such as Ctrl-C reach it as signals.
    ///
    /// # Errors
    /// When no terminal is available, or the program does not start.
    pub fn run(mut command: Command, columns: u16, lines: u16) -> Result<Self> {
        let size = Winsize {
            ws_row: lines,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).context("openpty")?;
        let end = || pty.slave.try_clone().map(Stdio::from);
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        // SAFETY: every call is async-signal-safe, and descriptor 0 is the terminal by then.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                // A job in the background of a shell inherits these as ignored, and so would what runs here.
                for key in [libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(key, libc::SIG_DFL);
                }
                match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        // Ours would keep the terminal open after the program's end; the command holds copies too.
        drop(command);
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let mut screen = keyboard.try_clone()?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the program is EIO here.
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(&bytes[..n]);
            }
        });
        Ok(Self {
            child,
            keyboard,
            seen,
            reader: Some(reader),
        })
    }

    /// Everything written so far.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until something is written that was not there at `from` bytes, and gives how much there is then.
    ///
    /// # Errors
    /// When it does not come in time.
    pub fn wait_for(&self, part: &str, from: usize, timeout: Duration) -> Result<usize> {
        wait::until(&format!("{part:?} on the terminal"), timeout, || {
            let seen = self.seen();
            let found = seen.get(from..).is_some_and(|new| new.contains(part));
            Ok(found.then_some(seen.len()))
        })
        .with_context(|| self.seen())
    }

    /// Types.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn types(&mut self, text: &str) -> Result<()> {
        Ok(self.keyboard.write_all(text.as_bytes())?)
    }

    /// Waits for the program's end, and for all that it wrote.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let status = wait::until("the program's end", timeout, || Ok(self.child.try_wait()?))
            .with_context(|| self.seen())?;
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has shown it.
            drop(reader.join());
        }
        Ok(status)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_sees_a_terminal_of_that_size_and_what_is_typed_there() {
        let mut command = Command::new("sh");
        // Not the shell's own `read`: a shell may lose an interrupt that comes just before it starts its next command.
        command.args(["-c", "stty size; exec sed --unbuffered 's/^/read /'"]);
        let mut pty = Pty::run(command, 72, 20).unwrap();
        pty.wait_for("20 72", 0, LONG).unwrap();
        pty.types("hello\n").unwrap();
        pty.wait_for("read hello", 0, LONG).unwrap();
        pty.types("\x03").unwrap();
        assert!(!pty.wait(LONG).unwrap().success());
    }
}
