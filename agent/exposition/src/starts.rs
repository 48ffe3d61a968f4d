//! The constant text of the daemon's own families: headers and starts of lines, kept from one write of a page to the
//! next. A page nearly always asks for the same text in the same order, so a comparison and a copy replace the escaping.

use collectors::{Metric, Part};

use super::{Format, header, line};

/// A piece of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Header(Format),
    Start(Part),
}

struct Entry {
    metric: &'static Metric,
    piece: Piece,
    /// Where the last label value ends within the piece; 0 if a value was escaped, so that its text cannot be compared.
    labels_end: u32,
    /// Where the piece ends within [`Starts::text`].
    end: u32,
}

/// The text of one page, in the order in which it was written.
#[derive(Default)]
pub(super) struct Starts {
    text: Vec<u8>,
    entries: Vec<Entry>,
    /// The next entry.
    next: usize,
    has_changed: bool,
}

impl Starts {
    /// Before a page.
    pub(super) fn begin(&mut self) {
        self.next = 0;
        self.has_changed = false;
    }

    /// After a page: memory is not held for what it does not show.
    pub(super) fn finish(&mut self) {
        self.cut();
        if std::mem::take(&mut self.has_changed) {
            self.text.shrink_to_fit();
            self.entries.shrink_to_fit();
        }
    }

    /// Appends the header of a family.
    pub(super) fn header(&mut self, metric: &'static Metric, format: Format, out: &mut Vec<u8>) {
        let piece = Piece::Header(format);
        if self.again(metric, piece, &[], out) {
            return;
        }
        let begin = self.cut();
        header::Family::from(metric).write(format, &mut self.text);
        self.keep(metric, piece, 0, begin, out);
    }

    /// Appends the start of a line.
    pub(super) fn start(&mut self, metric: &'static Metric, part: Part, labels: &[&str], out: &mut Vec<u8>) {
        let piece = Piece::Start(part);
        if self.again(metric, piece, labels, out) {
            return;
        }
        let begin = self.cut();
        let named = metric.labels.iter().copied().zip(labels.iter().copied());
        line::start(metric.name, metric.kind, part, 1.0, named, &mut self.text);
        let is_escaped = labels.iter().any(|l| l.contains(['\\', '\n', '"']));
        let labels_end = if is_escaped {
            0
        } else {
            plain_length(metric, part, labels)
        };
        self.keep(metric, piece, labels_end, begin, out);
    }

    /// Appends the next piece if it is this one.
    fn again(&mut self, metric: &'static Metric, piece: Piece, labels: &[&str], out: &mut Vec<u8>) -> bool {
        let begin = self.begin_of_next();
        let Some(entry) = self.entries.get(self.next) else {
            return false;
        };
        let Some(text) = self.text.get(begin..entry.end as usize) else {
            return false;
        };
        let same = std::ptr::eq(entry.metric, metric)
            && entry.piece == piece
            && match piece {
                Piece::Header(_) => true,
                Piece::Start(part) => {
                    holds(text, metric, labels, suffix_end(metric, part)) == Some(entry.labels_end as usize)
                }
            };
        if same {
            out.extend_from_slice(text);
            self.next += 1;
        }
        same
    }

    fn begin_of_next(&self) -> usize {
        let before = self.next.checked_sub(1).and_then(|n| self.entries.get(n));
        before.map_or(0, |e| e.end as usize)
    }

    /// Forgets the pieces from the next one on. Gives the length of the kept text.
    fn cut(&mut self) -> usize {
        let end = self.begin_of_next();
        self.has_changed |= self.next < self.entries.len();
        self.entries.truncate(self.next);
        self.text.truncate(end);
        end
    }

    fn keep(
        &mut self,
        metric: &'static Metric,
        piece: Piece,
        labels_end: usize,
        begin: usize,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(self.text.get(begin..).unwrap_or_default());
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.entries.push(Entry {
            metric,
            piece,
            labels_end: number(labels_end),
            end: number(self.text.len()),
        });
        self.next = self.entries.len();
        self.has_changed = true;
    }
}

