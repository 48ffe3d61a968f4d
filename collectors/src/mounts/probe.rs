//! The probe of one filesystem: the one call that may never return, on the thread of its device.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::metrics::{AVAILABLE, FREE, INODES, INODES_FREE, PROBE_AGE, PROBE_DURATION, SIZE};
use super::table::{self, Filesystem};
use crate::block::Histogram;
use crate::sys::root;
use crate::sys::statfs::{self, Figures};
use crate::{Block, Device, Env, Error, Kind, Subject, SubjectKind};

/// One filesystem.
pub(super) struct Probe {
    env: Env,
    subject: Subject,
    key: Key,
    /// The number of its mount.
    mount: u32,
    /// The least time between two probes: [`Lifetime::spacing`](super::lifetime::Lifetime::spacing).
    spacing: Option<Duration>,
    past: SharedPast,
    in_flight: SharedInFlight,
}

/// A filesystem: its mount point and its device number.
pub(super) type Key = (String, String);

/// Probes that have not returned. They outlast a scan, and the filesystem.
pub(super) type SharedInFlight = Arc<Mutex<BTreeSet<Key>>>;

/// One probe that has not returned.
struct InFlight<'a>(&'a SharedInFlight, &'a Key);

impl<'a> InFlight<'a> {
    fn new(all: &'a SharedInFlight, key: &'a Key) -> Self {
        lock(all).insert(key.clone());
        Self(all, key)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        lock(self.0).remove(self.1);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What outlasts a scan: a new list of mounts sets no counter back and probes nothing.
pub(super) type SharedPast = Arc<Mutex<Past>>;

/// The probes of a filesystem so far.
#[derive(Debug, Default)]
pub(super) struct Past {
    durations: Durations,
    last: Option<Last>,
}

/// Consecutive failures after which one stands: two probes later, as many as check `mount-unresponsive` sees of any other mount.
const CONFIRMED: u32 = 3;

/// The last probe that returned.
#[derive(Clone, Copy, Debug)]
struct Last {
    mount: u32,
    at: Instant,
    answer: Result<Figures, Errno>,
    /// Consecutive failures, this one included.
    failures: u32,
}

impl Last {
    fn stands(&self, now: Instant, spacing: Duration) -> bool {
        let is_sure = self.answer.is_ok() || self.failures >= CONFIRMED;
        is_sure && now.saturating_duration_since(self.at) < spacing
    }
}

impl Probe {
    pub(super) fn new(env: &Env, of: &Filesystem, past: SharedPast, in_flight: &SharedInFlight) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Mount, table::name(&of.point)),
            key: of.key(),
            mount: of.mount,
            spacing: of.lifetime.spacing(),
            past,
            in_flight: Arc::clone(in_flight),
        }
    }

    /// The figures, and how old they are.
    fn figures(&self) -> Result<(Figures, Duration), Error> {
        let _in_flight = InFlight::new(&self.in_flight, &self.key);
        let (point, _) = &self.key;
        if !self.env.is_live() {
            // A recording changes with its steps.
            let (figures, took) = recorded(&self.env, point)?;
            if let Some(seconds) = took {
                lock(&self.past).durations.add(seconds);
            }
            return Ok((figures, Duration::ZERO));
        }
        let (answer, age) = self.answer(Instant::now(), || statfs::figures(Path::new(point)));
        Ok((answer.map_err(|errno| error(point, errno))?, age))
    }

    /// The answer of the last probe and its age, if another probe must not follow it yet; else that of a new one.
    fn answer(
        &self,
        now: Instant,
        ask: impl FnOnce() -> Result<Figures, Errno>,
    ) -> (Result<Figures, Errno>, Duration) {
        let last = lock(&self.past).last.filter(|last| last.mount == self.mount);
        if let (Some(last), Some(spacing)) = (last, self.spacing)
            && last.stands(now, spacing)
        {
            return (last.answer, now.saturating_duration_since(last.at));
        }
        // Not under the lock: it may never return.
        let answer = ask();
        let before = last.map_or(0, |last| last.failures);
        let failures = if answer.is_ok() {
            0
        } else {
            before.saturating_add(1)
        };
        let mut past = lock(&self.past);
        past.durations.add(now.elapsed().as_secs_f64());
        past.last = Some(Last {
            mount: self.mount,
            at: now,
            answer,
            failures,
        });
        (answer, Duration::ZERO)
    }
}

