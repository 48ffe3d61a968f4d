//! The slurmd of this node: since when it runs, and so since when what it reads at its start can be what it goes by.

use crate::Env;
use crate::sys::root;

use super::process;

/// Of more processes none is looked through: the oldest slurmd could be among the rest.
const MOST: usize = 65_536;

/// When the oldest slurmd began that may be the one of `node`, as a Unix time. `None`: none is seen, as in a container
/// without the host's processes.
pub(super) fn since(env: &Env, node: Option<&str>) -> Option<f64> {
    since_within(env, node, MOST)
}

fn since_within(env: &Env, node: Option<&str>, most: usize) -> Option<f64> {
    let names = root::list(&env.path("/proc")).ok().flatten()?;
    let pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    if pids.len() > most {
        return None;
    }
    let is_slurmd = |pid: &u32| {
        let comm = root::read_text(&env.path(&format!("/proc/{pid}/comm")));
        comm.ok().flatten().as_deref() == Some("slurmd")
    };
    let is_ours = |pid: &u32| {
        let line = root::read_bytes(&env.path(&format!("/proc/{pid}/cmdline")), 4096);
        let line = line.ok().flatten().unwrap_or_default();
        // One without a command line has ended and was not waited for. One that does not say whose it is may be ours.
        !line.is_empty() && node.is_none_or(|node| named(&line).is_none_or(|name| name == node))
    };
    pids.into_iter()
        .filter(is_slurmd)
        .filter(is_ours)
        .filter_map(|pid| process::unix_start(env, pid))
        .reduce(f64::min)
}

/// The node of `slurmd -N NODE`, which several slurmds on one host are given.
fn named(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let mut words = text.split('\0');
    while let Some(word) = words.next() {
        if word == "-N" {
            return words.next().map(str::to_owned);
        }
        if let Some(name) = word.strip_prefix("-N").filter(|name| !name.is_empty()) {
            return Some(name.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use testkit::tree::{Entry, put};

    use super::*;

    fn node(processes: &[(u32, &str, &str, u64)]) -> (tempfile::TempDir, Env) {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::with_sysroot(dir.path());
        for (pid, comm, line, start) in processes {
            let stat = format!("{pid} ({comm}) S {0}{start} {0}", "0 ".repeat(18));
            for (file, text) in [
                ("comm", (*comm).to_owned()),
                ("cmdline", line.replace(' ', "\0")),
                ("stat", stat),
            ] {
                let file = env.path(&format!("/proc/{pid}/{file}"));
                put(&file, &Entry::File(text.into_bytes())).unwrap();
            }
        }
        (dir, env)
    }

    #[test]
    fn of_several_slurmds_the_one_of_the_node_counts_and_of_those_without_a_name_the_oldest() {
        let all = [
            (10, "slurmd", "slurmd -D -N n0", 300),
            (11, "slurmd", "slurmd -D -Nn1", 200),
            (12, "slurmstepd", "slurmstepd: [7.extern]", 100),
        ];
        let (_dir, env) = node(&all);
        let at = |node| since(&env, Some(node));
        let apart = at("n0").unwrap() - at("n1").unwrap();
        // A hundred clock ticks.
        assert!((apart - 1.0).abs() < 0.1, "{apart}");
        assert_eq!(at("n2"), None);
        assert!(since_within(&env, Some("n0"), 3).is_some());
        assert_eq!(since_within(&env, Some("n0"), 2), None, "too many processes");
        let (_dir, env) = node(&[(9, "slurmd", "", 100), (10, "slurmd", "slurmd -D", 300)]);
        let (_other, alone) = node(&[(10, "slurmd", "slurmd -D", 300)]);
        let apart = since(&env, Some("n0")).unwrap() - since(&alone, Some("n0")).unwrap();
        assert!(
            apart.abs() < 0.1,
            "a slurmd that has ended, but was not waited for: {apart}"
        );
        let (_dir, env) = node(&[(9, "slurmd", "", 100)]);
        assert_eq!(since(&env, None), None);
        let (_dir, env) = node(&[(10, "slurmd", "/usr/sbin/slurmd --systemd", 300)]);
        assert!(since(&env, Some("n2")).is_some());
        assert!(since(&env, None).is_some());
    }
}
