//! The machine before a measurement.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, Uid, sync};

/// Frees the caches of the kernel (Documentation/admin-guide/sysctl/vm.rst).
const FREE: &str = "/proc/sys/vm/drop_caches";

/// Moves used pages together (as above).
const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// Longer than the daemon's first, hurried health ticks.
pub(super) const SETTLE: Duration = Duration::from_secs(17);

/// Makes large free blocks of memory, and takes the cores.
///
/// After hours of builds the pages of small files are spread over hundreds of blocks of 2 MiB. In a virtual machine whose host
/// maps each block again at its first use after a second (0.15 ms), that was most of the cost of a scrape.
///
/// # Errors
/// Without root, or when the kernel refuses.
pub(super) fn ready() -> Result<Cores> {
    as_root()?;
    sync();
    fs::write(FREE, "3").context(FREE)?;
    compact()?;
    Cores::pin()
}

/// Lets programs run for a time, and then moves used pages together again, with theirs.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn settle(time: Duration) -> Result<()> {
    println!("{} s to settle", time.as_secs());
    sleep(time);
    compact()
}

/// # Errors
/// For another user.
pub(super) fn as_root() -> Result<()> {
    ensure!(
        Uid::effective().is_root(),
        "needs root: the processes run as other users, reading their memory use needs rights, and memory is moved together"
    );
    Ok(())
}

fn compact() -> Result<()> {
    fs::write(COMPACT, "1").context(COMPACT)
}

/// The cores of the programs and of this process.
pub(super) struct Cores {
    /// The core of the programs; `None` on a machine with one core.
    pub(super) program: Option<usize>,
    /// Number of usable cores.
    pub(super) count: usize,
}

impl Cores {
    /// Pins this process, which writes and scrapes, to one core and the programs to another.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn pin() -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let cores: Vec<usize> = (0..CpuSet::count())
            .filter(|core| allowed.is_set(*core).unwrap_or(false))
            .collect();
        // The first core often serves all interrupts: avoid it if there are enough cores.
        let (program, own) = match cores.as_slice() {
            [] => bail!("no core to run on"),
            [_] => {
                return Ok(Self {
                    program: None,
                    count: 1,
                });
            }
            [first, second] => (*first, *second),
            [.., own, program] => (*program, *own),
        };
        let mut set = CpuSet::new();
        set.set(own)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
        Ok(Self {
            program: Some(program),
            count: cores.len(),
        })
    }
}
