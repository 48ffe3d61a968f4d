//! The kernel's log: Xids, SXids, lost GPUs, firmware of network adapters that does not answer, and the lines of a table
//! of faults, from the boot's first record on, without a library that can hang.
//!
//! `sys::kmsg` reads, `record` takes the prefix apart, `grammar` says what a message means, `fold` counts floods and
//! `follow` turns records into events.

mod counts;
mod firmware;
mod fold;
mod follow;
mod grammar;
mod identity;
pub mod lines;
mod lost;
pub mod metrics;
mod process;
mod record;
#[cfg(test)]
mod script;
mod sections;
mod settings;
#[cfg(test)]
mod strings_tests;
mod sxid;
mod text;
mod watcher;
mod xid;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::event::{EventKind, MAX_TEXT, XidSource};
use crate::sys::kmsg;
use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};
use counts::{CountsDevice, LogCounts};
use settings::{ACCEPT_USER, PATH};
use watcher::KernelLog;

/// The collector.
pub static SPEC: Spec = Spec {
    name: "kernel_log",
    domain: &domain::KERNEL,
    metrics: metrics::ALL,
    events: &[
        EventKind::Xid(XidSource::KernelLog),
        EventKind::Sxid,
        EventKind::FallenOffBus,
        EventKind::Identity,
        EventKind::Firmware,
        EventKind::Kernel,
        EventKind::Overrun,
        EventKind::CursorAhead,
        EventKind::Progress,
    ],
    notes: false,
    cadence: Cadence::OnDemand {
        fresh: Duration::from_secs(1),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: settings::KEYS,
    open,
};

/// The log itself is opened by the watcher, so that a missing right is the watcher's reason and costs no metric.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let mut path: PathBuf = settings.get(&PATH)?;
    if let Some(dir) = &env.recorded {
        path = dir.join("kmsg");
        if !kmsg::exists(&path) {
            return Ok(None);
        }
    }
    let counts = Arc::new(LogCounts::default());
    let watcher = KernelLog::new(
        env.clone(),
        path,
        settings.get(&ACCEPT_USER)?,
        Arc::clone(&counts),
    );
    Ok(Some(Source {
        devices: Box::new(CountsDevice(counts)),
        watcher: Some(Box::new(watcher)),
    }))
}

/// Takes one record through the parsers and checks what must hold for any bytes. For fuzzing.
pub(crate) fn check_record(bytes: &[u8]) {
    if let Ok(record) = record::KmsgRecord::parse(bytes) {
        assert!(record.text.len() < bytes.len());
        assert!(record.level < 8);
        let text = text::unescape(record.text);
        assert!(text.len() <= record.text.len());
        check_line(&text);
    }
}

/// Takes one message through the grammar and checks what must hold for any bytes. For fuzzing.
pub(crate) fn check_line(bytes: &[u8]) {
    let clean = |text: &str, max: usize| assert!(text.len() <= max && !text.contains(char::is_control));
    clean(&crate::text::printable(bytes, MAX_TEXT), MAX_TEXT);
    for whole in [true, false] {
        let body = match grammar::parse(bytes, whole, None, 0) {
            grammar::LogLine::Event(body) => body,
            grammar::LogLine::Kernel(read) => {
                let crate::Subject { kind, name } = &read.line.subject;
                assert!(lines::row(&read.line.row).is_some());
                assert!(
                    name.len() <= 128 && name.is_empty() == (*kind == crate::SubjectKind::Node),
                    "{read:?}"
                );
                continue;
            }
            _ => continue,
        };
        let starts = ["NVRM:", "nvidia-nvswitch", "SXid", "The NVIDIA GPU "];
        let of_gpu = starts.iter().any(|s| bytes.starts_with(s.as_bytes()));
        let of_adapter = matches!(body, crate::EventBody::Firmware { .. });
        assert!(of_gpu != of_adapter && of_adapter == firmware::starts(bytes));
        if let crate::EventBody::Xid(xid) = body {
            clean(&xid.place, 64);
            clean(xid.process.as_deref().unwrap_or_default(), 64);
            clean(xid.unit.as_deref().unwrap_or_default(), 64);
            assert!(xid.words.len() <= 32);
        }
    }
}

#[cfg(test)]
mod tests;
