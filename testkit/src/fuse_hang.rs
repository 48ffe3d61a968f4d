//! A small filesystem that stops answering, answers late or fails: a program on a dead mount, a file whose read hangs or
//! takes 2 s, a device whose files all return EIO.
//!
//! While it is frozen, every call that reaches it waits in state D and survives SIGKILL until the mount is dropped or
//! thawed; [`crate::mount`] explains why. Nothing is cached, so every path lookup reaches it.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use fuser::{
    AccessFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, Request,
};

use crate::mount::{HUNG_FILE, HUNG_INO, Mount, attr, parallel_lookups};

const FIRST_FILE: u64 = 10;
const NO_CACHE: Duration = Duration::ZERO;

#[derive(Debug)]
struct Entry {
    name: String,
    bytes: Vec<u8>,
    executable: bool,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Entry>,
    all_frozen: bool,
    frozen: BTreeSet<u64>,
    /// How much longer a read of each file takes.
    slow: BTreeMap<u64, Duration>,
    /// Every call fails with EIO.
    broken: bool,
    /// Replies held back until the connection ends. A dropped reply answers EIO.
    parked: Vec<Box<dyn Any + Send>>,
    hung: Option<ReplyData>,
}

impl State {
    fn file(&self, ino: INodeNo) -> Option<&Entry> {
        self.files
            .get(usize::try_from(ino.0.checked_sub(FIRST_FILE)?).ok()?)
    }

    fn attr(&self, ino: INodeNo) -> Option<FileAttr> {
        if ino == INodeNo::ROOT {
            return Some(attr(ino, FileType::Directory, 0o755, 0));
        }
        if ino == HUNG_INO {
            return Some(attr(ino, FileType::RegularFile, 0o400, 0));
        }
        let file = self.file(ino)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        Some(attr(ino, FileType::RegularFile, mode, file.bytes.len() as u64))
    }

    fn find(&self, name: &OsStr) -> Option<INodeNo> {
        if name == HUNG_FILE {
            return Some(HUNG_INO);
        }
        let index = self.files.iter().position(|f| *name == *f.name)?;
        Some(INodeNo(FIRST_FILE + index as u64))
    }

    fn is_frozen(&self, ino: INodeNo) -> bool {
        self.all_frozen || self.frozen.contains(&ino.0)
    }
}

/// A mounted filesystem with one folder. Dropping it ends every waiting call and unmounts.
#[derive(Debug)]
pub struct FuseHang {
    mount: Mount,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FuseHang {
    /// Mounts it, empty, on `dir`, which is created if missing.
    pub fn mount(dir: impl AsRef<Path>) -> Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let mount = Mount::new(Files(Arc::clone(&state)), dir.as_ref(), "fuse-hang")?;
        let hang = Self { mount, state };
        let (is_read, release) = (
            || lock(&hang.state).hung.is_some(),
            || drop(lock(&hang.state).hung.take()),
        );
        hang.mount.teach_no_interrupts(is_read, release)?;
        Ok(hang)
    }

    /// The mount point.
    pub fn dir(&self) -> &Path {
        self.mount.dir()
    }

    /// The mount below.
    pub fn mounted(&self) -> &Mount {
        &self.mount
    }

    /// Adds or replaces a file; gives its path.
    pub fn add(&self, name: &str, bytes: impl Into<Vec<u8>>) -> PathBuf {
        self.put(Entry {
            name: name.into(),
            bytes: bytes.into(),
            executable: false,
        })
    }

    /// Adds or replaces an executable file, such as a script; gives its path.
    pub fn add_executable(&self, name: &str, bytes: impl Into<Vec<u8>>) -> PathBuf {
        self.put(Entry {
            name: name.into(),
            bytes: bytes.into(),
            executable: true,
        })
    }

    fn put(&self, entry: Entry) -> PathBuf {
        let path = self.dir().join(&entry.name);
        let mut state = lock(&self.state);
        match state.files.iter_mut().find(|f| f.name == entry.name) {
            Some(file) => *file = entry,
            None => state.files.push(entry),
        }
        path
    }

    /// From now on, no call is answered, directory listings and statfs included.
    pub fn freeze(&self) {
        lock(&self.state).all_frozen = true;
    }

