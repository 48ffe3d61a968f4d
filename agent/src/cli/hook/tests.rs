#![allow(clippy::disallowed_methods, reason = "tests write records of jobs")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::record::tests::prologs;
use super::*;

fn began(run: &Path, job: u32) -> Option<f64> {
    of_prolog(run, job)?.start
}

/// slurmd may start before the daemon, and its umask differs.
#[test]
fn a_record_may_be_written_before_the_first_daemon_and_is_removed_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let record = prologs();
    write(&run, &record).unwrap();
    let path = run.join("jobs/7.toml");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o644);
    assert_eq!(run.join("jobs").metadata().unwrap().mode() & 0o777, 0o750);
    let ids = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let _lock = dirs::take_run(&run, ids.0, ids.1).unwrap();
    assert!(path.exists(), "a daemon that starts keeps it");
    assert_eq!((began(&run, 7), began(&run, 8)), (Some(12.5), None));
    forget(&run, 7).unwrap();
    assert!(!path.exists());
    forget(&run, 7).unwrap();
}

/// Whether or not a daemon runs.
#[test]
fn an_epilog_leaves_its_record_in_place_of_the_prologs() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    write(&run, &prologs()).unwrap();
    let id = RecordId { ended_us: 5, job: 7 };
    let record = of_prolog(&run, 7).unwrap();
    leave(&run, id, &record).unwrap();
    forget(&run, 7).unwrap();
    assert!(!run.join("jobs/7.toml").exists());
    let left = run.join("jobs/ended").join(id.file());
    assert_eq!(left.metadata().unwrap().mode() & 0o777, 0o644);
    assert_eq!(run.join("jobs/ended").metadata().unwrap().mode() & 0o777, 0o750);
    assert_eq!(
        toml::from_str::<JobRecord>(&fs::read_to_string(left).unwrap()).unwrap(),
        prologs()
    );
}

#[test]
fn of_more_records_than_fit_the_oldest_are_dropped_and_the_hook_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let ended = dirs::ended_jobs(dir.path()).unwrap();
    let id = |n: usize| RecordId {
        ended_us: n as u64,
        job: 7,
    };
    for n in 0..MOST {
        fs::write(ended.join(id(n).file()), "").unwrap();
    }
    let error = leave(dir.path(), id(MOST), &prologs()).unwrap_err();
    assert!(error.contains("dropped 1 of more than 4096 records"), "{error}");
    let has = |n: usize| ended.join(id(n).file()).exists();
    assert_eq!([has(0), has(1), has(MOST)], [false, true, true]);
    assert_eq!(fs::metadata(ended.join(DROPPED)).unwrap().len(), 1);
}

/// An empty file of this age, in seconds.
fn put_aged(path: &Path, age: u64) {
    let file = fs::File::create(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age))
        .unwrap();
}

/// No epilog runs if the node is switched off.
#[test]
fn records_that_were_left_long_ago_are_removed_a_few_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    let record = prologs();
    write(dir.path(), &record).unwrap();
    let put = |name: &str, days: u64| put_aged(&jobs.join(name), days * 24 * 3600);
    for job in 100..110 {
        put(&format!("{job}.toml"), 31);
    }
    put("200.toml", 29);
    put("notes.toml", 31);
    let left = || collectors::sys::root::list(&jobs).unwrap().unwrap();
    write(dir.path(), &record).unwrap();
    assert_eq!(left().len(), 13 - REMOVED);
    write(dir.path(), &record).unwrap();
    let mut left = left();
    left.sort();
    assert_eq!(left, ["200.toml", "7.toml", "notes.toml"]);
}

/// A site may have the line of the prolog alone.
#[test]
fn records_that_no_epilog_removes_are_bounded_and_the_latest_stay() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    let record = prologs();
    write(dir.path(), &record).unwrap();
    for job in 100..100 + MOST as u64 + 900 {
        // Apart by more than it takes to make them.
        put_aged(&jobs.join(format!("{job}.toml")), job * 60);
    }
    fs::write(jobs.join("notes.toml"), "").unwrap();
    write(dir.path(), &record).unwrap();
    let left = collectors::sys::root::list(&jobs).unwrap().unwrap();
    assert_eq!(left.len(), MOST + 1);
    let has = |name: &str| jobs.join(name).exists();
    assert_eq!(
        ["7.toml", "100.toml", "4194.toml", "4195.toml", "notes.toml"].map(has),
        [true, true, true, false, true]
    );
}

/// The run directory belongs to the daemon too, and a hook runs as root.
#[test]
fn nothing_is_written_through_a_folder_that_others_made() {
    let dir = tempfile::tempdir().unwrap();
    let record = prologs();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, dir.path().join("jobs")).unwrap();
    write(dir.path(), &record).unwrap();
    assert!(!elsewhere.join("7.toml").exists());
    assert_eq!(began(dir.path(), 7), Some(12.5), "nor can others prevent it");
    let open = dir.path().join("open");
    fs::create_dir_all(open.join("jobs")).unwrap();
    fs::set_permissions(open.join("jobs"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(open.join("jobs/8.toml"), "job = 8\nstart = 1.0\n").unwrap();
    write(&open, &record).unwrap();
    assert_eq!((began(&open, 7), began(&open, 8)), (Some(12.5), None));
}
