//! A real Alertmanager, and a receiver of its notifications.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::ports::Port;
use crate::{exec, wait};

/// A running Alertmanager; dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Alertmanager {
    _daemon: Daemon,
    port: Port,
    _dir: TempDir,
}

impl Alertmanager {
    /// Starts it with this configuration, and returns when it is ready.
    ///
    /// # Errors
    /// When it is not installed, or ends.
    pub fn start(config: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("alertmanager.yml");
        std::fs::write(&file, config)?;
        let port = Port::reserve()?;
        let mut command = Command::new(exec::which("prometheus-alertmanager")?);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
            // No other one to talk to.
            .arg("--cluster.listen-address=")
            .current_dir(dir.path());
        let daemon = Daemon::start(command)?;
        let address = format!("127.0.0.1:{}", port.number());
        daemon.wait_ready("Alertmanager", &address)?;
        Ok(Self {
            _daemon: daemon,
            port,
            _dir: dir,
        })
    }

    /// Its listen address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }
}

/// A notification: the path that it was sent to, and its JSON.
pub type Notification = (String, Value);

/// A server of webhooks that keeps what it gets. It runs until its process ends.
#[derive(Debug)]
pub struct Webhooks {
    address: String,
    got: Arc<Mutex<Vec<Notification>>>,
}

impl Webhooks {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let got = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&got);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let ends = stream.is_err();
                let one = stream.map_err(Into::into).and_then(receive);
                // An error is kept too, for the message of a test that waits in vain.
                let one = one.unwrap_or_else(|error| (format!("error: {error:#}"), Value::Null));
                all.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                if ends {
                    break;
                }
            }
        });
        Ok(Self { address, got })
    }

    /// Its listen address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it has got so far.
    pub fn got(&self) -> Vec<Notification> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn receive(stream: TcpStream) -> Result<Notification> {
    stream.set_read_timeout(Some(wait::PATIENCE))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).context("no path")?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            bail!("ended in its headers");
        }
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let sent = serde_json::from_slice(&body);
    // Alertmanager sends it again after a 500.
    let status = if sent.is_ok() { "200 OK" } else { "500 No JSON" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes())?;
    Ok((path, sent?))
}
