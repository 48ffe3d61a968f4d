//! The resource usage of our processes, from /proc. Each process reads itself; the daemon also reads its parent's
//! public file, so that the parent need not wake up for it.

use std::path::Path;

use collectors::sys::{boot, root, task};
use model::figures::Figures;

/// The calling process. `None`: /proc has no data.
pub fn own() -> Option<Figures> {
    let mut figures = public(Path::new("/proc/self"))?;
    figures.proportional = root::read_text("/proc/self/smaps_rollup".as_ref())
        .ok()
        .flatten()
        .and_then(|text| proportional(&text));
    figures.descriptors = root::list("/proc/self/fd".as_ref())
        .ok()
        .flatten()
        // The descriptor of the listing is open too.
        .and_then(|fds| u64::try_from(fds.len()).ok()?.checked_sub(1));
    let sandbox = sys::sandbox::own();
    (figures.seccomp, figures.landlock) = (sandbox.seccomp, sandbox.landlock);
    Some(figures)
}

/// The process that started the calling one, from public files only.
pub fn parent() -> Option<Figures> {
    public(Path::new(&format!("/proc/{}", nix::unistd::getppid())))
}

/// A helper of the calling process, from public files only.
pub fn helper(pid: i32) -> Option<Figures> {
    let process = format!("/proc/{pid}");
    // As many as this process has: the parent's and an own one. Linux before 5.9 does not show the number.
    let filters = |process: &str| {
        let text = root::read_text(&Path::new(process).join("status")).ok()??;
        let line = text.lines().find_map(|l| l.strip_prefix("Seccomp_filters:"))?;
        line.trim().parse::<u32>().ok()
    };
    let both = filters(&process).zip(filters("/proc/self"));
    let own = sys::sandbox::own().seccomp;
    Some(Figures {
        seccomp: both
            .zip(own)
            .map(|((helper, worker), own)| own && helper == worker),
        ..public(Path::new(&process))?
    })
}

fn public(process: &Path) -> Option<Figures> {
    let stat = task::stat(process).ok()??;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    let used = stat.utime.checked_add(stat.stime)?;
    #[expect(clippy::cast_precision_loss, reason = "CPU time in ticks fits for ages")]
    let cpu = used as f64 / boot::ticks_per_second() as f64;
    Some(Figures {
        cpu,
        resident: stat.rss.checked_mul(u64::try_from(page).ok()?)?,
        threads: u64::try_from(stat.num_threads).ok()?,
        proportional: None,
        descriptors: None,
        seccomp: None,
        landlock: None,
    })
}

fn proportional(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim_end()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 250 150 0 0 20 0 5 0 100 1000 300 184467 1 1 0 0 0 0 0 0 0 0 0 0";

    /// Linux on our architectures: 100 clock ticks a second, pages of 4 KiB or more.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test writes its own file")]
    fn the_fields_of_a_process_are_found_behind_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(dir.path().join("stat"), text).unwrap();
            public(dir.path())
        };
        let figures = read(STAT).unwrap();
        assert_eq!(figures.cpu, 4.0);
        assert_eq!((figures.threads, figures.resident % (300 * 4096)), (5, 0));
        for text in ["", "7 (a", "7 (a) S 1", "7 (a) S x y z"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_share_of_memory_is_read_by_its_whole_key() {
        assert_eq!(
            proportional("Rss: 9 kB\nPss:   3 kB\nPss_Dirty: 1 kB\n"),
            Some(3072)
        );
        assert_eq!(proportional("Pss_Dirty: 1 kB\n"), None);
    }

    #[test]
    fn this_process_knows_all_of_itself_and_less_of_its_parent() {
        let own = own().unwrap();
        assert!(own.resident > 0 && own.threads > 0 && own.descriptors.unwrap() > 2);
        // Other tests of this program allocate meanwhile, so it may exceed the earlier resident size.
        assert!(own.proportional.unwrap() > 0);
        assert_eq!(parent().unwrap().descriptors, None);
    }
}
