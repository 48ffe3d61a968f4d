//! State, wait channel and system call of a thread: what a blocked call is waiting for.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use nix::libc;
use procfs_core::FromRead;
use procfs_core::process::Stat;
use serde::{Deserialize, Serialize};

use super::boot;
use super::environ;
use super::helper::{self, Client, Question, ThreadFile};
use super::patience::OneAway;
use super::root;
use super::statfs::is_procfs;
use crate::{Env, Error, domain};

/// One thread as `/proc/PID/task/TID` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Thread id.
    pub tid: i32,
    /// The thread's name (`comm`).
    pub name: String,
    /// The state letter of `/proc/PID/task/TID/status`: R, S, D, ...
    pub state: char,
    /// The wait channel (`wchan`), empty where the kernel shows none.
    pub wchan: String,
    /// The system call that it is in and the file that this is about, such as `read /sys/class/net/eth0/speed`. Empty
    /// where it is in none, or the kernel does not show it (`/proc/PID/task/TID/syscall`).
    pub call: String,
}

/// Whether a thread of this state sleeps where no signal wakes it: D, and I (TASK_IDLE), in which Lustre's client waits. Linux
/// shows I since 4.14 (include/linux/sched.h, `task_state_index()`).
pub fn is_uninterruptible(state: char) -> bool {
    matches!(state, 'D' | 'I')
}

/// What one of our threads does. `None`: it has ended.
pub fn read(tid: i32) -> Option<Task> {
    let tid = u32::try_from(tid).ok()?;
    let thread = Thread {
        folder: format!("/proc/self/task/{tid}").into(),
        ids: (std::process::id(), tid),
        helper: None,
    };
    Some(Task {
        call: thread.call().map(|call| thread.text(call)).unwrap_or_default(),
        ..thread.state().ok()??
    })
}

/// What the first thread of a process does, but for its call. `None`: it has ended.
pub fn first_thread(pid: i32) -> Option<Task> {
    let pid = u32::try_from(pid).ok()?;
    Thread::at(&Env::default(), pid, pid).state().ok()?
}

/// What the first thread of a living process of a group does, but for its call. `None`: all have ended, or are zombies. Members
/// that began after `by` (time since boot) do not count: another group may have got the same number.
///
/// # Errors
/// When /proc cannot be listed.
pub fn of_group(group: i32, by: Duration) -> Result<Option<Task>, Error> {
    let env = Env::default();
    let names = root::list(&env.path("/proc"))?.unwrap_or_default();
    let mut pids = names.iter().filter_map(|name| name.parse().ok());
    // The kernel rounds the start down to a tick.
    let by = by
        .as_secs()
        .saturating_add(1)
        .saturating_mul(boot::ticks_per_second());
    // One that ends between the reads hides no other one.
    let member = |pid: u32| {
        let first = Thread::at(&env, pid, pid);
        // Threads may outlive the first one, which is a zombie then.
        let is_alive = |status: &Status| !matches!(status.state, 'Z' | 'X') || status.threads > 1;
        let status = status(&env.path(&format!("/proc/{pid}"))).ok()??;
        let is_member = status.group == Some(group) && is_alive(&status);
        // A start that is not known in time is that of a process which begins a program: of a member.
        let is_early = || first.start().is_none_or(|start| start <= by);
        (is_member && is_early()).then(|| first.state().ok()?)?
    };
    Ok(pids.find_map(member))
}

/// A thread of any process. Its wait channel, call and files are shown only to a process that may trace it
/// (CAP_SYS_PTRACE): to a helper, if this process has one.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    folder: PathBuf,
    ids: (u32, u32),
    helper: Option<&'static Client>,
}

