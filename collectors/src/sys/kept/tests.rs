use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn text(kept: &mut Kept) -> Result<String, Errno> {
    let mut buffer = [0; 32];
    let bytes = kept.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn file(on_disk: bool) -> (tempfile::TempDir, Kept) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "1\n").unwrap();
    let kept = Kept::new(path, &DescriptorBudget::new(10), on_disk);
    (dir, kept)
}

#[test]
fn fewer_files_stay_open_where_pages_are_large() {
    assert_eq!(kept_open(8192, 4096), 8064);
    assert_eq!(kept_open(8192, 65536), 1024);
    assert_eq!(kept_open(1024, 65536), 896);
    assert_eq!(kept_open(100, 4096), 0);
}

#[test]
fn the_second_reading_is_one_read_and_sees_the_new_text() {
    let (_dir, mut kept) = file(false);
    assert_eq!(text(&mut kept).unwrap(), "1\n");
    assert_eq!(count::take(), (1, 1));
    fs::write(kept.path(), "23\n").unwrap();
    assert_eq!(text(&mut kept).unwrap(), "23\n");
    assert_eq!(count::take(), (0, 1));
}

/// The kernel answers ESRCH for the files of a process that ended, also if another process has its number.
#[test]
fn the_file_of_an_ended_process_is_looked_for_by_its_path() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let path = PathBuf::from(format!("/proc/{}/cgroup", child.id()));
    let mut kept = Kept::new(path, &DescriptorBudget::new(10), false);
    text(&mut kept).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    count::take();
    assert_eq!(text(&mut kept), Err(Errno::ENOENT));
    assert_eq!(count::take(), (1, 1), "the open file, then its path");
}

#[test]
fn a_dead_descriptor_is_opened_anew_once() {
    // Only a driver that leaves gives ENODEV; a removed file of a recorded tree is treated alike.
    let (_dir, mut kept) = file(true);
    text(&mut kept).unwrap();
    fs::remove_file(kept.path()).unwrap();
    count::take();
    assert_eq!(text(&mut kept), Err(Errno::ENOENT));
    assert_eq!(count::take(), (1, 0));
    fs::write(kept.path(), "2\n").unwrap();
    assert_eq!(text(&mut kept).unwrap(), "2\n");
    assert_eq!(text(&mut kept).unwrap(), "2\n");
    assert_eq!(count::take(), (1, 2));
}

#[test]
fn a_file_that_was_replaced_is_read_by_its_path() {
    let (dir, mut kept) = file(true);
    text(&mut kept).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "new\n").unwrap();
    fs::rename(other, kept.path()).unwrap();
    assert_eq!(text(&mut kept).unwrap(), "new\n");
}

#[test]
fn a_watched_file_of_a_tree_costs_one_read_until_it_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let budget = DescriptorBudget::of_tree();
    let [mut kept, mut beside] = ["file", "beside"].map(|name| {
        fs::write(dir.path().join(name), "1\n").unwrap();
        Kept::new(dir.path().join(name), &budget, true)
    });
    for round in 0..3 {
        let other = dir.path().join("other");
        fs::write(&other, format!("{round}\n")).unwrap();
        fs::rename(other, kept.path()).unwrap();
        assert_eq!(
            budget.look(),
            round > 0,
            "nothing is watched before the first reading"
        );
        text(&mut beside).unwrap();
        for reading in 0..3 {
            count::take();
            assert_eq!(text(&mut kept).unwrap(), format!("{round}\n"));
            assert_eq!(count::take(), (usize::from(reading == 0), 1));
            assert!(!budget.look());
        }
    }
    fs::remove_file(kept.path()).unwrap();
    assert!(budget.look());
    assert_eq!(text(&mut kept), Err(Errno::ENOENT));
    assert_eq!(text(&mut beside).unwrap(), "1\n");
}

#[test]
fn a_file_of_a_tree_that_cannot_be_watched_is_not_kept_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut kept = Kept::new(path, &DescriptorBudget::of_tree(), true);
    crate::sys::inotify::FULL.set(true);
    for number in ["1\n", "2\n"] {
        let other = dir.path().join("other");
        fs::write(&other, number).unwrap();
        fs::rename(other, kept.path()).unwrap();
        assert_eq!(text(&mut kept).unwrap(), number);
    }
    crate::sys::inotify::FULL.set(false);
    assert_eq!(count::take(), (2, 2));
}

#[test]
fn without_budget_a_file_is_opened_for_each_reading_and_closed() {
    let budget = DescriptorBudget::new(1);
    let dir = tempfile::tempdir().unwrap();
    let [mut first, mut second] = ["a", "b"].map(|name| {
        fs::write(dir.path().join(name), name).unwrap();
        Kept::new(dir.path().join(name), &budget, false)
    });
    for _ in 0..2 {
        assert_eq!(text(&mut first).unwrap(), "a");
        assert_eq!(text(&mut second).unwrap(), "b");
    }
    assert_eq!(count::take(), (3, 4));
    drop(first);
    text(&mut second).unwrap();
    count::take();
    text(&mut second).unwrap();
    assert_eq!(count::take(), (0, 1), "what one file gives back another may use");
}

#[test]
fn the_budget_stays_below_the_limit_of_the_process() {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(DescriptorBudget::of_process().left.load(Ordering::Relaxed) + RESERVED <= soft.max(RESERVED));
}

#[test]
fn what_the_kernel_refuses_stays_open_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    // The loopback interface has no speed: its driver answers EINVAL.
    symlink("/sys/class/net/lo/speed", dir.path().join("speed")).unwrap();
    let mut kept = Kept::new(dir.path().join("speed"), &DescriptorBudget::new(1), false);
    for _ in 0..2 {
        assert_eq!(text(&mut kept), Err(Errno::EINVAL));
    }
    assert_eq!(count::take(), (1, 2));
}

#[test]
fn a_long_file_fills_the_buffer_and_no_more() {
    let (_dir, mut kept) = file(false);
    fs::write(kept.path(), "9".repeat(100_000)).unwrap();
    assert_eq!(text(&mut kept).unwrap().len(), 32);
}
