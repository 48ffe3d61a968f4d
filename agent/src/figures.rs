//! What one of our processes costs, as /proc tells. Each process reads itself; the daemon also reads its parent's public
//! file, so that the parent need not wake for it.

use collectors::sys::root;
use model::figures::Figures;

/// The calling process. `None`: /proc does not tell.
pub fn own() -> Option<Figures> {
    let mut figures = public("self")?;
    figures.proportional = root::read_text("/proc/self/smaps_rollup".as_ref())
        .ok()
        .flatten()
        .and_then(|text| proportional(&text));
    figures.descriptors = root::list("/proc/self/fd".as_ref())
        .ok()
        .flatten()
        // The one that lists is open too.
        .and_then(|fds| u64::try_from(fds.len()).ok()?.checked_sub(1));
    Some(figures)
}

/// The process that started the calling one, as far as anybody may know.
pub fn parent() -> Option<Figures> {
    public(&nix::unistd::getppid().to_string())
}

fn public(pid: &str) -> Option<Figures> {
    let text = root::read_text(format!("/proc/{pid}/stat").as_ref()).ok()??;
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    stat(&text, u64::try_from(ticks).ok()?, u64::try_from(page).ok()?)
}

/// Reads /proc/PID/stat. The name may hold spaces and parentheses, so the fields are those behind the last `)`.
fn stat(text: &str, ticks: u64, page: u64) -> Option<Figures> {
    let fields: Vec<&str> = text
        .get(text.rfind(')')? + 1..)?
        .split_ascii_whitespace()
        .collect();
    // Numbered as in proc(5), where the state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let used = field(14)?.checked_add(field(15)?)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a processor's time in ticks fits for ages"
    )]
    let cpu = used as f64 / ticks as f64;
    Some(Figures {
        cpu,
        resident: field(24)?.checked_mul(page)?,
        threads: field(20)?,
        proportional: None,
        descriptors: None,
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

    const STAT: &str = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 250 150 0 0 20 0 5 0 100 1000 300 184467 1 1";

    #[test]
    fn the_fields_of_a_process_are_found_behind_its_name() {
        let figures = stat(STAT, 100, 4096).unwrap();
        assert_eq!(figures.cpu, 4.0);
        assert_eq!((figures.threads, figures.resident), (5, 300 * 4096));
        for text in ["", "7 (a", "7 (a) S 1", "7 (a) S x y z"] {
            assert_eq!(stat(text, 100, 4096), None, "{text:?}");
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
        // Other tests of this program take memory meanwhile, so it may be more than was resident before.
        assert!(own.proportional.unwrap() > 0);
        assert_eq!(parent().unwrap().descriptors, None);
    }
}
