//! What processes hold: memory, descriptors, threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::unistd::{SysconfVar, sysconf};

use crate::proc;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Its id.
    pub pid: u32,
    /// Its name and the words of its command line that are no options: `nodewarden worker host`.
    pub name: String,
    /// Resident set, KiB.
    pub rss: u64,
    /// Proportional set, KiB: a page that several processes map counts in parts.
    pub pss: u64,
    /// Open descriptors.
    pub fds: usize,
    /// Threads.
    pub threads: usize,
}

impl Footprint {
    /// Reads one process.
    ///
    /// # Errors
    /// When it has ended or belongs to another user.
    pub fn read(pid: u32) -> Result<Self> {
        let fds = fs::read_dir(format!("/proc/{pid}/fd"));
        Ok(Self {
            pid,
            name: name(pid)?,
            rss: kib(&format!("/proc/{pid}/status"), "VmRSS:")?,
            pss: kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:")?,
            fds: fds.with_context(|| format!("descriptors of {pid}"))?.count(),
            threads: proc::tasks(pid)?.len(),
        })
    }
}

fn name(pid: u32) -> Result<String> {
    let words = proc::cmdline(pid)?;
    let plain = words.iter().skip(1).take_while(|w| !w.starts_with('-'));
    let mut name = proc::comm(pid)?;
    for word in plain {
        name += " ";
        name += word;
    }
    Ok(name)
}

fn kib(file: &str, field: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
    let line = text.lines().find_map(|l| l.strip_prefix(field));
    let number = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("{file}: no {field}"))
}

/// What a process maps of a file and of the files beside it whose names begin with its name: proportional set, KiB.
///
/// # Errors
/// When the process has ended or belongs to another user.
pub fn mapped(pid: u32, file: &Path) -> Result<u64> {
    let maps = format!("/proc/{pid}/smaps");
    let text = fs::read_to_string(&maps).with_context(|| maps.clone())?;
    let file = file.to_str().with_context(|| file.display().to_string())?;
    mapped_of(&text, file).with_context(|| maps)
}

fn mapped_of(smaps: &str, file: &str) -> Result<u64> {
    let mut is_it = false;
    let mut sum = 0;
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Pss:") if is_it => {
                let size = words.next().and_then(|n| n.parse::<u64>().ok());
                sum += size.with_context(|| format!("{line:?}, expected a size in kB"))?;
            }
            // A mapping begins with its addresses. Its file is the sixth word.
            Some(first) if !first.ends_with(':') => is_it = words.nth(4).is_some_and(|f| f.starts_with(file)),
            _ => {}
        }
    }
    Ok(sum)
}

/// Processor time of a process, with that of threads that have ended.
///
/// # Errors
/// When the process is gone.
pub fn cpu(pid: u32) -> Result<Duration> {
    let file = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&file).with_context(|| file.clone())?;
    // The name may hold spaces and brackets: it ends at the last bracket.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
    let both: Vec<u64> = fields
        .into_iter()
        .flatten()
        .skip(11)
        .take(2)
        .flat_map(str::parse)
        .collect();
    let [user, system] = both[..] else {
        bail!("{file}: found {text:?}, expected utime and stime");
    };
    let second = sysconf(SysconfVar::CLK_TCK)?.context("CLK_TCK")?;
    Ok(Duration::from_secs(user + system) / u32::try_from(second)?)
}

/// Context switches that the threads of these processes asked for, by process and thread.
///
/// # Errors
/// When a process is gone.
pub fn voluntary_switches(pids: &[u32]) -> Result<BTreeMap<(u32, u32), u64>> {
    let mut switches = BTreeMap::new();
    for pid in pids {
        for tid in proc::tasks(*pid)? {
            // A thread may end between the listing and this.
            if let Ok(status) = proc::Status::read_task(*pid, tid) {
                switches.insert((*pid, tid), status.get("voluntary_ctxt_switches")?.parse()?);
            }
        }
    }
    Ok(switches)
}

/// What was added between two readings. What a thread did that ended in between is not known.
pub fn added(before: &BTreeMap<(u32, u32), u64>, after: &BTreeMap<(u32, u32), u64>) -> u64 {
    let since = |(thread, now): (&(u32, u32), &u64)| now - before.get(thread).copied().unwrap_or(0).min(*now);
    after.iter().map(since).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_and_a_thread_more_are_seen() {
        let pid = std::process::id();
        // Other tests of this process open and close too, so a bound and not a number.
        let before = Footprint::read(pid).unwrap();
        let files: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let after = Footprint::read(pid).unwrap();
        assert!(after.fds >= before.fds + 50, "{before:?} {after:?}");
        assert!(after.rss >= after.pss && after.threads >= 1);
        drop(files);
    }

    #[test]
    fn what_is_mapped_of_a_program_is_a_part_of_its_memory() {
        let pid = std::process::id();
        let own = std::env::current_exe().unwrap();
        let (all, of_program) = (Footprint::read(pid).unwrap().pss, mapped(pid, &own).unwrap());
        assert!(of_program > 0 && of_program < all, "{of_program} of {all}");
    }

    #[test]
    fn files_beside_a_library_count_and_nothing_else() {
        let mapping = |name: &str, pss: u32| {
            format!(
                "7f00-7f01 r--p 00000000 08:01 12    {name}\nSize: 4 kB\nPss: {pss} kB\nPss_Dirty: 9 kB\nVmFlags: rd mr\n"
            )
        };
        let smaps = [
            mapping("/t/lib.so.1", 1),
            mapping("", 2),
            mapping("/t/lib.so.1.counts", 4),
            mapping("[heap]", 8),
            mapping("/x/t/lib.so.1", 16),
        ];
        assert_eq!(mapped_of(&smaps.concat(), "/t/lib.so.1").unwrap(), 5);
        assert_eq!(mapped_of(&smaps.concat(), "/t/other").unwrap(), 0);
        assert!(mapped_of(&mapping("/t/lib", 1).replace("Pss: 1", "Pss: x"), "/t/lib").is_err());
    }

    #[test]
    fn switches_of_a_sleeper_are_counted() {
        let pid = std::process::id();
        let before = voluntary_switches(&[pid]).unwrap();
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(added(&before, &voluntary_switches(&[pid]).unwrap()) >= 5);
    }
}
