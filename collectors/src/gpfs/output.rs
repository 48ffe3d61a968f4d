//! Output of `-Y`: lines of values between colons. A line HEADER names the columns of its section, and releases add columns, so
//! that values are found by name only.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Fields before the columns: program, section, and HEADER or 0.
const FIRST_COLUMN: usize = 3;
/// The text before each of the two colons of a time, from the right; `0` is a digit.
const TIMES: [&[u8]; 2] = [b"0000-00-00 00", b"0000-00-00 00:00"];

type Columns<'a> = Rc<BTreeMap<&'a str, usize>>;

/// One row.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    section: &'a str,
    columns: Columns<'a>,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    /// The value of a column, decoded. `None`: no such column, or the row ends before it.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        let at = *self.columns.get(column)?;
        self.fields.get(at).map(|value| decoded(value).into_owned())
    }

    /// The value this many places after a column, of a row with more values than its header names.
    pub(super) fn text_after(&self, column: &str, places: usize) -> Option<String> {
        let at = self.columns.get(column)? + places;
        self.fields.get(at).map(|value| decoded(value).into_owned())
    }
}

/// The output of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Output<'a> {
    columns: BTreeMap<&'a str, Columns<'a>>,
    rows: Vec<Row<'a>>,
    bad: usize,
}

impl<'a> Output<'a> {
    /// Reads the output of a program. Text for people and empty lines are skipped; a line of the program that is no header and
    /// no row under one is counted and hides no other line.
    pub(super) fn parse(program: &str, text: &'a str) -> Self {
        let mut output = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (line, is_whole) = match rest.split_once('\n') {
                Some((line, after)) => {
                    rest = after;
                    (line, true)
                }
                None => (std::mem::take(&mut rest), false),
            };
            output.take(program, line.trim_end_matches('\r'), is_whole);
        }
        output
    }

    fn take(&mut self, program: &str, line: &'a str, is_whole: bool) {
        let mut fields = fields_of(line);
        if fields.first().map(|word| word.trim()) != Some(program) || fields.len() == 1 {
            return;
        }
        // Cut while it was written: its last value may be a part.
        if !is_whole {
            fields.pop();
        }
        let (Some(section), Some(kind)) = (fields.get(1).copied(), fields.get(2).copied()) else {
            self.bad += 1;
            return;
        };
        if kind == "HEADER" {
            let mut columns = BTreeMap::new();
            for (at, name) in fields.iter().enumerate().skip(FIRST_COLUMN) {
                if !name.is_empty() {
                    // `reserved` is there twice.
                    columns.entry(*name).or_insert(at);
                }
            }
            self.columns.insert(section, Rc::new(columns));
            return;
        }
        match self.columns.get(section) {
            Some(columns) if fields.len() > FIRST_COLUMN => self.rows.push(Row {
                section,
                columns: Rc::clone(columns),
                fields,
            }),
            _ => self.bad += 1,
        }
    }

    /// Whether the header of a section, which an output without rows has too, names a column.
    pub(super) fn has_column(&self, section: &str, column: &str) -> bool {
        let columns = self.columns.get(section);
        columns.is_some_and(|columns| columns.contains_key(column))
    }

    /// The rows of a section.
    pub(super) fn rows(&self, section: &str) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(move |row| row.section == section)
    }

    /// Lines of the program that are not understood.
    pub(super) fn bad(&self) -> usize {
        self.bad
    }
}

/// The values of a line. Some releases do not escape the colons of a time (`2025-07-21 08:58:15`): they separate nothing.
fn fields_of(line: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let mut start = 0;
    for (at, _) in line.match_indices(':') {
        let (before, after) = line.split_at(at);
        if !is_in_time(before.as_bytes(), after.as_bytes()) {
            fields.extend(line.get(start..at));
            start = at + 1;
        }
    }
    fields.extend(line.get(start..));
    fields
}

/// Whether a colon, the first byte of `after`, is one of a time.
fn is_in_time(before: &[u8], after: &[u8]) -> bool {
    let is_like = |text: &[u8], form: &[u8]| {
        let mut pairs = text.iter().zip(form);
        text.len() == form.len()
            && pairs.all(|(byte, of)| byte == of || (*of == b'0' && byte.is_ascii_digit()))
    };
    let begin = TIMES.iter().any(|form| {
        let start = before.len().checked_sub(form.len());
        start
            .and_then(|start| before.get(start..))
            .is_some_and(|text| is_like(text, form))
    });
    begin && after.get(..3).is_some_and(|text| is_like(text, b":00"))
}

/// A value as it is: `%3A` is a colon. A percent sign without two digits is one.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return Cow::Borrowed(value);
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, next) = escape(rest).unwrap_or((*first, after));
        bytes.push(byte);
        rest = next;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// The byte of an escape at the begin of a text, and what follows.
fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, rest @ ..] = text else {
        return None;
    };
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    Some((digit(*high)? << 4 | digit(*low)?, rest))
}

