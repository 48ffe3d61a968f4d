//! Log lines are written by a thread of their own: a full pipe behind stderr must not block the thread that logs.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

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

#[derive(Clone)]
struct Lines {
    to: Sender<Vec<u8>>,
    counts: Arc<(Mutex<Counts>, Condvar)>,
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
    /// With the thread that writes them. It calls `first` before.
    fn new(first: impl FnOnce() + Send + 'static, mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (to, from) = channel::<Vec<u8>>();
        let counts = Arc::<(Mutex<Counts>, Condvar)>::default();
        let lines = Self {
            to,
            counts: Arc::clone(&counts),
        };
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            first();
            for line in from {
                // Without stderr there is no place to report the error.
                crate::ignore(out.write_all(&line));
                counts.0.lock().unwrap_or_else(PoisonError::into_inner).waiting -= 1;
                counts.1.notify_all();
            }
        })?;
        Ok(lines)
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
        let mut counts = self.counts();
        let mut bytes = line.to_vec();
        if counts.dropped > 0 {
            bytes = format!("... {} lines dropped\n", counts.dropped).into_bytes();
            bytes.extend_from_slice(line);
        }
        if counts.waiting < WAITING && self.to.send(bytes).is_ok() {
            counts.dropped = 0;
            counts.waiting += 1;
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
    let lines = Lines::new(first, io::stderr())?;
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
                    .with_target(false)
                    .with_ansi(false),
            )
            .try_init(),
    );
    Ok(())
}

/// Changes the level of a process that has called [`start`]. `NODEWARDEN_LOG` still overrides it.
pub fn set_level(level: &str) {
    if let Some(handle) = LEVELS.get() {
        crate::ignore(handle.reload(levels(level)));
    }
}

fn levels(level: &str) -> Targets {
    targets(&std::env::var("NODEWARDEN_LOG").unwrap_or_else(|_| level.to_owned()))
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
        (Lines::new(first, writer).unwrap(), reader)
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
