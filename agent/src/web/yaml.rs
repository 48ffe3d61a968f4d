//! From YAML to a tree that knows where each key and value is. Only what such a file needs: mappings, lists and texts. Anchors,
//! aliases and tags are refused, so that a small file cannot become a large tree.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

/// Deeper values than any key has.
const MAX_DEPTH: usize = 8;

/// A position: line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl At {
    fn of(marker: Marker) -> Self {
        Self {
            line: marker.line().max(1),
            column: marker.col() + 1,
        }
    }
}

/// A value and its position.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, At, Node)>),
}

impl Value {
    /// What it is, for an error. Never its content, which may be a key.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// An error, with its place.
pub(super) type Fault = (At, String);

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader(Parser::new_from_str(text));
    let mut root = None;
    loop {
        let (event, at) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::DocumentStart(_) if root.is_some() => {
                return Err((at, "found a second document, expected one".to_owned()));
            }
            Event::DocumentStart(_) => {
                let (event, at) = reader.next()?;
                root = Some(reader.node(event, at, 0)?);
            }
            Event::StreamEnd => {
                let at = At { line: 1, column: 1 };
                let value = Value::Null;
                return Ok(root.unwrap_or(Node { at, value }));
            }
            _ => return Err((at, "found a value outside of a document".to_owned())),
        }
    }
}

struct Reader<'t>(Parser<'t, StrInput<'t>>);

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, At), Fault> {
        match self.0.next_event() {
            Some(Ok((event, span))) => Ok((event, At::of(span.start))),
            Some(Err(error)) => Err((
                At::of(*error.marker()),
                format!("no valid YAML: {}", error.info()),
            )),
            None => Ok((Event::StreamEnd, At { line: 1, column: 1 })),
        }
    }

    fn node(&mut self, event: Event<'t>, at: At, depth: usize) -> Result<Node, Fault> {
        if depth > MAX_DEPTH {
            return Err((at, format!("found more than {MAX_DEPTH} levels")));
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag),
            _ => (0, &None),
        };
        if anchor != 0 || tag.is_some() || matches!(event, Event::Alias(_)) {
            return Err((
                at,
                "found an anchor, alias or tag, expected a plain value".to_owned(),
            ));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) if ["", "~", "null"].contains(&&*text) => Value::Null,
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Value::List(items),
                        (event, at) => items.push(self.node(event, at, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut rows: Vec<(String, At, Node)> = Vec::new();
                loop {
                    let (event, at) = self.next()?;
                    if event == Event::MappingEnd {
                        break Value::Map(rows);
                    }
                    let Value::Text(key) = self.node(event, at, depth + 1)?.value else {
                        return Err((at, "found a key that is no text".to_owned()));
                    };
                    if rows.iter().any(|(known, ..)| *known == key) {
                        return Err((at, format!("found {key} twice, expected it once")));
                    }
                    let (event, found) = self.next()?;
                    let node = self.node(event, found, depth + 1)?;
                    rows.push((key, at, node));
                }
            }
            _ => return Err((at, "found the end, expected a value".to_owned())),
        };
        Ok(Node { at, value })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> (usize, String) {
        let (at, message) = parse(text).unwrap_err();
        (at.line, message)
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let root = parse("# c\na:\n  b: 'x'\n  c: [1, two]\nd: |\n  line\n").unwrap();
        let Value::Map(rows) = root.value else { panic!() };
        assert_eq!((rows[0].0.as_str(), rows[0].1), ("a", At { line: 2, column: 1 }));
        let Value::Map(inner) = &rows[0].2.value else {
            panic!()
        };
        assert_eq!(inner[0].2.at, At { line: 3, column: 6 });
        assert!(matches!(&inner[1].2.value, Value::List(items) if items.len() == 2));
        assert!(matches!(&rows[1].2.value, Value::Text(text) if text == "line\n"));
        assert!(matches!(parse("").unwrap().value, Value::Null));
    }

    #[test]
    fn what_no_such_file_needs_is_refused_with_its_line() {
        for (text, line, part) in [
            ("a: 1\na: 2\n", 2, "a twice"),
            ("a: &x 1\nb: *x\n", 1, "anchor"),
            ("a: !!str 1\n", 1, "tag"),
            ("a: 1\n---\nb: 2\n", 2, "second document"),
            ("a: 1\nb: [\n", 3, "no valid YAML"),
            ("[[[[[[[[[[1]]]]]]]]]]", 1, "levels"),
            ("? [a]\n: 1\n", 1, "no text"),
        ] {
            let (found, message) = fault(text);
            assert!(message.contains(part), "{text:?}: {message}");
            assert_eq!(found, line, "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~\n]{0,200}") {
            drop(parse(&text));
        }
    }
}
