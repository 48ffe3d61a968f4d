//! Processes that have a device file open or mapped, which prevents a reset or unload of the driver.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use collectors::sys::root;

/// Limit of bytes read from one process's map.
const MAX_MAPS: u64 = 16 << 20;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: i32,
    /// Its name, as ps(1) shows it.
    pub name: String,
    /// The device files.
    pub files: BTreeSet<PathBuf>,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Processes that hold a device, by pid.
    pub found: Vec<Holder>,
    /// Number of processes that could not be read: those of other users, if the caller is not root.
    pub hidden: usize,
    /// Why the search is incomplete; empty if it is complete.
    pub unfinished: String,
}

enum ProcessLook {
    Found(Holder),
    Hidden,
    Failed(std::io::Error),
}

/// Searches the processes of `proc` for open files with one of these prefixes, with a time-out: a process that is
/// stuck in a driver may block readers of its memory map.
pub fn of(proc: &Path, prefixes: &'static [&'static str], patience: Duration) -> Holders {
    let (to, looks) = channel();
    let proc = proc.to_owned();
    let started = thread::Builder::new()
        .name("holders".to_owned())
        .spawn(move || look(&proc, prefixes, &to));
    let mut holders = Holders::default();
    if let Err(e) = started {
        holders.unfinished = e.to_string();
    }
    let until = Instant::now() + patience;
    loop {
        match looks.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(ProcessLook::Found(holder)) => match holders.found.iter_mut().find(|h| h.pid == holder.pid) {
                Some(known) => known.files.extend(holder.files),
                None => holders.found.push(holder),
            },
            Ok(ProcessLook::Hidden) => holders.hidden += 1,
            Ok(ProcessLook::Failed(e)) => holders.unfinished = e.to_string(),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                holders.unfinished = format!("no answer within {} s", patience.as_secs());
                break;
            }
        }
    }
    holders.found.sort_by_key(|h| h.pid);
    holders
}

fn look(proc: &Path, prefixes: &[&str], to: &Sender<ProcessLook>) {
    // Sending fails if the caller has given up.
    let send = |look| crate::ignore(to.send(look));
    let is_one = |path: &Path| {
        path.to_str()
            .is_some_and(|p| prefixes.iter().any(|prefix| p.starts_with(prefix)))
    };
    let entries = match fs::read_dir(proc) {
        Ok(entries) => entries,
        Err(e) => return send(ProcessLook::Failed(e)),
    };
    let pid = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok());
    let processes: Vec<(i32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((pid(&entry)?, entry.path())))
        .collect();
    let found = |pid, process: &Path, files: BTreeSet<PathBuf>| {
        if !files.is_empty() {
            let name = name(process);
            send(ProcessLook::Found(Holder { pid, name, files }));
        }
    };
    for (pid, process) in &processes {
        match open(process) {
            Ok(files) => found(*pid, process, files.into_iter().filter(|f| is_one(f)).collect()),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => send(ProcessLook::Hidden),
            // An ended process holds nothing.
            Err(_) => {}
        }
    }
    // A mapping holds the device even if its descriptor is closed. Last, because reading it may block.
    for (pid, process) in &processes {
        let mapped = mapped(process).into_iter().filter(|f| is_one(f)).collect();
        found(*pid, process, mapped);
    }
}

/// Open files of a process; of another thread if the first one has ended.
fn open(process: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let of = |folder: &Path| -> std::io::Result<BTreeSet<PathBuf>> {
        let entries = fs::read_dir(folder.join("fd"))?.flatten();
        // A descriptor may be closed after it was listed.
        Ok(entries.filter_map(|e| fs::read_link(e.path()).ok()).collect())
    };
    let files = of(process)?;
    if !files.is_empty() {
        return Ok(files);
    }
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    Ok(threads.filter_map(|t| of(&t.path()).ok()).flatten().collect())
}

/// Mapped files: in proc_pid_maps(5) the path is the last column and begins with a slash.
fn mapped(process: &Path) -> BTreeSet<PathBuf> {
    let Ok(Some(maps)) = root::read_bytes(&process.join("maps"), MAX_MAPS) else {
        return BTreeSet::new();
    };
    let maps = String::from_utf8_lossy(&maps);
    let paths = maps
        .lines()
        .filter_map(|l| l.find('/').and_then(|at| l.get(at..)));
    paths.map(PathBuf::from).collect()
}

fn name(process: &Path) -> String {
    root::read_lossy(&process.join("comm"))
        .ok()
        .flatten()
        .unwrap_or_else(|| "?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_process_holds_what_it_has_open_and_nothing_else() {
        // No other test opens this file.
        let look = || of(Path::new("/proc"), &["/dev/full"], LONG);
        let me = i32::try_from(std::process::id()).unwrap();
        let mine = |holders: &Holders| holders.found.iter().find(|h| h.pid == me).cloned();
        let open = [
            fs::File::open("/dev/full").unwrap(),
            fs::File::open("/dev/zero").unwrap(),
        ];
        let holder = mine(&look()).unwrap();
        assert_eq!(holder.files, BTreeSet::from(["/dev/full".into()]));
        assert!(!holder.name.is_empty());
        drop(open);
        let holders = look();
        assert_eq!((mine(&holders), holders.unfinished.as_str()), (None, ""));
    }

    #[test]
    fn a_mapping_holds_and_so_does_a_thread_whose_first_one_has_ended() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: &str| {
            let path = proc.path().join(pid);
            fs::create_dir_all(path.join("fd")).unwrap();
            path
        };
        let maps = "7f00-7f01 rw-s 00000000 00:05 9 /dev/nvidiactl\n7f02-7f03 r--p 0 00:00 0 [vdso]\n";
        fs::write(process("17").join("maps"), maps).unwrap();
        // A program may call itself anything.
        fs::write(process("17").join("comm"), b"python\xff\n").unwrap();
        let task = process("18").join("task/19/fd");
        fs::create_dir_all(&task).unwrap();
        std::os::unix::fs::symlink("/dev/nvidia0", task.join("7")).unwrap();
        process("9");
        fs::write(proc.path().join("meminfo"), "").unwrap();
        let holders = of(proc.path(), &["/dev/nvidia"], LONG);
        let found: Vec<_> = holders.found.iter().map(|h| (h.pid, h.name.as_str())).collect();
        assert_eq!(found, [(17, "python\u{fffd}"), (18, "?")]);
        assert_eq!(holders.found[0].files, BTreeSet::from(["/dev/nvidiactl".into()]));
        assert_eq!((holders.hidden, holders.unfinished.as_str()), (0, ""));
    }

    #[test]
    fn what_cannot_be_looked_at_is_said() {
        let proc = tempfile::tempdir().unwrap();
        let gone = of(&proc.path().join("gone"), &["/dev/nvidia"], LONG);
        assert!(gone.unfinished.contains("No such file"), "{}", gone.unfinished);
    }
}
