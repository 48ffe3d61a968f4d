//! The probe of one filesystem: the one call that may never return, on the thread of its device.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::metrics::{AVAILABLE, FREE, INODES, INODES_FREE, PROBE_DURATION, SIZE};
use super::table;
use crate::block::Histogram;
use crate::sys::root;
use crate::sys::statfs::{self, Figures};
use crate::{Block, Device, Env, Error, Kind, Subject, SubjectKind};

/// One filesystem.
pub(super) struct Probe {
    env: Env,
    subject: Subject,
    key: Key,
    durations: SharedDurations,
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

/// What outlasts a scan: a new list of mounts sets no counter back.
pub(super) type SharedDurations = Arc<Mutex<Durations>>;

impl Probe {
    pub(super) fn new(env: &Env, key: &Key, durations: SharedDurations, in_flight: &SharedInFlight) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Mount, table::name(&key.0)),
            key: key.clone(),
            durations,
            in_flight: Arc::clone(in_flight),
        }
    }

    /// The figures, and how long they took, in seconds.
    fn figures(&self) -> (Result<Figures, Error>, Option<f64>) {
        let _in_flight = InFlight::new(&self.in_flight, &self.key);
        let (point, _) = &self.key;
        if !self.env.is_live() {
            return match recorded(&self.env, point) {
                Ok((figures, took)) => (Ok(figures), took),
                Err(error) => (Err(error), None),
            };
        }
        let start = Instant::now();
        let figures = statfs::figures(Path::new(point)).map_err(|errno| error(point, errno));
        (figures, Some(start.elapsed().as_secs_f64()))
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
        let (figures, took) = self.figures();
        // Not while the probe ran, which may never return.
        let mut durations = lock(&self.durations);
        if let Some(seconds) = took {
            durations.add(seconds);
        }
        let found = figures?;
        let labels = [self.subject.name.as_str()];
        // A filesystem without a fixed number of inodes reports 0 of 0.
        let has_inodes = found.inodes > 0;
        out.u64(&SIZE, &labels, found.size);
        out.u64(&FREE, &labels, found.free);
        out.u64(&AVAILABLE, &labels, found.available);
        out.maybe_u64(&INODES, &labels, has_inodes.then_some(found.inodes));
        out.maybe_u64(&INODES_FREE, &labels, has_inodes.then_some(found.inodes_free));
        durations.show(&labels, out);
        Ok(())
    }
}

/// `stale`: the server no longer knows the filesystem, as after an expelled GPFS node or a new export.
fn error(point: &str, errno: Errno) -> Error {
    match errno {
        Errno::ESTALE => Error::State {
            what: format!("{point}: stale file handle"),
            reason: "stale",
        },
        errno => Error::io(Path::new(point), errno.into()),
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
    use super::*;
    use crate::Value;

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