/// The length of a metric's name with the suffix of the part.
fn suffix_end(metric: &Metric, part: Part) -> usize {
    metric.name.len() + line::suffix(part).len()
}

/// The length of a line's start up to the end of its last label value, if none is escaped.
fn plain_length(metric: &Metric, part: Part, labels: &[&str]) -> usize {
    let names = metric.labels.iter().zip(labels);
    // `{` or `,`, `="` and `"`.
    names.fold(suffix_end(metric, part), |at, (name, value)| {
        at + name.len() + value.len() + 4
    })
}

/// Where the last label value ends, if `text` holds these values between quotes. If the end is also that of the text's
/// own values, none of which has a quote, then all values are equal: as many quotes match as there are.
#[inline]
fn holds(text: &[u8], metric: &Metric, labels: &[&str], mut at: usize) -> Option<usize> {
    if labels.len() != metric.labels.len() {
        return None;
    }
    for (name, value) in metric.labels.iter().zip(labels) {
        at += name.len() + 2;
        let end = at + 1 + value.len();
        let found = text.get(at..=end)?;
        let [b'"', inner @ .., b'"'] = found else {
            return None;
        };
        if inner != value.as_bytes() {
            return None;
        }
        at = end + 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use collectors::{Kind, Tier, Unit};
    use proptest::prelude::*;

    use super::*;

    static METRIC: Metric = Metric {
        name: "m",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["a", "b"],
        help: "Help.",
        tier: Tier::Core,
        source: "test",
        aliases: &[],
    };

    /// The lines by `starts`, and by the function that it replaces.
    fn both(starts: &mut Starts, lines: &[[String; 2]]) -> (String, String) {
        let (mut kept, mut made) = (Vec::new(), Vec::new());
        starts.begin();
        for labels in lines {
            let labels = [labels[0].as_str(), labels[1].as_str()];
            starts.start(&METRIC, Part::Whole, &labels, &mut kept);
            let named = METRIC.labels.iter().copied().zip(labels);
            line::start(METRIC.name, METRIC.kind, Part::Whole, 1.0, named, &mut made);
        }
        starts.finish();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(kept), text(made))
    }

    /// Values that look like the text around them.
    fn value() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec!["", "x", "\"", "\\", "\n", ",b=", "\",b=\"", "\"} "]);
        prop::collection::vec(words, 0..4).prop_map(|words| words.concat())
    }

    fn lines() -> impl Strategy<Value = Vec<[String; 2]>> {
        prop::collection::vec([value(), value()], 0..4)
    }

    proptest! {
        #[test]
        fn kept_text_equals_new_text(pages in prop::collection::vec(lines(), 1..6)) {
            let mut starts = Starts::default();
            for page in pages.iter().chain(&pages) {
                let (kept, made) = both(&mut starts, page);
                prop_assert_eq!(kept, made);
                prop_assert_eq!(starts.entries.len(), page.len());
            }
        }
    }

    #[test]
    fn equal_lines_are_copied_and_a_changed_line_makes_the_rest_again() {
        let mut starts = Starts::default();
        let page = |first: &str| {
            [
                [first.to_owned(), "1".to_owned()],
                ["y".to_owned(), "2".to_owned()],
            ]
        };
        let mut changed = |first| {
            let mut out = Vec::new();
            starts.begin();
            for [a, b] in page(first) {
                starts.start(&METRIC, Part::Whole, &[&a, &b], &mut out);
            }
            starts.has_changed
        };
        assert!(changed("x"));
        assert!(!changed("x"));
        assert!(changed("z"));
        assert!(!changed("z"));
    }

    #[test]
    fn a_header_is_kept_for_its_format() {
        let mut starts = Starts::default();
        for format in [
            Format::Text,
            Format::OpenMetrics,
            Format::OpenMetrics,
            Format::Text,
        ] {
            let (mut out, mut made) = (Vec::new(), Vec::new());
            starts.begin();
            starts.header(&METRIC, format, &mut out);
            starts.finish();
            header::Family::from(&METRIC).write(format, &mut made);
            assert_eq!(out, made);
        }
    }
}