impl Thread {
    /// The thread `tid` of the process `pid`.
    pub(crate) fn at(env: &Env, pid: u32, tid: u32) -> Self {
        // A helper reads the real /proc.
        let is_real = |_: &&Client| root::resolve(&env.path("/proc")).is_ok_and(|p| p == Path::new("/proc"));
        Self {
            folder: env.path(&format!("/proc/{pid}/task/{tid}")),
            ids: (pid, tid),
            helper: helper::of(&domain::PROC).filter(is_real),
        }
    }

    /// `/proc/PID/task/TID`
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Process and thread.
    pub(crate) fn ids(&self) -> (u32, u32) {
        self.ids
    }

    /// What it does, but for its call. `Ok(None)`: it has ended.
    ///
    /// # Errors
    /// Like [`status`].
    pub(crate) fn state(&self) -> Result<Option<Task>, Error> {
        let Some(status) = status(&self.folder)? else {
            return Ok(None);
        };
        let wchan = self
            .locked(|thread| thread.read(ThreadFile::Wchan))
            .unwrap_or_default();
        let wchan = if wchan == "0" { String::new() } else { wchan };
        let task = |tid| Task {
            tid,
            name: status.name,
            state: status.state,
            wchan,
            call: String::new(),
        };
        Ok(i32::try_from(self.ids.1).ok().map(task))
    }

    /// Its start, in clock ticks since boot. `None`: it has ended, or a lock of its process is held.
    pub(crate) fn start(&self) -> Option<u64> {
        self.locked(|thread| Some(stat(&thread.folder).ok()??.starttime))
    }

    /// A file for which newer kernels take a lock that a process holds while it begins a program, and may hold for ever
    /// (`exec_update_lock`; stat and wchan since Linux 6.18.44). A separate thread asks the kernel about other processes.
    fn locked<T: Send + 'static>(&self, read: impl FnOnce(&Self) -> Option<T> + Send + 'static) -> Option<T> {
        static ASKER: LazyLock<OneAway> = LazyLock::new(OneAway::default);
        if self.ids.0 == std::process::id() || !is_procfs(&self.folder) {
            return read(self);
        }
        let thread = self.clone();
        ASKER.ask(move || read(&thread)).flatten()
    }

    /// The call that it is in, where it may wait for a driver or a filesystem. Reading takes a lock that a process holds
    /// while it begins a program (`exec_update_lock`), and may hold for ever.
    pub(crate) fn call(&self) -> Option<SystemCall> {
        parse_call(&self.read(ThreadFile::Syscall)?)
    }

    /// `read /sys/class/net/eth0/speed`
    pub(crate) fn text(&self, call: SystemCall) -> String {
        let link = |n| self.read(ThreadFile::Descriptor(u32::try_from(n).ok()?));
        match call.descriptor.and_then(link) {
            Some(file) => format!("{} {file}", call.name),
            None => call.name.to_owned(),
        }
    }

    /// `fdinfo/N`
    pub(crate) fn descriptor_info(&self, descriptor: u64) -> Option<String> {
        self.read(ThreadFile::DescriptorInfo(u32::try_from(descriptor).ok()?))
    }

    /// The number of shards in the environment of its process. Takes a lock of the process, which may hold it for ever.
    pub(crate) fn shards(&self) -> Option<u32> {
        self.read(ThreadFile::Shards)?.parse().ok()
    }

    fn read(&self, file: ThreadFile) -> Option<String> {
        if let Some(helper) = self.helper {
            let (pid, tid) = self.ids;
            let bytes = helper.ask(Question::Thread { pid, tid, file }, None).ok()?;
            return Some(String::from_utf8_lossy(&bytes).trim_end().to_owned());
        }
        let read = |name: &str| root::read_lossy(&self.folder.join(name)).ok().flatten();
        match file {
            ThreadFile::Wchan => read("wchan"),
            ThreadFile::Syscall => read("syscall"),
            ThreadFile::Descriptor(n) => root::link_text(&self.folder.join(format!("fd/{n}"))).ok()?,
            ThreadFile::DescriptorInfo(n) => read(&format!("fdinfo/{n}")),
            ThreadFile::Shards => {
                let shards = environ::shards(&self.folder.join("environ"));
                shards.ok().flatten().map(|n| n.to_string())
            }
        }
    }
}

