//! Rows with aligned columns. The last column takes what room is left, over several lines if need be.

use super::{Paint, Screen, clean, columns, cut, wrapped};

/// Two columns between two cells.
const GAP: usize = 2;

/// What the last column gets at least, and then the others are cut.
const LAST: usize = 20;

/// Columns of numbers or single words up to this width are cut only if the screen has no room for them: a cut id or number looks like another
/// one.
const WHOLE: usize = 24;

/// What a column is cut to before those are.
const LEAST: usize = 8;

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
    right: bool,
    kept: bool,
}

impl Cell {
    /// A plain one.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self::painted(Paint::Plain, text)
    }

    /// One in a colour.
    pub(crate) fn painted(paint: Paint, text: impl AsRef<str>) -> Self {
        Self {
            text: clean(text.as_ref()),
            paint,
            ..Self::default()
        }
    }

    /// One whose column is cut last: a command needs the whole of it.
    pub(crate) fn kept(text: impl AsRef<str>) -> Self {
        Self {
            kept: true,
            ..Self::new(text)
        }
    }

    /// A number, aligned on its last digit; empty for none.
    pub(crate) fn number(value: Option<impl ToString>) -> Self {
        Self {
            text: value.map(|v| v.to_string()).unwrap_or_default(),
            right: true,
            ..Self::default()
        }
    }

    fn shown(&self, width: usize, screen: &Screen) -> String {
        let text = cut(&self.text, width);
        let pad = " ".repeat(width.saturating_sub(columns(&text)));
        let text = screen.paint(self.paint, &text);
        if self.right {
            format!("{pad}{text}")
        } else {
            format!("{text}{pad}")
        }
    }
}

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with a heading over each column.
    pub(crate) fn headed<const N: usize>(titles: [&str; N]) -> Self {
        let mut table = Self::default();
        table.row(titles.map(|t| Cell::painted(Paint::Faint, t)).to_vec());
        table
    }

    /// Adds a row. All rows have the same number of cells, or fewer.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Lines of at most the screen's width.
    pub(crate) fn shown(&self, indent: usize, screen: &Screen) -> String {
        let mut widths: Vec<usize> = Vec::new();
        let mut right: Vec<bool> = Vec::new();
        let mut words: Vec<bool> = Vec::new();
        let mut kept: Vec<bool> = Vec::new();
        for (at, cell) in self.rows.iter().flat_map(|r| r.iter().enumerate()) {
            widths.resize(widths.len().max(at + 1), 0);
            right.resize(right.len().max(at + 1), false);
            words.resize(words.len().max(at + 1), true);
            kept.resize(kept.len().max(at + 1), false);
            if let (Some(width), Some(right), Some(words), Some(kept)) = (
                widths.get_mut(at),
                right.get_mut(at),
                words.get_mut(at),
                kept.get_mut(at),
            ) {
                *kept |= cell.kept;
                *width = columns(&cell.text).max(*width);
                *right |= cell.right;
                *words &= !cell.text.contains(' ');
            }
        }
        let room = screen.width.saturating_sub(indent);
        let last = widths.pop().unwrap_or_default();
        let kinds = widths.iter().zip(&right).zip(&words).zip(&kept);
        let turns: Vec<usize> = kinds
            .map(|(((width, right), words), kept)| {
                let is_whole = *width <= WHOLE && (*right || *words || *kept);
                usize::from(is_whole) + usize::from(is_whole && *kept)
            })
            .collect();
        shrink(&mut widths, &turns, room.saturating_sub(last.min(LAST)));
        let used: usize = widths.iter().map(|w| w + GAP).sum();
        let last_room = room.saturating_sub(used).max(1);

        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
                let cell = Cell {
                    right: *right,
                    ..cell.clone()
                };
                line.push_str(&cell.shown(*width, screen));
                line.push_str(&" ".repeat(GAP));
            }
            let Some(cell) = row.get(widths.len()).filter(|c| !c.text.is_empty()) else {
                out.push_str(line.trim_end());
                out.push('\n');
                continue;
            };
            let hang = " ".repeat(indent + used);
            for (part, text) in wrapped(&cell.text, last_room).into_iter().enumerate() {
                out.push_str(if part == 0 { &line } else { &hang });
                out.push_str(&screen.paint(cell.paint, &text));
                out.push('\n');
            }
        }
        out
    }
}

/// Takes from the widest until all of them fit: first from text (0), then also from those that should stay whole (1), and from
/// kept ones (2) last.
fn shrink(widths: &mut [usize], turns: &[usize], room: usize) {
    for (now, least) in [LEAST, 1, 1].into_iter().enumerate() {
        while widths.iter().map(|w| w + GAP).sum::<usize>() > room {
            let mut some = widths.iter_mut().zip(turns);
            let due = some.by_ref().filter(|(w, turn)| **turn <= now && **w > least);
            let Some((widest, _)) = due.max() else { break };
            *widest -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PLAIN;
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let rows = rows.iter().map(|r| r.iter().map(Cell::new).collect());
        Table { rows: rows.collect() }
    }

    #[test]
    fn columns_align_and_the_last_one_is_wrapped() {
        let narrow = Screen { width: 34, ..PLAIN };
        let text = table(&[
            &["a", "b", "one two three four five six seven"],
            &["long", "", "c"],
            &["d"],
        ])
        .shown(1, &narrow);
        assert_eq!(
            text,
            " a     b  one two three four five\n          six seven\n long     c\n d\n"
        );
    }

    #[test]
    fn numbers_are_aligned_on_the_right_with_their_heading() {
        let mut table = Table::headed(["n", "count", "x"]);
        table.row(vec![Cell::new("a"), Cell::number(Some(7)), Cell::new("y")]);
        table.row(vec![Cell::new("b"), Cell::number(None::<u8>), Cell::new("z")]);
        assert_eq!(table.shown(0, &PLAIN), "n  count  x\na      7  y\nb         z\n");
    }

    #[test]
    fn nothing_is_wider_than_the_screen() {
        let (long, wide) = ("w".repeat(300), "節".repeat(90));
        for width in [40, 41, 99, 100] {
            let screen = Screen { width, ..PLAIN };
            let rows: &[&[&str]] = &[&[&long, &long, &long, &long], &[&wide, "a b", "c", &long]];
            let text = table(rows).shown(4, &screen);
            assert!(text.lines().all(|l| columns(l) <= width), "{width}\n{text}");
        }
    }

    #[test]
    fn ids_and_numbers_stay_whole_beside_text() {
        let narrow = Screen { width: 60, ..PLAIN };
        let text = "a name of a job that is long, with blanks";
        let mut table = Table::headed(["job", "name", "user", "count", "detail"]);
        for job in ["4711001", "4711002"] {
            let count = Cell::number(Some(1_234_567));
            let [job, text, user] = [job, text, "anna"].map(Cell::new);
            table.row(vec![job, text.clone(), user, count, text]);
        }
        let shown = table.shown(0, &narrow);
        assert!(shown.lines().all(|l| columns(l) <= 60), "{shown}");
        for whole in ["4711001  a ", "4711002  a ", "...  anna  1234567  a name"] {
            assert!(shown.contains(whole), "{whole}: {shown}");
        }
    }

    #[test]
    fn colour_takes_no_room() {
        let colour = Screen {
            colour: true,
            ..PLAIN
        };
        let mut table = Table::default();
        table.row(vec![Cell::painted(Paint::Bad, "failed"), Cell::new("x")]);
        table.row(vec![Cell::new("ok"), Cell::new("y")]);
        assert_eq!(table.shown(0, &colour), "\x1b[1;31mfailed\x1b[0m  x\nok      y\n");
    }
}