impl Device for Probe {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn identity(&self) -> &str {
        &self.key.1
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let (found, age) = self.figures()?;
        let labels = [self.subject.name.as_str()];
        // A filesystem without a fixed number of inodes reports 0 of 0, or all ones as free (CephFS) or as both (DAOS).
        let has_inodes = found.inodes > 0 && found.inodes < u64::MAX && found.inodes_free <= found.inodes;
        for (metric, bytes) in [
            (&SIZE, found.size),
            (&FREE, found.free),
            (&AVAILABLE, found.available),
        ] {
            // All ones: not known, as of DAOS without its pool.
            out.maybe_u64(metric, &labels, Some(bytes).filter(|bytes| *bytes < u64::MAX));
        }
        out.maybe_u64(&INODES, &labels, has_inodes.then_some(found.inodes));
        out.maybe_u64(&INODES_FREE, &labels, has_inodes.then_some(found.inodes_free));
        if self.spacing.is_some() {
            out.f64(&PROBE_AGE, &labels, age.as_secs_f64());
        }
        lock(&self.past).durations.show(&labels, out);
        Ok(())
    }
}

/// `stale`: the server no longer knows the filesystem, as after an expelled GPFS node or a new export. The name of the device stands
/// for its mount point: evidence has no room for a long path beside its cause.
fn error(point: &str, errno: Errno) -> Error {
    let name = table::name(point);
    match errno {
        Errno::ESTALE => Error::State {
            what: format!("{name}: stale file handle"),
            reason: "stale",
        },
        errno => Error::io(Path::new(&name), errno.into()),
    }
}

/// `/statfs/MOUNT/POINT/figures` of a recording: five numbers and the probe's milliseconds, if known; or `ESTALE`.
fn recorded(env: &Env, point: &str) -> Result<(Figures, Option<f64>), Error> {
    let path = env.path(&format!("/statfs{}/figures", point.trim_end_matches('/')));
    let text = root::read_text(&path)?.ok_or(Error::NotRecorded("statfs"))?;
    if text == "ESTALE" {
        return Err(error(point, Errno::ESTALE));
    }
    let numbers: Vec<u64> = text.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let &[size, free, available, inodes, inodes_free, ref rest @ ..] = numbers.as_slice() else {
        return Err(Error::parse(
            path.display().to_string(),
            &text,
            "size, free and available bytes, inodes, free inodes",
        ));
    };
    let figures = Figures {
        size,
        free,
        available,
        inodes,
        inodes_free,
    };
    let took = rest.first().map(|ms| Duration::from_millis(*ms).as_secs_f64());
    Ok((figures, took))
}

/// How long probes took.
#[derive(Debug, Default)]
pub(super) struct Durations {
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Durations {
    fn bounds() -> &'static [f64] {
        match PROBE_DURATION.kind {
            Kind::Histogram(buckets) => buckets.bounds(),
            Kind::Counter | Kind::Gauge | Kind::Info => &[],
        }
    }

    fn add(&mut self, seconds: f64) {
        self.counts.resize(Self::bounds().len(), 0);
        let within = Self::bounds().iter().map(|bound| u64::from(seconds <= *bound));
        for (count, one) in self.counts.iter_mut().zip(within) {
            *count += one;
        }
        self.sum += seconds;
        self.count += 1;
    }

