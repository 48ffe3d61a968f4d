//! GPFS (IBM Storage Scale): what mmfsd counts for this node, by the socket that mmpmon uses, and the output of commands of
//! GPFS, by files that another process writes. Nothing is started here: the mm commands are scripts that pile up when mmfsd
//! hangs.

pub mod command_metrics;
pub mod commands;
mod filesystem;
pub mod health;
pub mod metrics;
mod output;
pub(crate) mod record;
pub(crate) mod replies;
mod state;
mod waiters;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sys::mmpmon::{self, Reply};
use crate::sys::root;
use crate::{Block, Cadence, Device, Devices, Env, Error, Settings, Source, Spec, Subject, domain};
use filesystem::Key;
use metrics::{DAEMON_UP, INFO, METRICS};
use record::Record;
use replies::Replies;

/// The gpfs collector.
pub static SPEC: Spec = Spec {
    name: "gpfs",
    domain: &domain::GPFS,
    metrics: METRICS,
    events: &[],
    notes: false,
    cadence: Cadence::OnDemand {
        fresh: Duration::from_secs(5),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: commands::KEYS,
    open,
};

/// Absent where GPFS is not installed.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    if !root::has_source(env, domain::GPFS.only_with) {
        return Ok(None);
    }
    Ok(Some(Source {
        devices: Box::new(GpfsDevices {
            env: env.clone(),
            replies: settings.find(&commands::REPLIES)?,
        }),
        watcher: None,
    }))
}

struct GpfsDevices {
    env: Env,
    /// The folder of the output of commands. `None`: it is not read.
    replies: Option<String>,
}

impl Devices for GpfsDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let mut devices: Vec<Box<dyn Device>> = vec![Box::new(GpfsNode {
            env: self.env.clone(),
            subject: Subject::node(),
            request: MORE,
        })];
        // A device of its own: it is read while mmfsd does not answer.
        if let Some(folder) = &self.replies {
            devices.push(Box::new(Replies::new(&self.env, folder)));
        }
        Ok(devices)
    }
}

/// All figures of each filesystem.
const MORE: &str = "gfis";
/// Those of the documented request `fs_io_s`.
const LESS: &str = "fis";

/// mmfsd of this node. Its reply has all filesystems.
struct GpfsNode {
    env: Env,
    subject: Subject,
    request: &'static str,
}

impl Device for GpfsNode {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let mut request = self.request;
        let mut reply = mmpmon::ask(&self.env, request)?;
        if request == MORE && matches!(reply, Reply::Text(_)) && !has(&reply, MORE) {
            request = LESS;
            reply = mmpmon::ask(&self.env, request)?;
            // Where that has no line either, as while mmfsd starts, the next reading asks for all again.
            if has(&reply, LESS) {
                self.request = LESS;
            }
        }
        let Reply::Text(reply) = reply else {
            out.u64(&DAEMON_UP, &[], 0);
            return Ok(());
        };
        let mut bad = None;
        let mut lines = Vec::new();
        for record in record::records(&reply) {
            match record {
                Ok(record) if record.kind == request => lines.push(record),
                // Another request's: no figures of a filesystem.
                Ok(_) => {}
                Err(line) => bad = bad.or(Some(Error::parse("mmpmon", line.line, line.expected))),
            }
        }
        if lines.is_empty() {
            return Err(bad.unwrap_or_else(|| {
                Error::parse(format!("mmpmon {request}"), &reply, "a line for the request")
            }));
        }
        out.u64(&DAEMON_UP, &[], 1);
        if let Some(first) = lines.first() {
            let text = |key| first.text(key).unwrap_or_default();
            out.info(&INFO, &[text("_nn_"), text("_n_")]);
        }
        let error = bad.or_else(|| lines.iter().find_map(refusal));
        show(&lines, out);
        if let Some(error) = error {
            out.incomplete(&error);
        }
        Ok(())
    }
}

/// One set of series for each filesystem of the reply.
fn show(lines: &[Record<'_>], out: &mut Block) {
    let mut found = BTreeMap::new();
    for line in lines.iter().filter(|line| line.code() == Some(0)) {
        if let Some(key) = Key::of(line) {
            found.entry(key).or_insert(line);
        }
    }
    for (key, line) in found {
        filesystem::show(&key, line, out);
    }
}

/// Whether a reply has a line of the request. One that mmfsd does not know has no line, or only lines of others.
fn has(reply: &Reply, request: &str) -> bool {
    let Reply::Text(text) = reply else {
        return false;
    };
    record::records(text)
        .flatten()
        .any(|record| record.kind == request)
}

/// A result other than success. 1 is no error: no filesystem is mounted.
fn refusal(record: &Record<'_>) -> Option<Error> {
    let found = match record.code() {
        Some(0 | 1) => return None,
        Some(code) => code.to_string(),
        None => record.text("_rc_").unwrap_or("no result").to_owned(),
    };
    Some(Error::parse(
        format!("mmpmon {}: _rc_", record.kind),
        &found,
        "0, or 1 if no filesystem is mounted",
    ))
}

#[cfg(test)]
mod tests;
