//! The file `gpu_metrics` of an AMD GPU: one binary table with most of its values (kernel: `kgd_pp_interface.h`). The file
//! `xcp_metrics` of a partition has the same form.
//!
//! A table begins with its size (u16) and its format and content revision (u8 each), little endian. Before v1.9 each
//! revision has fixed offsets ([`layout`]), v1.9 describes itself ([`attributes`]). The driver fills a table with ones
//! first: a field that is still all ones is not reported by this GPU.

mod attributes;
mod field;
mod layout;
#[cfg(test)]
mod tests;

use std::fmt;

pub use field::{Field, HOTTEST};
use layout::Layout;

/// Size of the header.
const HEADER: usize = 4;

/// The revision of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Family of layouts: 1 discrete GPUs and MI300A, 2 and 3 other APUs.
    pub format: u8,
    /// Layout within the family.
    pub content: u8,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.format, self.content)
    }
}

/// Why a table was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The file ended before its table did.
    Truncated {
        /// Bytes of the file.
        have: usize,
        /// Bytes that the table needs.
        need: usize,
    },
    /// No layout is known for this revision.
    UnknownRevision(Revision),
    /// The table is not as large as its revision says.
    WrongSize {
        /// Its revision.
        revision: Revision,
        /// Its size as its header gives it.
        size: u16,
    },
    /// The attribute with this position runs past the table's end, or its type is unknown.
    BadAttribute(usize),
}

impl Refused {
    /// The value of a label.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::UnknownRevision(_) => "unknown_revision",
            Self::WrongSize { .. } => "wrong_size",
            Self::BadAttribute(_) => "bad_attribute",
        }
    }

    /// The revision, where it is known; otherwise empty.
    pub fn revision(&self) -> String {
        match self {
            Self::UnknownRevision(revision) | Self::WrongSize { revision, .. } => revision.to_string(),
            Self::Truncated { .. } | Self::BadAttribute(_) => String::new(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { have, need } => write!(f, "truncated: {have} of {need} bytes"),
            Self::UnknownRevision(revision) => write!(f, "revision {revision} is not known"),
            Self::WrongSize { revision, size } => write!(f, "{size} bytes is not the size of {revision}"),
            Self::BadAttribute(position) => write!(f, "attribute {position} cannot be read"),
        }
    }
}

impl std::error::Error for Refused {}

/// Where a field's values are.
#[derive(Clone, Copy, Debug)]
struct Place {
    field: Field,
    offset: usize,
    /// Bytes of one value: 1, 2, 4 or 8.
    width: usize,
    /// Number of values.
    count: usize,
    /// Distance to the values of the next partition; 0 where the values are the whole GPU's.
    stride: usize,
}

/// The most partitions of a GPU.
pub const MAX_PARTITIONS: usize = 8;

impl Place {
    /// The bytes of its values in a partition. `None`: the table does not have that partition.
    fn range(&self, partition: usize) -> Option<std::ops::Range<usize>> {
        let has = partition == 0 || (self.stride > 0 && partition < MAX_PARTITIONS);
        let start = self.offset + self.stride * partition;
        has.then(|| start..start + self.width * self.count)
    }
}

/// An accepted table.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// Its revision.
    pub revision: Revision,
    bytes: &'a [u8],
    places: Vec<Place>,
}

impl<'a> Table<'a> {
    /// Accepts the content of the file.
    ///
    /// # Errors
    /// When it is shorter than its table, or its revision is not known, or size and revision do not agree.
    pub fn parse(data: &'a [u8]) -> Result<Self, Refused> {
        Self::accept(data, layout::of)
    }

    /// Accepts the content of `xcp_metrics`, the table of one partition. Its values are those of the first partition of the
    /// table.
    ///
    /// # Errors
    /// Like [`Table::parse`].
    pub fn parse_partition(data: &'a [u8]) -> Result<Self, Refused> {
        Self::accept(data, layout::of_partition)
    }