/// Any bytes: no panic, and what is understood is consistent.
pub(super) fn check(program: &str, text: &str) {
    let output = Output::parse(program, text);
    let lines = text.lines().count();
    assert!(output.rows.len() + output.columns.len() + output.bad <= lines);
    for row in &output.rows {
        assert!(output.columns.contains_key(row.section));
        for (column, at) in row.columns.iter() {
            assert!(!column.is_empty() && *at >= FIRST_COLUMN);
            assert_eq!(row.text(column).is_some(), row.fields.len() > *at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str, column: &str) -> Option<String> {
        let output = Output::parse("mmx", text);
        output.rows("s").next().and_then(|row| row.text(column))
    }

    #[test]
    fn a_value_is_found_by_the_name_of_its_column_wherever_that_is() {
        let old = "mmx:s:HEADER:version:reserved:reserved:state:node:\nmmx:s:0:1:::up:n1:\n";
        let new = "mmx:s:HEADER:version:reserved:reserved:node:added:state:\nmmx:s:0:1:::n1:x:up:\n";
        for text in [old, new] {
            assert_eq!(one(text, "state").as_deref(), Some("up"));
            assert_eq!(one(text, "node").as_deref(), Some("n1"));
            assert_eq!(one(text, "other"), None);
        }
    }

    #[test]
    fn a_row_may_have_more_or_fewer_values_than_the_header_names() {
        let header = "mmx:s:HEADER:version:reserved:reserved:a:b:\n";
        let more = format!("{header}mmx:s:0:1:::1:2:3:4:5:\n");
        assert_eq!(one(&more, "b").as_deref(), Some("2"));
        let fewer = format!("{header}mmx:s:0:1:::1\n");
        assert_eq!((one(&fewer, "a").as_deref(), one(&fewer, "b")), (Some("1"), None));
    }

    #[test]
    fn each_section_has_its_own_columns_and_a_later_header_replaces_them() {
        let text = "mmx:s:HEADER:v:r:r:a:b:\nmmx:t:HEADER:v:r:r:b:a:\nmmx:t:0:1:::T:t:\nmmx:s:0:1:::S:s:\n\
                    mmx:s:HEADER:v:r:r:b:a:\nmmx:s:0:1:::s2:S2:\n";
        let output = Output::parse("mmx", text);
        let of = |section: &'static str| {
            let rows = output.rows(section);
            rows.map(|row| row.text("a").unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            (of("s"), of("t")),
            (vec!["S".into(), "S2".into()], vec!["t".into()])
        );
        assert_eq!(output.bad(), 0);
    }

    #[test]
    fn a_repeated_column_is_the_first_one() {
        assert_eq!(
            one("mmx:s:HEADER:v:r:r:a:a:\nmmx:s:0:1:::1:2:\n", "a").as_deref(),
            Some("1")
        );
    }

    #[test]
    fn escapes_are_undone_and_a_lone_percent_sign_is_one() {
        for (value, is) in [
            ("09%3A35%3a21", "09:35:21"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%25%33A", "%3A"),
            ("%+1", "%+1"),
        ] {
            let text = format!("mmx:s:HEADER:v:r:r:a:\nmmx:s:0:1:::{value}:\n");
            assert_eq!(one(&text, "a").as_deref(), Some(is), "{value}");
        }
    }

    #[test]
    fn the_colons_of_a_time_separate_no_values() {
        let of = |values: &str| one(&format!("mmx:s:HEADER:v:r:r:a:b:\nmmx:s:0:1:::{values}:\n"), "b");
        for (values, is) in [
            ("2025-07-21 08:58:15:up", "up"),
            ("2025-07-21 08:58:15.25 EST:up", "up"),
            ("since 2025-07-21 08:58:up", "up"),
            ("2025-07-21 08%3A58%3A15:up", "up"),
            ("x:2025-07-21 08:58:15", "2025-07-21 08:58:15"),
            ("2025-07-21:08:58", "08"),
            ("2025-07-21 08:x:58", "x"),
            ("08:58:15", "58"),
        ] {
            assert_eq!(of(values).as_deref(), Some(is), "{values}");
        }
    }

    #[test]
    fn text_for_people_is_skipped_and_lines_without_form_are_counted() {
        let text = "\n=== mmx: s ===\nfoobar\nmmx\nmmx: [W] a warning\nmmx:s\nmmx:u:0:1:::x:\nmmx:s:HEADER:v:r:r:a:\nmmx:s:0\n\
                    mmx:s:0:1:::1:\nmmy:s:0:1:::2:\n";
        let output = Output::parse("mmx", text);
        assert_eq!(output.rows("s").count(), 1);
        // The warning, the section without a kind, a row without a header, a row without values.
        assert_eq!(output.bad(), 4);
        assert!(output.has_column("s", "a") && !output.has_column("s", "b") && !output.has_column("u", "a"));
    }

    #[test]
    fn the_last_value_of_an_output_that_was_cut_is_not_taken() {
        let header = "mmx:s:HEADER:v:r:r:a:b:\n";
        let cut = format!("{header}mmx:s:0:1:::68:61");
        assert_eq!((one(&cut, "a").as_deref(), one(&cut, "b")), (Some("68"), None));
        let whole = format!("{header}mmx:s:0:1:::68:61:");
        assert_eq!(one(&whole, "b").as_deref(), Some("61"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "(mmx|[ -~])?(:s|:t|:)?(:HEADER|:0|:[ -~]{0,3})?([ -~\n:%]|:a|:b|\nmmx:s:0){0,60}") {
            check("mmx", &text);
        }

        #[test]
        fn values_come_back_whatever_the_order_of_columns(a in "[^:\n\r]{0,20}", b in "[^:\n\r]{0,20}", swap in any::<bool>()) {
            let coded = |value: &str| value.replace('%', "%25");
            let (names, values) = if swap { ("b:a", [&b, &a]) } else { ("a:b", [&a, &b]) };
            let text = format!("mmx:s:HEADER:v:r:r:{names}:\nmmx:s:0:1:::{}:{}:\n", coded(values[0]), coded(values[1]));
            prop_assert_eq!(one(&text, "a"), Some(a));
            prop_assert_eq!(one(&text, "b"), Some(b));
        }
    }
}