    /// Absent until a probe has returned.
    fn show(&self, labels: &[&str], out: &mut Block) {
        let seen = (self.count > 0).then_some(Histogram {
            buckets: &self.counts,
            sum: self.sum,
            count: self.count,
        });
        out.histogram(&PROBE_DURATION, labels, seen);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test writes its own recording")]

    use super::super::class::Class;
    use super::super::lifetime::Lifetime;
    use super::*;
    use crate::Value;

    const TIMEOUT: Duration = Duration::from_mins(5);
    const MINUTE: Duration = Duration::from_mins(1);

    /// A probe of a mount with this number, of a filesystem with this past.
    fn probe(mount: u32, lifetime: Lifetime, past: &SharedPast) -> Probe {
        let of = Filesystem {
            device: "0:52".to_owned(),
            mount,
            point: "/home/alice".to_owned(),
            fstype: "nfs4".to_owned(),
            source: "nas:/alice".to_owned(),
            class: Class::Network,
            is_read_only: false,
            is_of_a_user: false,
            needs_ticket: false,
            lifetime,
            is_visible: true,
        };
        Probe::new(&Env::default(), &of, Arc::clone(past), &SharedInFlight::default())
    }

    const GOOD: Result<Figures, Errno> = Ok(Figures {
        size: 1000,
        free: 600,
        available: 500,
        inodes: 0,
        inodes_free: 0,
    });

    /// The minutes of these at which a mount is probed that is read each minute, with these answers.
    fn probed_at(probe: &Probe, start: Instant, minutes: u32, answer: Result<Figures, Errno>) -> Vec<u32> {
        let mut asked = Vec::new();
        for minute in 0..minutes {
            let (found, age) = probe.answer(start + MINUTE * minute, || {
                asked.push(minute);
                answer
            });
            assert_eq!(found, answer, "{minute}");
            let last = asked.last().copied().unwrap_or_default();
            assert_eq!(age, MINUTE * (minute - last), "{minute}");
        }
        asked
    }

    #[test]
    fn a_mount_that_an_automounter_unmounts_is_probed_at_once_and_then_so_rarely_that_it_may_end() {
        let start = Instant::now();
        let past = SharedPast::default();
        let idle = Lifetime::Idle(TIMEOUT);
        assert_eq!(probed_at(&probe(31, idle, &past), start, 25, GOOD), [0, 10, 20]);
        // A new list of mounts probes nothing, another mount at the same place is probed at once.
        let later = start + MINUTE * 25;
        assert!(probed_at(&probe(31, idle, &past), start + MINUTE * 20, 5, GOOD).is_empty());
        assert_eq!(probed_at(&probe(32, idle, &past), later, 5, GOOD), [0]);
        for lifetime in [Lifetime::Fixed, Lifetime::Submount] {
            let asked = probed_at(&probe(31, lifetime, &SharedPast::default()), start, 5, GOOD);
            assert_eq!(asked, [0, 1, 2, 3, 4], "{lifetime:?}");
        }
    }

    #[test]
    fn a_failure_of_a_rare_probe_is_confirmed_before_it_stands() {
        let probe = probe(31, Lifetime::Idle(TIMEOUT), &SharedPast::default());
        let start = Instant::now();
        let stale = Err(Errno::ESTALE);
        assert_eq!(probed_at(&probe, start, 24, stale), [0, 1, 2, 12, 22]);
        // An answer ends the count.
        let start = start + MINUTE * 32;
        assert_eq!(probed_at(&probe, start, 1, GOOD), [0]);
        assert_eq!(probed_at(&probe, start + TIMEOUT * 2, 5, stale), [0, 1, 2]);
        assert_eq!(lock(&probe.past).durations.count, 9);
    }

    /// CephFS answers with all ones for free inodes (fs/ceph/super.c, `ceph_statfs`), DAOS's dfuse for both numbers of inodes,
    /// and for its blocks of 1 byte while it has no pool.
    #[test]
    fn a_figure_of_all_ones_is_no_number() {
        let ones = u64::MAX;
        for (text, known) in [
            (
                format!("9000 6000 5000 48211034 {ones}"),
                [true, true, true, false, false],
            ),
            (
                format!("9000 6000 5000 {ones} {ones}"),
                [true, true, true, false, false],
            ),
            (format!("{ones} {ones} {ones} {ones} {ones}"), [false; 5]),
            ("9000 6000 5000 0 0".to_owned(), [true, true, true, false, false]),
            ("9000 6000 5000 40 40".to_owned(), [true; 5]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let env = Env::recorded(dir.path());
            let path = env.path("/statfs/home/alice/figures");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &text).unwrap();
            let mut probe = Probe {
                env,
                ..probe(31, Lifetime::Fixed, &SharedPast::default())
            };
            let mut block = Block::default();
            probe.read(&mut block).unwrap();
            let found = [&SIZE, &FREE, &AVAILABLE, &INODES, &INODES_FREE].map(|metric| {
                let mut series = block.iter().filter(|(s, _)| s.metric == metric);
                series.next().is_some_and(|(_, value)| value != Value::Absent)
            });
            assert_eq!(found, known, "{text}");
        }
    }

    #[test]
    fn the_buckets_are_cumulative() {
        let mut durations = Durations::default();
        for seconds in [0.00005, 0.05, 70.0] {
            durations.add(seconds);
        }
        assert_eq!(durations.counts, [1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(durations.count, 3);
        let mut block = Block::default();
        durations.show(&["/home"], &mut block);
        assert_eq!(block.values().last(), Some(&Value::U64(3)));
    }
}