    /// From now on, no call about this file is answered.
    pub fn freeze_file(&self, name: &str) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(ino) = state.find(OsStr::new(name)) else {
            bail!("no file {name}")
        };
        state.frozen.insert(ino.0);
        Ok(())
    }

    /// From now on, a read of this file takes that much longer.
    pub fn slow_file(&self, name: &str, longer: Duration) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(ino) = state.find(OsStr::new(name)) else {
            bail!("no file {name}")
        };
        state.slow.insert(ino.0, longer);
        Ok(())
    }

    /// From now on, every call fails with EIO.
    pub fn fail(&self) {
        lock(&self.state).broken = true;
    }

    /// Moves every file below a folder into this filesystem, and leaves symbolic links in their places.
    pub fn take(&self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let (path, kind) = entry.and_then(|e| Ok((e.path(), e.file_type()?)))?;
            if kind.is_dir() {
                self.take(&path)?;
            } else if kind.is_file() {
                let name = path.display().to_string().replace('/', "!");
                let file = self.add(&name, fs::read(&path)?);
                fs::remove_file(&path)?;
                symlink(file, path)?;
            }
        }
        Ok(())
    }

    /// Answers again, and in time. Calls that waited fail with EIO.
    pub fn thaw(&self) {
        let mut state = lock(&self.state);
        state.all_frozen = false;
        state.broken = false;
        state.slow.clear();
        state.frozen.clear();
        state.parked.clear();
    }

    /// Number of calls that wait for an answer. Wait for your call before you send SIGKILL: until the server has
    /// accepted a call, its task can still be killed.
    pub fn waiting(&self) -> usize {
        lock(&self.state).parked.len()
    }
}

struct Files(Arc<Mutex<State>>);

