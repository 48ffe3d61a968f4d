//! Frames between daemon and worker: a length (u32, little endian) and that many bytes of postcard.
//!
//! Both sides are the same build (they compare [`crate::BUILD`] first), so a metric travels as its number in
//! [`collectors::metrics`].

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, LazyLock};

use collectors::{Cursor, Env, Event, Labels, Layout, Metric, Series, Settings, Subject, Value};
use postcard::ser_flavors::Flavor;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::monitor::LateThread;
use model::figures::Figures;

/// Limit of a frame, in bytes: the layout of a device with all series and labels that its collector may have.
pub const MAX_FRAME: usize = 1024 * 1024;

/// Daemon to worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first frame.
    Start {
        /// The daemon's build.
        build: String,
        /// The level of its log, as `log.level`.
        log_level: String,
        /// What may be read, and where.
        env: Env,
        /// The settings of this domain's collectors.
        settings: Settings,
        /// Collectors to open.
        collectors: Vec<Begin>,
    },
    /// Read these collectors once.
    Read(Vec<u16>),
}

/// A collector to be opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Its number in [`collectors::COLLECTORS`].
    pub number: u16,
    /// Where its watcher resumes.
    pub cursor: Option<Cursor>,
    /// Notes of an earlier worker about its devices ([`collectors::Devices::notes`]).
    pub notes: Option<String>,
}

/// Worker to daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The first frame.
    Hello {
        /// The worker's build.
        build: String,
    },
    /// A collector's source was opened: its devices, numbered from 0. `None`: no such hardware.
    Opened(u16, Result<Option<Vec<Subject>>, Failure>),
    /// A collector's list of devices has changed: the current ones, by number. Or why it could not be read; then the
    /// old list stays valid.
    Devices(u16, Result<Vec<(u32, Subject)>, Failure>),
    /// A collector's notes about its devices for the next worker.
    Notes(u16, String),
    /// A collector's watcher runs, or why it does not.
    Watching(u16, Result<(), Failure>),
    /// A device's series, before the first block that has them.
    Layout(u16, u32, WireLayout),
    /// Number of a device's series that exceed its collector's limit, whenever it changes.
    Refused(u16, u32, u64),
    /// A device's reading.
    Block {
        /// Number of the collector.
        collector: u16,
        /// Number of the device.
        device: u32,
        /// When it ended, in nanoseconds since boot (CLOCK_BOOTTIME).
        at: u64,
        /// How long it took, in nanoseconds.
        took: u64,
        /// Values in the order of the layout.
        values: WireValues,
        /// Why the device is not up although it has values.
        fault: Option<Failure>,
    },
    /// A device's reading failed.
    Failed {
        /// Number of the collector.
        collector: u16,
        /// Number of the device.
        device: u32,
        /// How long it took, in nanoseconds.
        took: u64,
        /// Why.
        why: Failure,
    },
    /// Every outstanding reading of this collector: device, since when (nanoseconds since boot), its thread.
    Late(u16, Vec<LateThread>),
    /// The worker's resource usage.
    Process(Figures),
    /// The cost of a helper of this worker, by its place in the domain's list.
    Helper(u8, Figures),
    /// A [`ToWorker::Read`] of this collector is done, except for late devices.
    Done(u16),
    /// An event of a watcher.
    Event(u16, Event),
}

/// A reason as a word for a label, and as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The word.
    pub reason: String,
    /// The text.
    pub text: String,
}

impl From<&collectors::Error> for Failure {
    fn from(e: &collectors::Error) -> Self {
        Self {
            reason: e.reason().to_owned(),
            text: e.to_string(),
        }
    }
}

/// The values of a reading on the wire: for each a byte for its kind, and 8 for its number if it has one. Both ends handle a
/// thousand of them for a page; numbers of variable length would cost them several times as much as the bytes that these save.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireValues(Vec<u8>);

const ABSENT: u8 = 0;
const U64: u8 = 1;
const F64: u8 = 2;

