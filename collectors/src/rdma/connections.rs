//! Messages of the connection manager that were sent again or received again: a peer that does not answer, or a
//! path with losses. The kernel counts each kind in a file; the files are read once a minute.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::metrics::CM_MESSAGES;
use super::text::{self, LONGEST, Reason};
use crate::sys::root;
use crate::{Block, Error, Value};

/// Maximum age of a count: it grows by a few in a bad hour.
const KEEP: Duration = Duration::from_secs(60);
/// The folders of a port that are read (2 of 4), and the label of each.
const FOLDERS: [(&str, &str); 2] = [
    ("cm_tx_retries", "tx_retries"),
    ("cm_rx_duplicates", "rx_duplicates"),
];

/// The connection manager's counts for a port.
#[derive(Default)]
pub(super) struct Connections {
    messages: Vec<CmMessage>,
    read: Option<Instant>,
}

struct CmMessage {
    kind: &'static str,
    name: String,
    file: PathBuf,
    count: Result<u64, Reason>,
}

impl Connections {
    /// Lists them. A port without InfiniBand's connection manager has none.
    pub(super) fn of(port: &Path) -> Result<Self, Error> {
        let mut messages = Vec::new();
        for (folder, kind) in FOLDERS {
            let folder = port.join(folder);
            for name in root::list(&folder)?.unwrap_or_default() {
                messages.push(CmMessage {
                    kind,
                    file: folder.join(&name),
                    name,
                    count: Err(Reason::Gone),
                });
            }
        }
        Ok(Self { messages, read: None })
    }

    /// Shows them, after reading those that are too old.
    pub(super) fn show(&mut self, now: Instant, port: [&str; 2], out: &mut Block) {
        let is_due = self
            .read
            .is_none_or(|at| now.saturating_duration_since(at) >= KEEP);
        if is_due {
            self.read = Some(now);
        }
        let [device, number] = port;
        for message in &mut self.messages {
            if is_due {
                message.count = count(&message.file);
            }
            let value = message.count.map_or(Value::Absent, Value::U64);
            out.push(
                &CM_MESSAGES,
                &[device, number, message.kind, &message.name],
                value,
            );
        }
    }
}

fn count(file: &Path) -> Result<u64, Reason> {
    match root::read_bytes(file, LONGEST as u64) {
        Ok(Some(bytes)) => text::number(&bytes),
        Ok(None) => Err(Reason::Gone),
        Err(_) => Err(Reason::Io),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_message_that_was_sent_again_is_read_once_a_minute() {
        let port = tempfile::tempdir().unwrap();
        let folder = port.path().join("cm_tx_retries");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("req"), "1\n").unwrap();
        fs::write(folder.join("rep"), "no number\n").unwrap();
        let mut connections = Connections::of(port.path()).unwrap();
        let start = Instant::now();
        let mut shown = |after: u64| {
            let mut block = Block::default();
            connections.show(start + Duration::from_secs(after), ["mlx5_0", "1"], &mut block);
            block.finish();
            let all: Vec<_> = block
                .iter()
                .map(|(s, value)| (s.labels.join(" "), value))
                .collect();
            all
        };
        let both = |req| {
            [
                ("mlx5_0 1 tx_retries rep".to_owned(), Value::Absent),
                ("mlx5_0 1 tx_retries req".to_owned(), Value::U64(req)),
            ]
        };
        assert_eq!(shown(0), both(1));
        fs::write(folder.join("req"), "5\n").unwrap();
        assert_eq!(shown(59), both(1));
        assert_eq!(shown(60), both(5));
    }

    #[test]
    fn a_port_without_a_connection_manager_has_no_messages() {
        let port = tempfile::tempdir().unwrap();
        assert!(Connections::of(port.path()).unwrap().messages.is_empty());
    }
}