/// What `status` of a process or of a thread shows (proc_pid_status(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `Name`.
    pub name: String,
    /// The letter of `State`.
    pub state: char,
    /// The process group as this process numbers it: the first number of `NSpgid`. `None`: a kernel without namespaces.
    pub group: Option<i32>,
    /// `Threads` of the process.
    pub threads: u32,
    /// Context switches of both kinds. `None`: a kernel without CONFIG_SCHED_INFO.
    pub switches: Option<u64>,
    /// Whether SIGKILL is pending for the thread or its process.
    pub is_killed: bool,
    /// Whether a core dump of the process is being written: `CoreDumping`, since Linux 4.15.
    pub is_dumping: bool,
}

/// `status` in the folder of a process or of a thread: unlike `stat`, no lock of the process delays it. `Ok(None)`: it has
/// ended, or `hidepid=2` hides it.
///
/// # Errors
/// When it cannot be read, as where `hidepid=1` hides it, or holds something else.
pub fn status(base: &Path) -> Result<Option<Status>, Error> {
    let path = base.join("status");
    let Some(text) = root::read_lossy(&path)? else {
        return Ok(None);
    };
    let error = || Error::parse(path.display().to_string(), &text, "fields of /proc/PID/status");
    parse_status(&text).ok_or_else(error).map(Some)
}

fn parse_status(text: &str) -> Option<Status> {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| (key == name).then(|| value.trim()))
    };
    let count = |name| field(name)?.parse::<u64>().ok();
    let switches = || count("voluntary_ctxt_switches")?.checked_add(count("nonvoluntary_ctxt_switches")?);
    let is_pending = |name| {
        let mask = field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.is_some_and(|mask| mask & (1 << (libc::SIGKILL - 1)) != 0)
    };
    Some(Status {
        name: field("Name")?.to_owned(),
        state: field("State")?.chars().next()?,
        group: field("NSpgid").and_then(|groups| groups.split_whitespace().next()?.parse().ok()),
        threads: field("Threads").and_then(|n| n.parse().ok()).unwrap_or(1),
        switches: switches(),
        is_killed: is_pending("SigPnd") || is_pending("ShdPnd"),
        is_dumping: field("CoreDumping") == Some("1"),
    })
}

/// `stat` in the folder of a process or of a thread. `Ok(None)`: it has ended, or `hidepid=2` hides it. Newer kernels wait for a
/// process that begins a program ([`Thread::start`]).
///
/// # Errors
/// When it cannot be read, as where `hidepid=1` hides it, or holds something else.
pub fn stat(base: &Path) -> Result<Option<Stat>, Error> {
    let path = base.join("stat");
    let Some(text) = root::read_lossy(&path)? else {
        return Ok(None);
    };
    let stat = parse_stat(&text);
    let error = || Error::parse(path.display().to_string(), &text, "a line of /proc/PID/stat");
    stat.ok_or_else(error).map(Some)
}

/// procfs-core panics where a text ends within the name or behind it.
fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, _) = text.split_once('(')?;
    let (head, rest) = text.rsplit_once(')')?;
    let is_whole = pid.ends_with(' ') && head.len() > pid.len() && rest.starts_with(' ');
    is_whole.then(|| Stat::from_read(text.as_bytes()).ok())?
}