impl WireValues {
    /// Replaces them.
    pub fn set(&mut self, values: &[Value]) {
        self.0.clear();
        self.0.reserve(9 * values.len());
        for value in values {
            let (kind, number) = match value {
                Value::Absent => {
                    self.0.push(ABSENT);
                    continue;
                }
                Value::U64(number) => (U64, *number),
                Value::F64(number) => (F64, number.to_bits()),
            };
            self.0.push(kind);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// The first ones.
    ///
    /// # Errors
    /// When there are fewer, or one of an unknown kind.
    pub fn first(&self, count: usize) -> Result<Vec<Value>, Garbage> {
        let mut values = Vec::with_capacity(count);
        let mut rest = self.0.as_slice();
        for _ in 0..count {
            let (kind, after) = rest.split_first().ok_or(SHORT)?;
            rest = after;
            if *kind == ABSENT {
                values.push(Value::Absent);
                continue;
            }
            let (number, after) = rest.split_first_chunk().ok_or(SHORT)?;
            rest = after;
            let number = u64::from_le_bytes(*number);
            values.push(match *kind {
                U64 => Value::U64(number),
                F64 => real(f64::from_bits(number)),
                _ => return Err(Garbage("kind of a value")),
            });
        }
        Ok(values)
    }
}

const SHORT: Garbage = Garbage("block shorter than its layout");

/// No source has a number that is not finite, and a sum with one is lost for good.
fn real(number: f64) -> Value {
    if number.is_finite() {
        Value::F64(number)
    } else {
        Value::Absent
    }
}

impl From<&[Value]> for WireValues {
    fn from(values: &[Value]) -> Self {
        let mut wire = Self::default();
        wire.set(values);
        wire
    }
}

impl Serialize for WireValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for WireValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = WireValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<WireValues, E> {
                Ok(WireValues(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Series by metric number and label values; a histogram once, for all its parts.
pub type WireLayout = Vec<(u16, Vec<String>)>;

static METRICS: LazyLock<Vec<&'static Metric>> = LazyLock::new(|| collectors::metrics().collect());

static NUMBERS: LazyLock<HashMap<&'static str, u16>> = LazyLock::new(|| {
    METRICS
        .iter()
        .enumerate()
        .filter_map(|(i, m)| Some((m.name, u16::try_from(i).ok()?)))
        .collect()
});

/// A layout on the wire. A metric that is in no table is a collector's bug, which a test of the tables finds.
pub fn to_wire(layout: &Layout) -> WireLayout {
    layout
        .iter()
        .filter(|s| s.is_first())
        .map(|s| {
            (
                NUMBERS.get(s.metric.name).copied().unwrap_or(u16::MAX),
                s.labels.iter().map(|l| l.to_string()).collect(),
            )
        })
        .collect()
}

/// A layout from the wire.
///
/// # Errors
/// When a metric number or a number of labels does not fit the table.
pub fn from_wire(layout: WireLayout) -> Result<Layout, Garbage> {
    let mut series = Layout::with_capacity(layout.len());
    let mut shared = Labels::default();
    for (number, labels) in layout {
        let metric = METRICS.get(usize::from(number)).ok_or(Garbage("metric number"))?;
        if metric.labels.len() != labels.len() {
            return Err(Garbage("number of labels"));
        }
        series.extend(Series::all(metric, shared.of(&labels)));
    }
    // Of a histogram the wire names the first series only, so the list may have outgrown its first capacity.
    series.shrink_to_fit();
    Ok(series)
}

/// A protocol error: bytes that no worker of this build sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol error: {0}")]
pub struct Garbage(pub &'static str);

/// Encodes one frame, with its length.
pub fn encode<T: Serialize>(frame: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(frame, &mut bytes);
    bytes
}

/// Appends an encoded frame.
pub fn append<T: Serialize>(frame: &T, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    // Serialising plain data into memory cannot fail; the peer would reject an empty frame.
    if postcard::serialize_with_flavor(frame, Tail(bytes)).is_err() {
        bytes.truncate(start + 4);
    }
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(prefix) = bytes.get_mut(start..start + 4) {
        prefix.copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends serialised data to a vector.
struct Tail<'a>(&'a mut Vec<u8>);

impl Flavor for Tail<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Splits a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    at: usize,
}

impl Decoder {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame. `Ok(None)`: incomplete so far.
    ///
    /// # Errors
    /// When a length is impossible or the body is not a frame.
    pub fn take<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>, Garbage> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(Garbage("frame length"));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let (frame, left) = postcard::take_from_bytes(body).map_err(|_| Garbage("frame body"))?;
        if !left.is_empty() {
            return Err(Garbage("bytes behind the frame"));
        }
        self.at += 4 + length;
        Ok(Some(frame))
    }
}

/// Reads from a blocking stream until a frame is complete. `Ok(None)`: the stream has ended.
///
/// # Errors
/// When the stream fails or holds no valid frame.
pub fn read_frame<T: for<'de> Deserialize<'de>>(
    stream: &mut impl Read,
    decoder: &mut Decoder,
) -> io::Result<Option<T>> {
    let mut bytes = [0; 4096];
    loop {
        if let Some(frame) = decoder
            .take()
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?
        {
            return Ok(Some(frame));
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(n) => decoder.push(bytes.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The layouts that the daemon already has, for each device.
#[derive(Debug, Default)]
pub struct SentLayouts(HashMap<(u16, u32), (Arc<Layout>, u64)>);

impl SentLayouts {
    /// Whether this layout must be sent before the next block of that device.
    pub fn is_new(&mut self, collector: u16, device: u32, layout: &Arc<Layout>) -> bool {
        let sent = self.0.get_mut(&(collector, device));
        match sent {
            Some((sent, _)) if Arc::ptr_eq(sent, layout) => false,
            Some((sent, _)) => {
                // The same series in another object need not be sent, nor compared again.
                let is_new = sent != layout;
                *sent = Arc::clone(layout);
                is_new
            }
            None => {
                self.0.insert((collector, device), (Arc::clone(layout), 0));
                true
            }
        }
    }

    /// The number of refused series, if the daemon has another number.
    pub fn refused(&mut self, collector: u16, device: u32, now: u64) -> Option<u64> {
        let (_, sent) = self.0.get_mut(&(collector, device))?;
        (std::mem::replace(sent, now) != now).then_some(now)
    }

    /// Forgets the removed devices of a collector.
    pub fn keep(&mut self, collector: u16, is_there: impl Fn(u32) -> bool) {
        self.0.retain(|(c, d), _| *c != collector || is_there(*d));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_those_that_were_sent_and_no_more_are_read() {
        let sent = [
            Value::U64(u64::MAX),
            Value::Absent,
            Value::F64(-0.5),
            Value::U64(0),
        ];
        let wire = WireValues::from(&sent[..]);
        let back: WireValues = postcard::from_bytes(&postcard::to_stdvec(&wire).unwrap()).unwrap();
        assert_eq!(back.first(4).as_deref(), Ok(&sent[..]));
        assert_eq!(back.first(2).as_deref(), Ok(&sent[..2]));
        assert_eq!(back.first(5), Err(SHORT));
        assert_eq!(WireValues(vec![U64, 1]).first(1), Err(SHORT));
        assert_eq!(WireValues(vec![3; 9]).first(1), Err(Garbage("kind of a value")));
    }

    #[test]
    fn a_number_that_no_source_has_is_absent() {
        for odd in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let wire = WireValues::from(&[Value::F64(odd)][..]);
            assert_eq!(wire.first(1), Ok(vec![Value::Absent]));
        }
    }

    #[test]
    fn frames_survive_any_way_of_being_cut() {
        let frames = [
            FromWorker::Done(1),
            FromWorker::Hello {
                build: "x".repeat(300),
            },
            FromWorker::Done(2),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(encode).collect();
        for size in 1..20 {
            let (mut decoder, mut got) = (Decoder::default(), Vec::new());
            for chunk in bytes.chunks(size) {
                decoder.push(chunk);
                while let Some(frame) = decoder.take::<FromWorker>().unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, frames);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_or_a_frame_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take::<FromWorker>() {}
        }
    }

    #[test]
    fn an_impossible_length_is_garbage_at_once() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.take::<FromWorker>(), Err(Garbage("frame length")));
    }

    #[test]
    fn a_refusal_is_told_when_it_begins_changes_and_ends() {
        let mut sent = SentLayouts::default();
        let layout = Arc::new(Layout::new());
        assert!(sent.is_new(1, 2, &layout) && !sent.is_new(1, 2, &layout));
        let told: Vec<_> = [0, 5, 5, 7, 0, 0].map(|n| sent.refused(1, 2, n)).into();
        assert_eq!(told, [None, Some(5), None, Some(7), Some(0), None]);
    }

    #[test]
    fn a_layout_survives_the_way() {
        let series = METRICS.iter().flat_map(|m| {
            let labels: Vec<_> = m.labels.iter().map(|l| format!("{l} \"x\"")).collect();
            Series::all(m, Labels::default().of(&labels))
        });
        let layout: Layout = series.collect();
        assert_eq!(from_wire(to_wire(&layout)).unwrap(), layout);
        let twice = from_wire([to_wire(&layout), to_wire(&layout)].concat()).unwrap();
        assert_eq!(twice.capacity(), 2 * layout.len());
        let (first, second) = twice.split_at(layout.len());
        let places = |all: &[Series]| -> Vec<_> {
            let labels = all.iter().flat_map(|s| s.labels.iter());
            labels.map(|l| l.as_ptr()).collect()
        };
        assert!(!places(first).is_empty());
        assert_eq!(places(first), places(second), "equal texts are kept once");
        assert!(from_wire(vec![(u16::MAX, Vec::new())]).is_err());
        assert!(from_wire(vec![(0, vec![String::new(); 50])]).is_err());
    }
}
