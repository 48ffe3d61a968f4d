//! Log lines are written by a thread of their own: a full pipe behind stderr must not block the thread that logs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

/// Limit of queued lines; more are dropped and counted.
const WAITING: u64 = 1024;

/// Time limit for the last lines of a process: a full pipe behind stderr must not keep it.
const LAST_LINES: Duration = Duration::from_millis(200);

/// A line that a worker has written is not written again for this time.
const QUIET: Duration = Duration::from_secs(3600);

/// Limit of remembered lines.
const REMEMBERED: usize = 256;

#[derive(Clone)]
struct Lines {
    to: Sender<Vec<u8>>,
    counts: Arc<(Mutex<Counts>, Condvar)>,
    /// The work of the thread that writes them, until it is started.
    thread: Arc<Mutex<Option<Work>>>,
    /// In a worker, what it wrote.
    written: Option<Arc<Mutex<Written>>>,
}

type Work = Box<dyn FnOnce() + Send>;

/// Lines without their time, and when each was written.
#[derive(Default)]
struct Written(BTreeMap<Vec<u8>, Instant>);

impl Written {
    /// A line without its time.
    fn text(line: &[u8]) -> &[u8] {
        let text = line.iter().position(|b| *b == b' ').and_then(|at| line.get(at..));
        text.unwrap_or(line)
    }

    /// Whether the line was not written lately. Not if too many others were.
    fn is_new(&mut self, line: &[u8], now: Instant) -> bool {
        let is_late = |at: &Instant| now.saturating_duration_since(*at) < QUIET;
        if self.0.get(Self::text(line)).is_some_and(is_late) {
            return false;
        }
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, at| is_late(at));
        }
        self.0.len() < REMEMBERED
    }

    fn note(&mut self, line: &[u8], now: Instant) {
        self.0.insert(Self::text(line).to_vec(), now);
    }
}

/// Lines that are not on stderr.
#[derive(Default)]
struct Counts {
    /// Since the last one that was queued.
    dropped: u64,
    /// Queued, or being written.
    waiting: u64,
}

static LINES: OnceLock<Lines> = OnceLock::new();

/// The levels in force.
static LEVELS: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

impl Lines {
    /// Their thread is not started yet. It calls `first` before it writes.
    fn new(first: impl FnOnce() + Send + 'static, mut out: impl Write + Send + 'static) -> Self {
        let (to, from) = channel::<Vec<u8>>();
        let counts = Arc::<(Mutex<Counts>, Condvar)>::default();
        let of_thread = Arc::clone(&counts);
        let work = move || {
            let counts = of_thread;
            first();
            for line in from {
                // Without stderr there is no place to report the error.
                crate::ignore(out.write_all(&line));
                counts.0.lock().unwrap_or_else(PoisonError::into_inner).waiting -= 1;
                counts.1.notify_all();
            }
        };
        Self {
            to,
            counts,
            thread: Arc::new(Mutex::new(Some(Box::new(work)))),
            written: None,
        }
    }

