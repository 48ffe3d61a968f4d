//! Small files that stay open and are read again from their start: one pread for each value, no open, no
//! allocation. Opening and closing a sysfs file costs several times as much as reading it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::uio;
use nix::unistd::{SysconfVar, sysconf};

use super::errno;
use super::inotify::TreeWatch;

/// Descriptors reserved for other users in the process.
const RESERVED: u64 = 128;
/// The most memory of the kernel for the texts of files that stay open, in bytes: one page for each, of 4 or 64 KiB.
const BUFFERS: u64 = 64 << 20;
/// Maximum number of retries of an interrupted read.
const INTERRUPTS: u32 = 8;

/// The number of descriptors that may stay open. Ten adapters of 70 files need 700, which the usual limit of 1024
/// allows. Each holds a page of kernel memory for its text.
#[derive(Debug)]
pub struct DescriptorBudget {
    left: AtomicU64,
    /// Incremented when open files may have been replaced.
    epoch: AtomicU32,
    /// Reports open files of a tree that were removed or replaced.
    watch: Option<TreeWatch>,
}

impl DescriptorBudget {
    /// A budget of this number of descriptors.
    pub fn new(descriptors: u64) -> Arc<Self> {
        Self::with(descriptors, None)
    }

    fn with(descriptors: u64, watch: Option<TreeWatch>) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicU64::new(descriptors),
            epoch: AtomicU32::new(0),
            watch,
        })
    }

    /// RLIMIT_NOFILE of this process, minus a reserve.
    pub fn of_process() -> Arc<Self> {
        Self::new(Self::unreserved())
    }

    /// As [`Self::of_process`], for many files of a tree on a local disk: their owner calls [`Self::look`] before each reading. Without
    /// inotify, each of them is checked at each reading.
    pub fn of_tree() -> Arc<Self> {
        let watch = TreeWatch::new().inspect_err(|error| {
            tracing::info!(%error, "each file of the tree is checked at each reading");
        });
        Self::with(Self::unreserved(), watch.ok())
    }

    fn unreserved() -> u64 {
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(RESERVED, |(soft, _)| soft);
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        kept_open(soft, page.and_then(|page| page.try_into().ok()).unwrap_or(4096))
    }

    /// Whether files of a tree were added, removed or replaced since the last call. Then all are reopened at their next reading.
    pub fn look(&self) -> bool {
        let changed = self.watch.as_ref().is_some_and(TreeWatch::take);
        if changed {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        changed
    }

    /// The permit for one more; `None`: the budget is used up.
    pub fn take(self: &Arc<Self>) -> Option<Permit> {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .ok()
            .map(|_| Permit(Arc::clone(self)))
    }
}

/// How many files stay open with this limit of descriptors and pages of this size.
fn kept_open(descriptors: u64, page: u64) -> u64 {
    descriptors.saturating_sub(RESERVED).min(BUFFERS / page.max(1))
}

/// The permit to keep one descriptor open.
#[derive(Debug)]
pub struct Permit(Arc<DescriptorBudget>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// One file, by its path. It is opened at the first reading. Small: a reading touches 700 of them, which have left the processor's
/// caches since the last one.
#[derive(Debug)]
pub struct Kept {
    open: Option<Opened>,
    place: Box<Place>,
    /// The file is on a disk: a removed or replaced file stays readable through its descriptor. In sysfs, the
    /// descriptor of a removed device returns ENODEV.
    on_disk: bool,
}

/// What only opening needs.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    budget: Arc<DescriptorBudget>,
}

#[derive(Debug)]
struct Opened {
    file: File,
    /// That of the budget before it was opened.
    epoch: u32,
    permit: Permit,
}

impl Kept {
    /// A file that may stay open as long as the budget allows. `on_disk`: a tree in place of sysfs.
    pub fn new(path: PathBuf, budget: &Arc<DescriptorBudget>, on_disk: bool) -> Self {
        Self {
            open: None,
            place: Box::new(Place {
                path,
                budget: Arc::clone(budget),
            }),
            on_disk,
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Reads from the start, as much as fits into `buffer`. If its descriptor is dead, the file is reopened once by
    /// its path.
    ///
    /// # Errors
    /// The errors of open(2) or pread(2): ENOENT or ENODEV if it is gone.
    #[inline]
    pub fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let count = match self.read_kept(buffer) {
            Some(count) => count?,
            None => self.reopen(buffer)?,
        };
        Ok(buffer.get(..count).unwrap_or_default())
    }

    /// Reads the open descriptor. `None`: none is open, or it is dead.
    #[inline]
    fn read_kept(&mut self, buffer: &mut [u8]) -> Option<Result<usize, Errno>> {
        let Opened { file, epoch, permit } = self.open.as_ref()?;
        let unwatched = self.on_disk && permit.0.watch.is_none();
        let removed = || unwatched && file.metadata().map_or(true, |m| m.nlink() == 0);
        let result = if *epoch != permit.0.epoch.load(Ordering::Relaxed) || removed() {
            Err(Errno::ENODEV)
        } else {
            pread(file, buffer)
        };
        if result.is_err_and(is_dead) {
            self.open = None;
            return None;
        }
        Some(result)
    }

    #[cold]
    fn reopen(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        count::open();
        let Place { path, budget } = &*self.place;
        let epoch = budget.epoch.load(Ordering::Relaxed);
        let watch = budget.watch.as_ref().filter(|_| self.on_disk);
        // Before it is opened: afterwards, another file may have its name.
        let permit = budget.take().filter(|_| {
            let watches = |watch: &TreeWatch| path.parent().is_some_and(|folder| watch.watch(folder));
            watch.is_none_or(watches)
        });
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(errno)?;
        let result = pread(&file, buffer);
        if !result.is_err_and(is_dead) {
            self.open = permit.map(|permit| Opened { file, epoch, permit });
        }
        result
    }
}

/// Whether what the file was about is gone. ESRCH: a process, in /proc. ENOTCONN, ECONNABORTED: the server of a FUSE file system, as
/// lxcfs below /proc; another may run by now.
fn is_dead(error: Errno) -> bool {
    matches!(
        error,
        Errno::ENODEV | Errno::ESTALE | Errno::ENOENT | Errno::ESRCH | Errno::ENOTCONN | Errno::ECONNABORTED
    )
}

#[inline]
fn pread(file: &File, buffer: &mut [u8]) -> Result<usize, Errno> {
    for _ in 0..INTERRUPTS {
        count::read();
        match uio::pread(file, buffer, 0) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
    Err(Errno::EINTR)
}

#[cfg(not(test))]
pub(super) mod count {
    pub(in crate::sys) const fn open() {}
    pub(in crate::sys) const fn read() {}
}

/// Counts calls of this thread, for tests.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        static OPENS: Cell<usize> = const { Cell::new(0) };
        static READS: Cell<usize> = const { Cell::new(0) };
    }

    pub(in crate::sys) fn open() {
        OPENS.set(OPENS.get() + 1);
    }

    pub(in crate::sys) fn read() {
        READS.set(READS.get() + 1);
    }

    /// Opens and reads since the last call.
    pub(crate) fn take() -> (usize, usize) {
        (OPENS.take(), READS.take())
    }
}

#[cfg(test)]
mod tests;
