//! The slurmd of this node: since when it runs, and so since when what it reads at its start can be what it goes by.

use std::path::Path;

use crate::Env;
use crate::sys::root;

use super::process;

/// Of more processes none is looked through: the oldest slurmd could be among the rest.
const MOST: usize = 65_536;

/// Whether a process with slurmd's name runs as root or as this user: a job can run a program called slurmd. `None`: it has
/// another name. Neither file needs the process's memory, which a hung process may keep locked for ever.
pub fn is_ours(process: &Path, uid: u32) -> Option<bool> {
    let text = |file: &str| root::read_text(&process.join(file)).ok().flatten();
    // 23.11 and later run the file behind Debian's link, slurmd-wlm, when slurm.conf is read again.
    let name = text("comm")?;
    let is_slurmd = name == "slurmd" || name.starts_with("slurmd-");
    let uids = || users(&text("status").unwrap_or_default());
    is_slurmd.then(|| uids().is_some_and(|all| all.iter().all(|one| *one == 0 || *one == uid)))
}

/// Real, effective, saved and filesystem user id.
fn users(status: &str) -> Option<Vec<u32>> {
    let all = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let all: Result<Vec<u32>, _> = all.split_whitespace().map(str::parse).collect();
    all.ok().filter(|all| !all.is_empty())
}

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
    let uid = nix::unistd::geteuid().as_raw();
    let is_slurmd = |pid: &u32| is_ours(&env.path(&format!("/proc/{pid}")), uid) == Some(true);
    let is_of_node = |pid: &u32| {
        let line = root::read_bytes(&env.path(&format!("/proc/{pid}/cmdline")), 4096);
        let line = line.ok().flatten().unwrap_or_default();
        // One without a command line has ended and was not waited for. One that does not say whose it is may be ours.
        !line.is_empty() && node.is_none_or(|node| named(&line).is_none_or(|name| name == node))
    };
    pids.into_iter()
        .filter(is_slurmd)
        .filter(is_of_node)
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
                ("status", "Name:\tx\nUid:\t0\t0\t0\t0\n".to_owned()),
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
    /// 23.11 and later, where /usr/sbin/slurmd is Debian's link to slurmd-wlm.
    #[test]
    fn a_slurmd_that_read_its_configuration_again_has_the_name_of_the_file_behind_the_link() {
        let all = [
            (9, "slurmdbd", "slurmdbd -D", 100),
            (10, "slurmd-wlm", "slurmd -D -N n0", 300),
        ];
        let (_dir, env) = node(&all);
        let (_other, alone) = node(&[(10, "slurmd", "slurmd -D -N n0", 300)]);
        let apart = since(&env, Some("n0")).unwrap() - since(&alone, Some("n0")).unwrap();
        assert!(apart.abs() < 0.1, "{apart}");
    }

    #[test]
    fn a_process_of_a_user_with_that_name_does_not_count() {
        let (_dir, env) = node(&[(9, "slurmd", "slurmd -D", 100)]);
        for users in ["1000\t1000\t1000\t1000", "1000\t0\t0\t0", "", "0\tx"] {
            let status = Entry::File(format!("Uid:\t{users}\n").into_bytes());
            put(&env.path("/proc/9/status"), &status).unwrap();
            assert_eq!(since(&env, None), None, "{users}");
        }
    }
}