/// The calls that wait for a driver, and what they are about.
const CALLS: [(libc::c_long, &str, Argument); 20] = [
    (libc::SYS_read, "read", Argument::File),
    (libc::SYS_pread64, "read", Argument::File),
    (libc::SYS_readv, "read", Argument::File),
    (libc::SYS_preadv, "read", Argument::File),
    (libc::SYS_write, "write", Argument::File),
    (libc::SYS_pwrite64, "write", Argument::File),
    (libc::SYS_writev, "write", Argument::File),
    (libc::SYS_pwritev, "write", Argument::File),
    (libc::SYS_fsync, "fsync", Argument::File),
    (libc::SYS_fdatasync, "fsync", Argument::File),
    (libc::SYS_getdents64, "list", Argument::File),
    (libc::SYS_ioctl, "ioctl", Argument::File),
    (libc::SYS_fstat, "stat", Argument::File),
    (libc::SYS_close, "close", Argument::File),
    (libc::SYS_sendto, "send", Argument::File),
    (libc::SYS_recvfrom, "receive", Argument::File),
    (libc::SYS_openat, "open", Argument::Path),
    (libc::SYS_readlinkat, "readlink", Argument::Path),
    (libc::SYS_newfstatat, "stat", Argument::PathOrFile(3)),
    (libc::SYS_statx, "stat", Argument::PathOrFile(2)),
];

/// What the first argument of a call is.
#[derive(Clone, Copy)]
enum Argument {
    /// A descriptor.
    File,
    /// Not the file itself: its path lies in memory.
    Path,
    /// A descriptor where AT_EMPTY_PATH is among the flags, which are the argument of this number, and a path otherwise.
    PathOrFile(usize),
}

/// A system call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// What it is called here: `read`.
    pub name: &'static str,
    /// The descriptor that it is about.
    pub descriptor: Option<u64>,
}

/// Reads `0 0x5 0x7ffe...`: the number of the call and its arguments. A thread that runs, or waits for a page of memory,
/// is in none.
fn parse_call(text: &str) -> Option<SystemCall> {
    let mut words = text.split(' ');
    let number: libc::c_long = words.next()?.parse().ok()?;
    let (_, name, about) = CALLS.iter().find(|(known, ..)| *known == number)?;
    let argument = |n: usize| u64::from_str_radix(words.clone().nth(n)?.strip_prefix("0x")?, 16).ok();
    let descriptor = match about {
        Argument::File => Some(argument(0)?),
        Argument::Path => None,
        Argument::PathOrFile(flags) => {
            let is_file = argument(*flags)? & u64::from(libc::AT_EMPTY_PATH.unsigned_abs()) != 0;
            is_file.then(|| argument(0)).flatten()
        }
    };
    Some(SystemCall { name, descriptor })
}