    /// Starts their thread, if it was not.
    fn begin(&self) -> io::Result<()> {
        let work = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        match work {
            Some(work) => thread::Builder::new()
                .name("log".to_owned())
                .spawn(work)
                .map(drop),
            None => Ok(()),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all lines are written, but no longer than `limit`. Whether they are.
    fn wait(&self, limit: Duration) -> bool {
        let waits = |counts: &mut Counts| counts.waiting > 0;
        let waited = self.counts.1.wait_timeout_while(self.counts(), limit, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let now = Instant::now();
        let written = self.written.as_deref();
        let mut written = written.map(|all| all.lock().unwrap_or_else(PoisonError::into_inner));
        if written.as_mut().is_some_and(|all| !all.is_new(line, now)) {
            return Ok(line.len());
        }
        // Without a thread the line is dropped and counted.
        crate::ignore(self.begin());
        let mut counts = self.counts();
        let mut bytes = line.to_vec();
        if counts.dropped > 0 {
            bytes = format!("... {} lines dropped\n", counts.dropped).into_bytes();
            bytes.extend_from_slice(line);
        }
        if counts.waiting < WAITING && self.to.send(bytes).is_ok() {
            counts.dropped = 0;
            counts.waiting += 1;
            if let Some(written) = &mut written {
                written.note(line, now);
            }
        } else {
            counts.dropped += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Sends tracing's lines to stderr. `level` is a level, or levels by module as in `info,nodewarden::daemon=debug`; the
/// variable `NODEWARDEN_LOG` overrides it.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(level: &str) -> io::Result<()> {
    start_after(level, || ())
}

/// As [`start`]; the thread calls `first` before it writes.
///
/// # Errors
/// As [`start`].
pub fn start_after(level: &str, first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let lines = Lines::new(first, io::stderr());
    lines.begin()?;
    send_to(lines, level, false);
    Ok(())
}

/// As [`start`], for a worker: the thread starts with the first line, which most never write, a line is not repeated within an hour, and
/// names the module that wrote it.
pub fn start_worker(level: &str) {
    let lines = Lines {
        written: Some(Arc::default()),
        ..Lines::new(|| (), io::stderr())
    };
    send_to(lines, level, true);
}

fn send_to(lines: Lines, level: &str, with_module: bool) {
    let (filter, levels) = reload::Layer::new(levels(level));
    // Only tests set a second one in one process.
    crate::ignore(LINES.set(lines.clone()));
    crate::ignore(LEVELS.set(levels));
    crate::ignore(
        tracing_subscriber::registry()
            .with(filter)
            .with(
                fmt::layer()
                    .with_writer(lines)
                    .with_target(with_module)
                    .with_ansi(false),
            )
            .try_init(),
    );
}

/// Changes the level of a process that has called [`start`]. `NODEWARDEN_LOG` still overrides it.
pub fn set_level(level: &str) {
    if let Some(handle) = LEVELS.get() {
        crate::ignore(handle.reload(levels(level)));
    }
}

fn levels(level: &str) -> Targets {
    targets(&in_force(level))
}

/// The level in force: that of `NODEWARDEN_LOG`, else this one.
pub fn in_force(level: &str) -> String {
    std::env::var("NODEWARDEN_LOG").unwrap_or_else(|_| level.to_owned())
}

/// The levels of a filter; those of `info` where it is none.
fn targets(filter: &str) -> Targets {
    // An empty part would be taken for "error".
    let parts = filter.split(',').filter(|part| !part.trim().is_empty());
    let levels = parts.collect::<Vec<_>>().join(",").parse();
    levels.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

/// Waits a moment for the last lines, which the thread may not have written yet. Call it before the process ends.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.wait(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};

    use tracing::Level;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn lines(first: impl FnOnce() + Send + 'static) -> (Lines, PipeReader) {
        let (reader, writer) = pipe().unwrap();
        let lines = Lines::new(first, writer);
        lines.begin().unwrap();
        (lines, reader)
    }

    #[test]
    fn a_worker_repeats_a_line_after_an_hour_and_remembers_few() {
        let (mut written, start) = (Written::default(), Instant::now());
        let mut is_new = |line: &str, after| {
            let is_new = written.is_new(line.as_bytes(), start + after);
            if is_new {
                written.note(line.as_bytes(), start + after);
            }
            is_new
        };
        assert!(is_new("10:00 WARN x", Duration::ZERO));
        assert!(!is_new("10:01 WARN x", QUIET / 2));
        assert!(is_new("10:01 WARN y", QUIET / 2));
        assert!(is_new("11:00 WARN x", QUIET));
        // More lines than it remembers, again and again: the first of them are written once.
        let mut count = 0;
        for _ in 0..3 {
            for line in 0..2 * REMEMBERED {
                count += usize::from(is_new(&format!("11:00 WARN {line}"), QUIET + QUIET / 4));
            }
        }
        assert!((REMEMBERED - 3..=REMEMBERED).contains(&count), "{count}");
    }

    #[test]
    fn the_first_line_starts_the_thread() {
        let (mut reader, writer) = pipe().unwrap();
        let mut lines = Lines {
            written: Some(Arc::default()),
            ..Lines::new(|| (), writer)
        };
        assert!(lines.thread.lock().unwrap().is_some());
        lines.write_all(b"10:00 WARN x\n").unwrap();
        lines.write_all(b"10:01 WARN x\n").unwrap();
        lines.write_all(b"10:01 WARN y\n").unwrap();
        assert!(lines.wait(LONG));
        drop(lines);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "10:00 WARN x\n10:01 WARN y\n");
    }

    #[test]
    fn a_filter_is_a_level_or_levels_by_module() {
        let level = |filter: &str, module: &str, level| targets(filter).would_enable(module, &level);
        for filter in [
            "info",
            "info,",
            ",info",
            "info,,nodewarden::daemon=debug",
            "info,x=no level",
        ] {
            assert!(level(filter, "nodewarden::parent", Level::INFO), "{filter}");
            assert!(!level(filter, "nodewarden::parent", Level::DEBUG), "{filter}");
        }
        let filter = "warn,nodewarden::daemon=debug";
        assert!(level(filter, "nodewarden::daemon::start", Level::DEBUG));
        assert!(!level(filter, "nodewarden::parent", Level::INFO));
    }

    #[test]
    fn a_level_can_be_changed_later() {
        start("info").unwrap();
        let enabled = || (tracing::enabled!(Level::DEBUG), tracing::enabled!(Level::INFO));
        assert_eq!(enabled(), (false, true));
        for (level, expected) in [
            ("debug", (true, true)),
            ("error", (false, false)),
            ("info", (false, true)),
        ] {
            set_level(level);
            assert_eq!(enabled(), expected, "{level}");
        }
    }

    #[test]
    fn the_end_waits_for_the_last_lines() {
        let (mut lines, mut out) = lines(|| ());
        assert!(lines.wait(LONG), "nothing was logged yet");
        for _ in 0..100 {
            lines.write_all(b"line\n").unwrap();
        }
        assert!(lines.wait(LONG));
        let mut text = [0; 500];
        out.read_exact(&mut text).unwrap();
        assert_eq!(text.as_slice(), b"line\n".repeat(100));
    }

    #[test]
    fn lines_beyond_the_limit_are_dropped_and_counted() {
        let (release, hang) = channel::<()>();
        let (mut lines, mut out) = lines(move || crate::ignore(hang.recv()));
        for _ in 0..WAITING + 7 {
            lines.write_all(b"line\n").unwrap();
        }
        drop(release);
        assert!(lines.wait(LONG));
        lines.write_all(b"last\n").unwrap();
        assert!(lines.wait(LONG));
        let expected = "line\n".repeat(1024) + "... 7 lines dropped\nlast\n";
        let mut text = vec![0; expected.len()];
        out.read_exact(&mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn an_output_that_takes_nothing_keeps_the_end_for_a_moment_only() {
        let (release, hang) = channel::<()>();
        let (mut lines, _out) = lines(move || crate::ignore(hang.recv()));
        lines.write_all(b"line\n").unwrap();
        assert!(!lines.wait(Duration::from_millis(1)));
        drop(release);
        assert!(lines.wait(LONG));
    }
}
