//! Short programs with a deadline.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::wait;

/// What a program left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output, lossily decoded.
    pub stdout: String,
    /// Standard error, lossily decoded.
    pub stderr: String,
}

impl Output {
    /// The output, or an error with all output of the program.
    pub fn ok(self) -> Result<Self> {
        match self.code {
            Some(0) => Ok(self),
            code => bail!("exit {code:?}\nstdout: {}\nstderr: {}", self.stdout, self.stderr),
        }
    }
}

/// Runs `command` with `input` on its stdin. One that outlives `timeout` is killed, and that is an error.
pub fn run(mut command: Command, input: &[u8], timeout: Duration) -> Result<Output> {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {what}"))?;
    let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // A thread per pipe: none of them can fill up while another one is served.
    let out = drain(stdout);
    let err = drain(stderr);
    let input = input.to_vec();
    std::thread::spawn(move || {
        if let Some(pipe) = &mut stdin {
            // A program that does not read its input closes the pipe: its own affair.
            drop(pipe.write_all(&input));
        }
    });
    let ended = wait::until(&what, timeout, || Ok(child.try_wait()?));
    if ended.is_err() {
        child.kill().ok();
        child.wait().ok();
    }
    let status = ended?;
    Ok(Output {
        code: status.code(),
        stdout: join(out),
        stderr: join(err),
    })
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<Vec<u8>> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).ok();
        }
        send.send(bytes).ok();
    });
    receive
}

fn join(pipe: std::sync::mpsc::Receiver<Vec<u8>>) -> String {
    // A grandchild may keep the pipe open for ever; the program itself has ended.
    let bytes = pipe.recv_timeout(Duration::from_secs(10)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where `program` lies: on PATH or in the usual system folders.
pub fn which(program: &str) -> Result<std::path::PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"])
        .map(|dir| std::path::Path::new(dir).join(program))
        .find(|file| file.is_file())
        .with_context(|| format!("no program {program} on this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_input_and_keeps_both_outputs() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cat; echo oops >&2; exit 3"]);
        let output = run(command, &vec![b'x'; 300_000], wait::PATIENCE).unwrap();
        assert_eq!(
            (output.code, output.stdout.len(), output.stderr.as_str()),
            (Some(3), 300_000, "oops\n")
        );
        assert!(output.ok().unwrap_err().to_string().contains("oops"));
    }

    #[test]
    fn ends_a_program_that_outlives_its_deadline() {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        assert!(run(command, b"", Duration::from_millis(50)).is_err());
    }
}