    fn accept(data: &'a [u8], layout_of: fn(Revision) -> Option<Layout>) -> Result<Self, Refused> {
        let &[low, high, format, content, ..] = data else {
            return Err(Refused::Truncated {
                have: data.len(),
                need: HEADER,
            });
        };
        let size = u16::from_le_bytes([low, high]);
        let revision = Revision { format, content };
        let layout = layout_of(revision).ok_or(Refused::UnknownRevision(revision))?;
        if layout.size.is_some_and(|expected| expected != size) || usize::from(size) < HEADER {
            return Err(Refused::WrongSize { revision, size });
        }
        let bytes = data.get(..usize::from(size)).ok_or(Refused::Truncated {
            have: data.len(),
            need: usize::from(size),
        })?;
        let places = if layout.size.is_none() {
            attributes::places(bytes)?
        } else {
            layout.places().copied().collect()
        };
        Ok(Self {
            revision,
            bytes,
            places,
        })
    }

    /// Whether a field has values of its own for each partition. Otherwise its values are the whole GPU's.
    pub fn is_divided(&self, field: Field) -> bool {
        let mut places = self.places.iter().filter(|place| place.field == field);
        places.next().is_some_and(|place| place.stride > 0)
    }

    /// Whether the power of the socket is a mean, as before v1.4.
    pub const fn has_mean_power(&self) -> bool {
        self.revision.format != 1 || self.revision.content < 4
    }

    /// Whether the power of the socket is to be read from its file: the firmware of Vega 20 (MI50, MI60) leaves it 0 in its table.
    pub fn lacks_power(&self) -> bool {
        let is_of_vega = (self.revision.format, self.revision.content) == (1, 0);
        is_of_vega && self.get(Field::SocketPower).is_none()
    }

    /// Whether the counter of energy may have 32 bits. The field has 64 from v1.1 on, but some firmware fills 32 of them
    /// (MI100, Navi 2x).
    pub const fn has_short_energy(&self) -> bool {
        self.revision.format == 1 && self.revision.content <= 3
    }

    /// The value of a field, the first one of an array. `None`: this GPU does not report it.
    pub fn get(&self, field: Field) -> Option<u64> {
        self.list(field).next().flatten()
    }

    /// The values of a field, by their index. None of them if the revision does not have the field.
    pub fn list(&self, field: Field) -> impl Iterator<Item = Option<u64>> + '_ {
        self.list_of(field, 0)
    }

    /// Like [`Table::list`], in a partition. Revisions that do not divide a field have it in the first one.
    pub fn list_of(&self, field: Field, partition: usize) -> impl Iterator<Item = Option<u64>> + '_ {
        let places = self.places.iter().filter(move |place| place.field == field);
        let mut bytes =
            places.filter_map(move |place| Some((self.bytes.get(place.range(partition)?)?, place.width)));
        let values = bytes.next().map(|(bytes, width)| bytes.chunks_exact(width));
        values.into_iter().flatten().map(move |bytes| value(bytes, field))
    }
}

/// One value. All ones of its width, 0 where the field is never 0, and a temperature above any real one are not reported.
fn value(bytes: &[u8], field: Field) -> Option<u64> {
    if bytes.iter().all(|&byte| byte == u8::MAX) {
        return None;
    }
    let value = bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| (sum << 8) | u64::from(byte));
    // Drivers of consumer cards write "not reported" with 32 bits into a field of 64.
    if field == Field::Energy && value == u64::from(u32::MAX) {
        return None;
    }
    let is_read = (value != 0 || !field.zero_is_absent()) && value <= field.most();
    is_read.then_some(value)
}

/// Any bytes: an accepted table has its size, no value of it lies outside, and what follows the table changes nothing.
pub(crate) fn check(data: &[u8]) {
    check_as(data, layout::of);
    check_as(data, layout::of_partition);
}

fn check_as(data: &[u8], layout_of: fn(Revision) -> Option<Layout>) {
    let Ok(table) = Table::accept(data, layout_of) else {
        return;
    };
    assert!(table.bytes.len() <= data.len(), "{}", table.revision);
    let cut = Table::accept(table.bytes, layout_of);
    for place in &table.places {
        let values: Vec<_> = table.list(place.field).collect();
        let again: Vec<_> = cut.iter().flat_map(|table| table.list(place.field)).collect();
        assert_eq!(values, again, "{:?}", place.field);
    }
    let short = table.bytes.split_last();
    let short = short.map(|(_, rest)| Table::accept(rest, layout_of));
    assert!(
        matches!(short, Some(Err(Refused::Truncated { .. }))),
        "{}",
        table.revision
    );
}
