//! Which processes have a device file open or mapped. Such a process keeps a driver from being reset or unloaded.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use collectors::sys::root;

/// The most of one process's map that is read, in bytes.
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

/// What a look at all processes gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Those that hold one, by number.
    pub found: Vec<Holder>,
    /// How many could not be looked at: those of other users, for a caller who is not root.
    pub hidden: usize,
}

/// Looks at every process of `proc` for files whose path begins with one of these.
///
/// # Errors
/// When the folder itself cannot be read.
pub fn of(proc: &Path, prefixes: &[&str]) -> std::io::Result<Holders> {
    let mut holders = Holders::default();
    for entry in fs::read_dir(proc)? {
        // One that has ended meanwhile holds nothing.
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let process = entry.path();
        match files(&process, prefixes) {
            Ok(files) if files.is_empty() => {}
            Ok(files) => holders.found.push(Holder {
                pid,
                name: name(&process),
                files,
            }),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => holders.hidden += 1,
            Err(_) => {}
        }
    }
    holders.found.sort_by_key(|h| h.pid);
    Ok(holders)
}

fn files(process: &Path, prefixes: &[&str]) -> std::io::Result<BTreeSet<PathBuf>> {
    let is_one = |path: &Path| {
        path.to_str()
            .is_some_and(|p| prefixes.iter().any(|x| p.starts_with(x)))
    };
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(process.join("fd"))? {
        let Ok(entry) = entry else { continue };
        // A descriptor may be closed between the list and the look.
        if let Ok(path) = fs::read_link(entry.path())
            && is_one(&path)
        {
            files.insert(path);
        }
    }
    // A mapping holds the device when its descriptor is closed.
    if let Ok(Some(maps)) = root::read_bytes(&process.join("maps"), MAX_MAPS) {
        let maps = String::from_utf8_lossy(&maps);
        // Columns as in proc_pid_maps(5): the path is the sixth and begins with a slash.
        let mapped = maps
            .lines()
            .filter_map(|l| l.find('/').and_then(|at| l.get(at..)));
        files.extend(mapped.map(PathBuf::from).filter(|p| is_one(p)));
    }
    Ok(files)
}

fn name(process: &Path) -> String {
    root::read_text(&process.join("comm"))
        .ok()
        .flatten()
        .unwrap_or_else(|| "?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_what_it_has_open_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (device, other) = (dir.path().join("gpu0"), dir.path().join("other"));
        for path in [&device, &other] {
            fs::write(path, "").unwrap();
        }
        let open = [fs::File::open(&device).unwrap(), fs::File::open(&other).unwrap()];
        let prefix = dir.path().join("gpu");
        let look = || of(Path::new("/proc"), &[prefix.to_str().unwrap()]).unwrap().found;
        let me = i32::try_from(std::process::id()).unwrap();
        let mine = look().into_iter().find(|h| h.pid == me).unwrap();
        assert_eq!(mine.files, BTreeSet::from([device]));
        assert!(!mine.name.is_empty());
        drop(open);
        assert!(!look().iter().any(|h| h.pid == me));
    }

    #[test]
    fn a_mapping_holds_and_a_process_of_somebody_else_is_counted() {
        let proc = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = proc.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let maps = "7f00-7f01 rw-s 00000000 00:05 9 /dev/nvidiactl\n7f02-7f03 r--p 0 00:00 0 [vdso]\n";
        write("17/maps", maps);
        write("17/comm", "python3\n");
        fs::create_dir(proc.path().join("17/fd")).unwrap();
        write("9/maps", "");
        fs::create_dir(proc.path().join("9/fd")).unwrap();
        write("meminfo", "");
        let holders = of(proc.path(), &["/dev/nvidia"]).unwrap();
        let [holder] = holders.found.as_slice() else {
            panic!("{holders:?}")
        };
        assert_eq!((holder.pid, holder.name.as_str()), (17, "python3"));
        assert_eq!(holder.files, BTreeSet::from(["/dev/nvidiactl".into()]));
        assert_eq!(holders.hidden, 0);
    }
}