/// The calling thread's id.
pub fn own_tid() -> i32 {
    nix::unistd::gettid().as_raw()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_state() {
        let stat = parse_stat(&format!("12 (a) b) D 1 2 {}", "0 ".repeat(40))).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state), ("a) b", 'D'));
        for text in [
            "",
            "12 (a",
            "12 (a)",
            "12 (a) ",
            "12 (a) S 1",
            "(a) S",
            ") (",
            "12 (a)ä",
        ] {
            assert!(parse_stat(text.trim()).is_none(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "[0-9() aä-]{0,40}") {
            parse_stat(text.trim());
        }
    }

    #[test]
    fn state_group_switches_and_a_pending_kill_are_read_from_status() {
        let status = |thread: &str, process: &str| {
            format!(
                "Name:\ta: b\nState:\tD (disk sleep)\nNSpgid:\t70\t1\nThreads:\t3\nSigPnd:\t{thread}\nShdPnd:\t{process}\n\
                 voluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2"
            )
        };
        let (none, kill, term) = ("0000000000000000", "0000000000000100", "0000000000004000");
        for (thread, process, is_killed) in [
            (none, none, false),
            (kill, none, true),
            (term, kill, true),
            (term, term, false),
        ] {
            let expected = Status {
                name: "a: b".to_owned(),
                state: 'D',
                group: Some(70),
                threads: 3,
                switches: Some(42),
                is_killed,
                is_dumping: false,
            };
            assert_eq!(parse_status(&status(thread, process)), Some(expected));
        }
        for (number, is_dumping) in [("0", false), ("1", true)] {
            let text = format!("{}\nCoreDumping:\t{number}\n", status(none, none));
            assert_eq!(parse_status(&text).map(|s| s.is_dumping), Some(is_dumping));
        }
        // Without CONFIG_SCHED_INFO and namespaces.
        let least = parse_status("Name:\ta\nState:\tZ (zombie)\n").unwrap();
        assert_eq!((least.group, least.threads, least.switches), (None, 1, None));
        for text in ["", "Name:\ta\n", "Name:\ta\nState:\n", "State"] {
            assert_eq!(parse_status(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_call_is_told_with_its_file_where_its_first_argument_is_one() {
        let read = format!("{} 0x5 0x7ffe 0x1000 0x0 0x0 0x0 0x7ffd 0x7f1", libc::SYS_read);
        let call = |name, descriptor| Some(SystemCall { name, descriptor });
        assert_eq!(parse_call(&read), call("read", Some(5)));
        let open = format!(
            "{} 0xffffff9c 0x7ffe 0x0 0x0 0x0 0x0 0x7ffd 0x7f1",
            libc::SYS_openat
        );
        assert_eq!(parse_call(&open), call("open", None));
        // What fstat(3) is in the C library since 2.33.
        let stat = |fd: &str, flags: &str| {
            format!(
                "{} {fd} 0x7ffe 0x7ffd {flags} 0x0 0x0 0x7ffd 0x7f1",
                libc::SYS_newfstatat
            )
        };
        assert_eq!(parse_call(&stat("0x5", "0x1000")), call("stat", Some(5)));
        assert_eq!(parse_call(&stat("0xffffff9c", "0x0")), call("stat", None));
        let futex = format!("{} 0x7ffe 0x0", libc::SYS_futex);
        let garbled = format!("{} five", libc::SYS_read);
        for none in ["running", "-1 0x7ffe 0x7f1", "", &futex, &garbled] {
            assert_eq!(parse_call(none), None, "{none}");
        }
    }

    /// x86_64 before Linux 5.16: `wchan` of every thread is 0, and `syscall` is right (seen on 5.10.0-46).
    #[test]
    #[allow(clippy::disallowed_methods, reason = "it builds the tree that it reads")]
    fn a_thread_whose_wait_channel_the_kernel_does_not_know_has_none_and_shows_its_call() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::with_sysroot(dir.path());
        let folder = dir.path().join("proc/90/task/91");
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        let status = "Name:\tnvidia:read\nState:\tD (disk sleep)\n";
        let call = format!(
            "{} 0x5 0xc020462a 0x7f3d8a1fe8c0 0x0 0x0 0x0 0x7f3d8a1fe850 0x7f3d8b5c0c5b\n",
            libc::SYS_ioctl
        );
        for (name, text) in [("status", status), ("wchan", "0"), ("syscall", &call)] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("/dev/nvidiactl", folder.join("fd/5")).unwrap();
        let thread = Thread::at(&env, 90, 91);
        let task = thread.state().unwrap().unwrap();
        assert_eq!((task.state, task.wchan.as_str()), ('D', ""));
        assert_eq!(thread.text(thread.call().unwrap()), "ioctl /dev/nvidiactl");
    }

    #[test]
    fn the_calling_thread_is_running_and_reads_its_own_state() {
        let task = read(own_tid()).unwrap();
        assert_eq!(task.state, 'R');
    }

    #[test]
    fn a_thread_that_waits_for_a_file_shows_which() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            tell.send(own_tid()).unwrap();
            std::io::Read::read(&mut &reader, &mut [0]).unwrap()
        });
        let tid = told.recv().unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let mut call = String::new();
        while !call.starts_with("read pipe:[") && std::time::Instant::now() < until {
            call = read(tid).unwrap().call;
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(call.starts_with("read pipe:["), "{call:?}");
        drop(writer);
        assert_eq!(waits.join().unwrap(), 0);
    }
}
