//! The parts of a bundle, its manifest, and the archive.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// The archive's only folder at the top.
const TOP: &str = "nodewarden-bundle";

/// Why a part is absent, in words of nodewarden's own: an error's text may hold a path.
pub(super) type Absent = &'static str;

/// One entry of the archive.
#[derive(Debug)]
pub(super) enum Entry {
    File(Vec<u8>),
    Link(String),
}

/// One part: its entries by path below the top folder, or why it is absent.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) content: Result<Vec<(String, Entry)>, Absent>,
}

impl Part {
    /// A part of one file.
    pub(super) fn of(name: &'static str, file: &str, content: Result<Vec<u8>, Absent>) -> Self {
        Self {
            name,
            content: content.map(|bytes| vec![(file.to_owned(), Entry::File(bytes))]),
        }
    }

    /// A part of one JSON document.
    pub(super) fn json(name: &'static str, content: Result<Value, Absent>) -> Self {
        let text = content.map(|value| format!("{value:#}\n").into_bytes());
        Self::of(name, &format!("{name}.json"), text)
    }

    /// Its size, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.content.iter().flatten();
        let sizes = entries.map(|(_, entry)| match entry {
            Entry::File(bytes) => bytes.len(),
            Entry::Link(_) => 0,
        });
        sizes.sum()
    }

    /// Its row of the manifest.
    fn row(&self) -> Value {
        match &self.content {
            Ok(entries) => json!({ "part": self.name, "files": entries.len(), "bytes": self.bytes() }),
            Err(why) => json!({ "part": self.name, "absent": why }),
        }
    }
}

/// The rows of the manifest.
pub(super) fn rows(parts: &[Part]) -> Value {
    parts.iter().map(Part::row).collect()
}

/// The archive. It has no user, no group and no time but `made`, in seconds since the epoch.
///
/// # Errors
/// When a path does not fit into the archive.
pub(super) fn archive(parts: Vec<Part>, made: u64) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let header = |kind, size| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o600);
        header.set_mtime(made);
        header.set_size(size);
        header
    };
    for (path, entry) in parts.into_iter().filter_map(|part| part.content.ok()).flatten() {
        let path = format!("{TOP}/{path}");
        match entry {
            Entry::File(bytes) => {
                let mut header = header(tar::EntryType::Regular, bytes.len() as u64);
                tar.append_data(&mut header, path, bytes.as_slice())?;
            }
            Entry::Link(target) => tar.append_link(&mut header(tar::EntryType::Symlink, 0), path, target)?,
        }
    }
    let mut gzip = tar.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}
