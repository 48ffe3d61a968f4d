//! Debian's Chromium, headless, over the DevTools protocol. The protocol runs over a pipe, so it needs no WebSocket:
//! messages are JSON, each ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cmd;

/// Longest wait for an answer or an event.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser reads its commands from descriptor 3 and answers on 4: here its standard input and output.
const START: &str = "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// Nothing but the page may use the network, and only on this machine.
const ARGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
];

/// A running browser with a profile of its own.
pub(crate) struct Chromium {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    _profile: TempDir,
}

impl Chromium {
    pub(crate) fn start() -> Result<Self> {
        let profile = tempfile::Builder::new().prefix("nodewarden-browser-").tempdir()?;
        let mut command = cmd::program("sh", &["-c", START, "chromium"]);
        command
            .args(ARGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start chromium")?;
        let (Some(to), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("chromium has no pipes");
        };
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(out).split(0).map_while(Result::ok) {
                let Ok(value) = serde_json::from_slice(&message) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            to,
            from,
            last: 0,
            _profile: profile,
        })
    }

    /// Opens an empty tab.
    pub(super) fn tab(&mut self) -> Result<Tab<'_>> {
        let mut events = Vec::new();
        let target = self.call(
            None,
            "Target.createTarget",
            &json!({"url": "about:blank"}),
            &mut events,
        )?;
        let target = target["targetId"]
            .as_str()
            .context("a target without id")?
            .to_owned();
        let attach = json!({"targetId": target, "flatten": true});
        let session = self.call(None, "Target.attachToTarget", &attach, &mut events)?;
        let session = session["sessionId"]
            .as_str()
            .context("a session without id")?
            .to_owned();
        Ok(Tab {
            browser: self,
            target,
            session,
            events: Vec::new(),
        })
    }

    fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        events: &mut Vec<Value>,
    ) -> Result<Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut line = serde_json::to_vec(&message)?;
        line.push(0);
        self.to
            .write_all(&line)
            .with_context(|| format!("chromium ended before {method}"))?;
        let end = Instant::now() + PATIENCE;
        loop {
            let mut answer = self.next(end, method)?;
            if answer["id"] == self.last {
                ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return Ok(answer["result"].take());
            }
            events.push(answer);
        }
    }

    fn next(&self, end: Instant, waits_for: &str) -> Result<Value> {
        let left = end.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => anyhow!("chromium: no {waits_for} within {PATIENCE:?}"),
            RecvTimeoutError::Disconnected => anyhow!("chromium ended before {waits_for}"),
        })
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its other processes end with it; an error means that it has ended already.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// A tab. The events of its page are kept in their order.
pub(super) struct Tab<'a> {
    browser: &'a mut Chromium,
    target: String,
    session: String,
    events: Vec<Value>,
}

impl Tab<'_> {
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.browser
            .call(Some(&self.session), method, params, &mut self.events)
    }

    /// Waits for an event since the tab was opened.
    pub(super) fn wait(&mut self, event: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !self.events.iter().any(|e| e["method"] == event) {
            let next = self.browser.next(end, event)?;
            self.events.push(next);
        }
        Ok(())
    }

    /// The parameters of the events of that name so far.
    pub(super) fn events<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        let named = self.events.iter().filter(move |e| e["method"] == name);
        named.map(|e| &e["params"])
    }

    /// The value of an expression, also of a promise.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", &params)?;
        let error = &answer["exceptionDetails"];
        ensure!(error.is_null(), "the page's script failed: {error}");
        Ok(answer["result"]["value"].take())
    }

    pub(super) fn close(self) -> Result<()> {
        let params = json!({"targetId": self.target});
        self.browser
            .call(None, "Target.closeTarget", &params, &mut Vec::new())
            .map(drop)
    }
}
