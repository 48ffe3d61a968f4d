//! The kernel and its clock, the processors and the memory: what a node-health engineer compares with what was bought.

use std::path::Path;
use std::time::Instant;

use super::attribute::{self, OpenFile, OpenFiles};
use super::link::KEEP;
use super::metrics::{
    CLOCK_MAX_ERROR, CLOCK_SYNCHRONIZED, CPUS_ONLINE, CPUS_PRESENT, KERNEL_INFO, MEMORY_AVAILABLE,
    MEMORY_CORRUPTED, MEMORY_TOTAL, OOM_KILLS,
};
use super::slow::Slow;
use crate::sys::{clock, root};
use crate::{Block, Device, Env, Error, Subject, SubjectKind, Value};

/// Larger than any /proc/vmstat: some hundred lines.
const MAX_TABLE: u64 = 64 * 1024;
/// Larger than any /proc/meminfo: some sixty lines of 28 bytes.
const MAX_MEMORY: usize = 8192;
/// Larger than any list of processors, which is at most one page.
const MAX_LIST: usize = 4097;

/// The node as one machine.
pub(super) struct System {
    env: Env,
    subject: Subject,
    online: OpenFile,
    present: OpenFile,
    memory: OpenFile,
    release: Slow<String>,
    clock: Slow<clock::Clock>,
    oom_kills: Slow<u64>,
}

impl System {
    pub(super) fn new(env: &Env, files: &OpenFiles) -> Self {
        let file = |path| files.file(env.path(path));
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Node, "system"),
            online: file("/sys/devices/system/cpu/online"),
            present: file("/sys/devices/system/cpu/present"),
            memory: file("/proc/meminfo"),
            release: Slow::new(),
            clock: Slow::keeping(KEEP),
            oom_kills: Slow::keeping(KEEP),
        }
    }
}

impl Device for System {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let (now, env) = (Instant::now(), &self.env);
        let release = self
            .release
            .get(now, || attribute::label(&env.path("/proc/sys/kernel/osrelease")));
        if let Some(release) = release {
            out.info(&KERNEL_INFO, &[release]);
        }
        let clock = self.clock.get(now, || {
            clock::read(env)
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()?
        });
        out.maybe_u64(&CLOCK_SYNCHRONIZED, &[], clock.map(|c| c.is_synchronized.into()));
        let seconds = clock.map(|c| c.max_error as f64 / 1e6);
        out.push(&CLOCK_MAX_ERROR, &[], seconds.map_or(Value::Absent, Value::F64));
        for (metric, list) in [
            (&CPUS_ONLINE, &mut self.online),
            (&CPUS_PRESENT, &mut self.present),
        ] {
            out.maybe_u64(metric, &[], list.find::<MAX_LIST, _>(cpus));
        }
        let keys = ["MemTotal:", "MemAvailable:", "HardwareCorrupted:"];
        let found = |table: &str| Some(keys.map(|key| kibibytes(table, key)));
        let [total, available, corrupted] = self.memory.find::<MAX_MEMORY, _>(found).unwrap_or_default();
        out.maybe_u64(&MEMORY_TOTAL, &[], total);
        out.maybe_u64(&MEMORY_AVAILABLE, &[], available);
        out.maybe_u64(&MEMORY_CORRUPTED, &[], corrupted);
        // The kernel adds up the counters of all processors to answer this read.
        let kills = self.oom_kills.get(now, || {
            line(&table(&env.path("/proc/vmstat"))?, "oom_kill").and_then(attribute::count)
        });
        out.maybe_u64(&OOM_KILLS, &[], kills.copied());
        Ok(())
    }
}

/// A table of /proc. `None`: not there, not readable, not text, or cut off.
fn table(path: &Path) -> Option<String> {
    let bytes = root::read_bytes(path, MAX_TABLE)
        .inspect_err(|error| tracing::debug!(%error, "left out"))
        .ok()??;
    let whole = (bytes.len() as u64) < MAX_TABLE;
    whole.then(|| String::from_utf8(bytes).ok())?
}

/// What stands behind a word at the beginning of a line.
fn line<'a>(table: &'a str, key: &str) -> Option<&'a str> {
    table.lines().find_map(|line| {
        let (first, rest) = line.split_once(char::is_whitespace)?;
        (first == key).then(|| rest.trim())
    })
}

fn kibibytes(table: &str, key: &str) -> Option<u64> {
    attribute::count(line(table, key)?.strip_suffix("kB")?.trim_end())?.checked_mul(1024)
}

/// How many processors a list like `0-63,128-191` names.
pub(crate) fn cpus(list: &str) -> Option<u64> {
    let mut count: u64 = 0;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (attribute::count(first)?, attribute::count(last)?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn processors_are_counted_by_ranges() {
        for (list, count) in [("0", 1), ("0-63", 64), ("0-63,128-191", 128), ("0,2,4-5", 4)] {
            assert_eq!(cpus(list), Some(count), "{list}");
        }
        for list in ["", "-", "0-", "3-1", "a", "0,,1", "0-18446744073709551615"] {
            assert_eq!(cpus(list), None, "{list:?}");
        }
    }

    #[test]
    fn memory_is_read_by_its_whole_key() {
        let text = "MemTotal:  8 kB\nMemFree:\t4 kB\nHugePages_Total: 0\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Some(8192));
        assert_eq!(kibibytes(text, "MemFree:"), Some(4096));
        assert_eq!(kibibytes(text, "Mem"), None);
        assert_eq!(kibibytes(text, "HugePages_Total:"), None, "no memory");
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parsers(text in "[0-9, kBa:\\n-]{0,40}") {
            cpus(&text);
            kibibytes(&text, "a:");
        }
    }
}