impl Files {
    /// The state, if this inode answers; otherwise the reply is held back, or EIO.
    fn enter<R: Send + 'static>(&self, ino: INodeNo, reply: R) -> Option<(MutexGuard<'_, State>, R)> {
        let mut state = lock(&self.0);
        if state.is_frozen(ino) {
            state.parked.push(Box::new(reply));
            return None;
        }
        // A dropped reply answers EIO.
        (!state.broken).then_some((state, reply))
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        parallel_lookups(config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = lock(&self.0).find(name).unwrap_or(parent);
        let Some((state, reply)) = self.enter(ino, reply) else {
            return;
        };
        match state.find(name).and_then(|ino| state.attr(ino)) {
            Some(attr) => reply.entry(&NO_CACHE, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let Some((state, reply)) = self.enter(ino, reply) else {
            return;
        };
        match state.attr(ino) {
            Some(attr) => reply.attr(&NO_CACHE, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some((state, reply)) = self.enter(ino, reply) else {
            return;
        };
        // Executables are mapped, which needs the page cache; reads of other files must reach us each time.
        let cached = state.file(ino).is_some_and(|f| f.executable);
        let flags = if cached {
            FopenFlags::empty()
        } else {
            FopenFlags::FOPEN_DIRECT_IO
        };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some((mut state, reply)) = self.enter(ino, reply) else {
            return;
        };
        if ino == HUNG_INO {
            state.hung = Some(reply);
            return;
        }
        let Some(file) = state.file(ino) else {
            return reply.error(Errno::ENOENT);
        };
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(file.bytes.len());
        let end = start.saturating_add(size as usize).min(file.bytes.len());
        let bytes = file.bytes[start..end].to_vec();
        match state.slow.get(&ino.0).copied() {
            None => reply.data(&bytes),
            // Other calls are answered meanwhile.
            Some(longer) => drop(std::thread::spawn(move || {
                std::thread::sleep(longer);
                reply.data(&bytes);
            })),
        }
    }

    // After one ENOSYS the kernel stops sending flush, so closing a file never waits.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some((_state, reply)) = self.enter(ino, reply) else {
            return;
        };
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectory) {
        let Some((state, mut reply)) = self.enter(ino, reply) else {
            return;
        };
        let files = state
            .files
            .iter()
            .map(|f| (FileType::RegularFile, f.name.as_str()));
        let dots = [".", ".."].map(|name| (FileType::Directory, name));
        for (next, (kind, name)) in (1_u64..).zip(dots.into_iter().chain(files)) {
            let ino = state.find(OsStr::new(name)).unwrap_or(INodeNo::ROOT);
            if next > offset && reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let Some((_state, reply)) = self.enter(ino, reply) else {
            return;
        };
        reply.statfs(1000, 500, 500, 100, 50, 4096, 255, 4096);
    }

    fn access(&self, _: &Request, ino: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        let Some((_state, reply)) = self.enter(ino, reply) else {
            return;
        };
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nix::sys::signal::Signal;

    use super::*;
    use crate::proc::{self, Stat};
    use crate::wait::{self, PATIENCE};

    fn mounted() -> (tempfile::TempDir, FuseHang) {
        let dir = tempfile::tempdir().unwrap();
        let hang = FuseHang::mount(dir.path().join("m")).unwrap();
        (dir, hang)
    }

    /// `calls`: number of calls that must wait first. A call that the server has not accepted ends with its task.
    fn stays_in_d(hang: &FuseHang, calls: usize, pid: u32) {
        wait::until_true("parked", PATIENCE, || hang.waiting() == calls).unwrap();
        assert_eq!(proc::wait_for_state(pid, 'D', PATIENCE).unwrap(), pid);
        proc::send(pid, Signal::SIGKILL).unwrap();
        wait::until_true("SIGKILL to be pending", PATIENCE, || {
            proc::Status::read(pid).unwrap().pending_signals().unwrap() & 1 << 8 != 0
        })
        .unwrap();
        // No event shows that a task does not die; staying in state D with a pending signal is the evidence.
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(Stat::read(pid).unwrap().state, 'D');
        }
        assert!(
            proc::wchan(pid).unwrap().contains("request_wait"),
            "{}",
            proc::wchan(pid).unwrap()
        );
    }

    #[test]
    fn serves_files_and_programs() {
        let (_dir, hang) = mounted();
        let script = hang.add_executable("scontrol", "#!/bin/sh\necho ran $1\n");
        let file = hang.add("big", vec![b'x'; 300_000]);
        let output = Command::new(&script).arg("a").output().unwrap();
        assert_eq!(output.stdout, b"ran a\n");
        assert_eq!(fs::read(&file).unwrap().len(), 300_000);
        hang.add("big", "small now");
        assert_eq!(fs::read_to_string(&file).unwrap(), "small now");
        assert_eq!(fs::read_dir(hang.dir()).unwrap().count(), 2);
        assert!(fs::read(hang.dir().join("none")).is_err());
        // Other users too.
        let mut other = Command::new(exec_as_daemon());
        let output = other
            .args(["--reuid", "1", "--regid", "1", "--clear-groups"])
            .arg(&script)
            .arg("c");
        assert_eq!(output.output().unwrap().stdout, b"ran c\n");
    }

    fn exec_as_daemon() -> PathBuf {
        crate::exec::which("setpriv").unwrap()
    }

    #[test]
    fn program_and_read_survive_sigkill_until_the_mount_goes() {
        let (dir, hang) = mounted();
        let script = hang.add_executable("scontrol", "#!/bin/sh\necho ran\n");
        let file = hang.add("plain", "text");
        hang.freeze();
        let mut reader = Command::new("/bin/cat")
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        stays_in_d(&hang, 1, reader.id());
        // A shell, because starting the program directly would block this thread.
        let starter = format!("{} & echo up; wait", script.display());
        let mut shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(starter)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let child = wait::until("fork", PATIENCE, || Ok(proc::descendants(shell.id()).pop())).unwrap();
        stays_in_d(&hang, 2, child.pid);
        let path = hang.dir().to_owned();
        drop(hang);
        reader.wait().unwrap();
        shell.wait().unwrap();
        wait::until_true("child to end", PATIENCE, || !child.alive()).unwrap();
        assert!(!file.exists() && path.exists());
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!table.contains(dir.path().to_str().unwrap()));
    }

    #[test]
    fn one_file_can_hang_and_come_back() {
        let (_dir, hang) = mounted();
        let dead = hang.add("dead", "x");
        let alive = hang.add("alive", "y");
        hang.freeze_file("dead").unwrap();
        let reader = std::thread::spawn(move || fs::read(dead));
        wait::until_true("parked", PATIENCE, || hang.waiting() == 1).unwrap();
        assert_eq!(fs::read_to_string(alive).unwrap(), "y");
        hang.thaw();
        assert_eq!(
            reader.join().unwrap().unwrap_err().raw_os_error(),
            Some(libc::EIO)
        );
        assert_eq!(fs::read_to_string(hang.dir().join("dead")).unwrap(), "x");
        assert!(hang.freeze_file("none").is_err());
    }

    #[test]
    fn one_file_can_be_slow_and_all_can_fail() {
        let (dir, hang) = mounted();
        let folder = dir.path().join("device");
        fs::create_dir_all(folder.join("counters")).unwrap();
        fs::write(folder.join("state"), "4: ACTIVE\n").unwrap();
        fs::write(folder.join("counters/errors"), "7\n").unwrap();
        hang.take(&folder).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name));
        assert_eq!(read("counters/errors").unwrap(), "7\n");
        let state = fs::read_link(folder.join("state")).unwrap();
        let name = state.file_name().unwrap().to_str().unwrap();
        hang.slow_file(name, Duration::from_millis(50)).unwrap();
        let began = std::time::Instant::now();
        assert_eq!(read("state").unwrap(), "4: ACTIVE\n");
        assert!(began.elapsed() >= Duration::from_millis(50));
        hang.fail();
        for file in ["state", "counters/errors"] {
            assert_eq!(read(file).unwrap_err().raw_os_error(), Some(libc::EIO));
        }
        hang.thaw();
        assert_eq!(read("counters/errors").unwrap(), "7\n");
    }

    #[test]
    fn an_open_file_hangs_too() {
        let (_dir, hang) = mounted();
        let path = hang.add("open", "text");
        let mut file = fs::File::open(path).unwrap();
        let mut two = [0; 2];
        std::io::Read::read_exact(&mut file, &mut two).unwrap();
        hang.freeze();
        let reader = std::thread::spawn(move || std::io::Read::read(&mut file, &mut [0; 2]));
        wait::until_true("parked", PATIENCE, || hang.waiting() == 1).unwrap();
        drop(hang);
        assert!(reader.join().unwrap().is_err());
    }
}
