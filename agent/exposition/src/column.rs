//! The lines of one metric of one collector, with the text of their last values: while no value changes, the column is
//! one copy.

use collectors::Value;

use model::snapshot::CollectorState;

use super::number;

/// Room for a value and the end of its line, in bytes. Longer values move the text once.
const VALUE: usize = 12;

/// One line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    device: u32,
    series: u32,
    /// Where the start of the line ends within [`Lines::text`], and its value begins.
    start: u32,
    /// Where the line ends.
    end: u32,
    /// The value that the text shows. A line without a value has no text after its start.
    value: Value,
}

/// The lines of one column.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    entries: Vec<Entry>,
    /// By line: its group. Empty if every line is alone, as nearly always.
    groups: Vec<Option<u32>>,
    /// Lines that have a value.
    filled: usize,
}

/// A line that has a value.
pub(super) struct Found<'a> {
    pub(super) start: &'a [u8],
    pub(super) line: &'a [u8],
    pub(super) group: Option<usize>,
}

impl Lines {
    /// Adds a line without a value. Gives its place.
    pub(super) fn add(
        &mut self,
        (device, series): (usize, usize),
        start: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        start(&mut self.text);
        let end = number(self.text.len());
        self.entries.push(Entry {
            device: number(device),
            series: number(series),
            start: end,
            end,
            value: Value::Absent,
        });
        self.entries.len() - 1
    }

    /// After the last line: memory for the lines and for usual values, and no more.
    pub(super) fn fit(&mut self) {
        self.entries.shrink_to_fit();
        self.text.shrink_to_fit();
        self.text.reserve_exact(self.entries.len() * VALUE);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The start of a line.
    pub(super) fn start(&self, place: usize) -> &[u8] {
        let end = self.entries.get(place).map_or(0, |e| e.start as usize);
        self.text.get(self.begin(place)..end).unwrap_or_default()
    }

    /// The group of a line, which is `new` if it had none.
    pub(super) fn group(&mut self, place: usize, new: usize) -> Option<usize> {
        self.groups.resize(self.entries.len(), None);
        let group = self.groups.get_mut(place)?;
        Some(*group.get_or_insert(number(new)) as usize)
    }

    fn begin(&self, place: usize) -> usize {
        let before = place.checked_sub(1).and_then(|p| self.entries.get(p));
        before.map_or(0, |e| e.end as usize)
    }

    /// Writes the values that have changed: in place, until one has another length. `spare`: room for a value, or for the
    /// text from that one on. `is_plain`: `write` leaves whole numbers as they are.
    pub(super) fn refresh(
        &mut self,
        collector: &CollectorState,
        is_plain: bool,
        write: impl Fn(Value, &mut Vec<u8>),
        spare: &mut Vec<u8>,
    ) {
        let now = |entry: &Entry| {
            let device = collector.devices.get(entry.device as usize);
            let value = device.and_then(|d| d.values.get(entry.series as usize));
            value.copied().unwrap_or(Value::Absent)
        };
        let text = &mut self.text;
        let moves = |entry: &mut Entry| {
            let value = now(entry);
            if same(entry.value, value) {
                return false;
            }
            let line = text.get_mut(entry.start as usize..entry.end as usize);
            // Nearly always a counter that has as many digits as before.
            if let (Value::U64(number), Some([digits @ .., b'\n'])) = (value, line)
                && is_plain
            {
                let fits = number::over(number, digits);
                if fits {
                    entry.value = value;
                }
                return !fits;
            }
            spare.clear();
            if value != Value::Absent {
                write(value, spare);
                spare.push(b'\n');
            }
            match text.get_mut(entry.start as usize..entry.end as usize) {
                Some(old) if old.len() == spare.len() => {
                    old.copy_from_slice(spare);
                    entry.value = value;
                    false
                }
                _ => true,
            }
        };
        let Some(first) = self.entries.iter_mut().position(moves) else {
            return;
        };
        let begin = self.begin(first);
        spare.clear();
        spare.extend_from_slice(self.text.get(begin..).unwrap_or_default());
        self.text.truncate(begin);
        let mut from = 0;
        for entry in self.entries.iter_mut().skip(first) {
            let (start, end) = (entry.start as usize - begin, entry.end as usize - begin);
            let value = now(entry);
            let is_same = same(entry.value, value);
            let kept = if is_same { end } else { start };
            self.text
                .extend_from_slice(spare.get(from..kept).unwrap_or_default());
            entry.start = number(self.text.len() - (kept - start));
            from = end;
            if !is_same {
                self.filled += usize::from(entry.value == Value::Absent);
                self.filled -= usize::from(value == Value::Absent);
                entry.value = value;
                if value != Value::Absent {
                    write(value, &mut self.text);
                    self.text.push(b'\n');
                }
            }
            entry.end = number(self.text.len());
        }
    }

    /// The text of all lines, if each has a value and is alone.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (self.filled == self.entries.len() && self.groups.is_empty()).then_some(&self.text)
    }

    /// The lines that have a value.
    pub(super) fn found(&self) -> impl Iterator<Item = Found<'_>> {
        let mut from = 0;
        let places = self.entries.iter().enumerate();
        places.filter_map(move |(place, entry)| {
            let begin = from;
            from = entry.end as usize;
            let group = self.groups.get(place).copied().flatten();
            (entry.value != Value::Absent).then_some(Found {
                start: self.text.get(begin..entry.start as usize)?,
                line: self.text.get(begin..from)?,
                group: group.map(|g| g as usize),
            })
        })
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Whether two values have the same bits, and so the same text.
#[inline]
fn same(a: Value, b: Value) -> bool {
    match (a, b) {
        (Value::U64(a), Value::U64(b)) => a == b,
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Absent, Value::Absent) => true,
        _ => false,
    }
}
