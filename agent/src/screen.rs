//! Text for people: wrapped lines, aligned columns, local time, colour on terminals.

mod colour;
mod table;
mod text;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use sys::terminal;

pub(crate) use colour::{Colour, ColourArgs, Paint};
pub(crate) use table::{Cell, Table};
pub(crate) use text::{bit_rate, bytes, clean, columns, cut, is_hidden, wrapped};

/// Widest line, in columns.
pub(crate) const WIDTH: usize = 100;

/// A smaller reported width is not believed: nothing could be read on such a terminal.
const NARROWEST: usize = 40;

/// The output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Widest line, in columns.
    pub(crate) width: usize,
    /// Number of lines; `None` if it is no terminal.
    pub(crate) height: Option<usize>,
    /// Whether colour is used.
    pub(crate) colour: bool,
}

impl Screen {
    /// Standard output now: a terminal may change its size.
    pub(crate) fn now(colour: Colour) -> Self {
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        let size = is_terminal.then(|| terminal::size(&out)).flatten();
        Self {
            width: size.map_or(WIDTH, |(columns, _)| usize::from(columns).clamp(NARROWEST, WIDTH)),
            height: size.map(|(_, lines)| usize::from(lines)),
            colour: colour.is_shown(is_terminal, |name| std::env::var_os(name)),
        }
    }

    /// Colours a text. Its control characters were removed before.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.colour && !text.is_empty() {
            paint.on(text)
        } else {
            text.to_owned()
        }
    }
}

/// Writes to standard output. A reader that has gone away is no error.
pub(crate) fn print(text: &str, code: ExitCode) -> anyhow::Result<ExitCode> {
    write(text)?;
    Ok(code)
}

/// Writes to standard output what the exit code says, too. A disk that is full does not change the code, which has a meaning
/// of its own: for `check`, 1 is an unhealthy node.
pub(crate) fn tell(text: &str, code: ExitCode) -> ExitCode {
    if let Err(error) = write(text) {
        complain(&chain(&error));
    }
    code
}

/// Writes to standard output. `false`: the reader is gone.
pub(crate) fn write(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(anyhow::Error::new(e).context("cannot write to standard output")),
    }
}

/// Writes an error message to stderr, each line prefixed with the program's name.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    for line in text.lines() {
        if writeln!(err, "nodewarden: {}", clean(line)).is_err() {
            return;
        }
    }
}

/// Writes one line of progress to stderr.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    sys::ignore(writeln!(err, "{}", clean(text)));
}

/// A time in local time.
pub(crate) fn time(at: i64) -> String {
    local(at, "%Y-%m-%d %H:%M:%S")
}

/// A time in local time, without the year.
pub(crate) fn short_time(at: i64) -> String {
    local(at, "%m-%d %H:%M")
}

/// A time in local time with the zone's abbreviation, or in UTC where the zone is unknown.
pub(crate) fn zoned_time(at: i64) -> String {
    local(at, ZONED)
}

const ZONED: &str = "%Y-%m-%d %H:%M:%S %Z";

/// The zone is read once: the daemon cannot open its file after it has entered its sandbox.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Reads the zone of `TZ` or `/etc/localtime`, for all later times.
pub(crate) fn zone() -> &'static TimeZone {
    ZONE.get_or_init(|| TimeZone::try_system().unwrap_or(TimeZone::UTC))
}

fn local(at: i64, form: &str) -> String {
    shown(at, zone(), form)
}

fn shown(at: i64, zone: &TimeZone, form: &str) -> String {
    let zoned = Timestamp::from_second(at).map(|t| t.to_zoned(zone.clone()));
    zoned.map_or_else(|_| format!("@{at}"), |z| z.strftime(form).to_string())
}

/// A length of time in its largest unit, rounded down: `3 s`, `4 min`, `2 h`, `5 d`.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago a time was. Clocks may disagree; then it was just now.
pub(crate) fn ago(at: i64, now: i64) -> String {
    format!("{} ago", span(u64::try_from(now.saturating_sub(at)).unwrap_or(0)))
}

/// An error with its causes, each once: many messages contain their cause already.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// A page for tests: full width, no colour.
#[cfg(test)]
pub(crate) const PLAIN: Screen = Screen {
    width: WIDTH,
    height: None,
    colour: false,
};

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZoneDatabase;

    use super::*;

    #[test]
    fn a_span_is_in_its_largest_unit() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7199, "119 min"),
            (7200, "2 h"),
            (172_799, "47 h"),
            (172_800, "2 d"),
            (u64::MAX, "213503982334601 d"),
        ] {
            assert_eq!(span(seconds), text);
        }
        assert_eq!(ago(100, 40), "0 s ago");
        assert_eq!(
            ago(i64::MIN, i64::MAX),
            format!("{} ago", span(u64::try_from(i64::MAX).unwrap()))
        );
    }

    #[test]
    fn a_time_that_no_calendar_knows_is_a_number() {
        assert_eq!(time(i64::MAX), format!("@{}", i64::MAX));
    }

    /// The smallest file of tzfile(5), version 2: one type, and the rule for all time.
    fn zone_file(offset: i32, name: &str) -> Vec<u8> {
        let mut block = b"TZif2".to_vec();
        block.extend([0; 15]);
        let counts = [0, 0, 0, 0, 1, u32::try_from(name.len() + 1).unwrap()];
        block.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
        block.extend(offset.to_be_bytes());
        block.extend([0, 0]);
        block.extend([name.as_bytes(), b"\0"].concat());
        let rule = format!("\n{name}{}\n", -offset / 3600);
        [block.repeat(2), rule.into_bytes()].concat()
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test writes a zone of its own")]
    fn the_name_of_a_zone_is_looked_up_in_the_systems_database() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("Test")).unwrap();
        std::fs::write(folder.path().join("Test/Zone"), zone_file(7200, "TST")).unwrap();
        let zones = TimeZoneDatabase::from_dir(folder.path()).unwrap();
        let zone = zones.get("Test/Zone").unwrap();
        assert_eq!(shown(1_796_069_938, &zone, ZONED), "2026-11-30 22:18:58 TST");
    }

    #[test]
    fn a_time_of_the_page_names_its_zone() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (at, text) in [
            (1_700_000_000, "2023-11-14 23:13:20 CET"),
            (1_720_000_000, "2024-07-03 11:46:40 CEST"),
        ] {
            assert_eq!(shown(at, &zone, ZONED), text);
        }
        assert_eq!(
            shown(1_700_000_000, &TimeZone::UTC, ZONED),
            "2023-11-14 22:13:20 UTC"
        );
    }
}
