use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

fn aside(dir: &Path, name: &str) -> usize {
    let prefix = format!("{name}.bad-");
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries
        .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
        .count()
}

fn fifo(path: &Path) {
    mkfifo(path, Mode::from_bits_truncate(0o666)).unwrap();
}

#[test]
fn a_folder_of_the_parent_is_made_whatever_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = own(dir).unwrap();
    assert_eq!(
        (path.as_path(), path.metadata().unwrap().mode() & 0o777),
        (dir.join("parent").as_path(), 0o700)
    );
    fs::write(path.join("own-drain"), "x").unwrap();
    own(dir).unwrap();
    assert!(path.join("own-drain").exists(), "an own folder is kept");
    // A folder that others may write to holds files of others.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    own(dir).unwrap();
    assert_eq!(
        (aside(dir, "parent"), fs::read_dir(&path).unwrap().count()),
        (1, 0)
    );
    let makes: [&dyn Fn(&Path); 4] = [
        &|path| fifo(path),
        &|path| symlink("/tmp", path).unwrap(),
        &|path| fs::write(path, "").unwrap(),
        &|path| {
            fs::create_dir(path).unwrap();
            chown(path, Some(1), Some(1)).unwrap();
        },
    ];
    for (n, make) in (2..).zip(makes) {
        if n == 5 && !is_root() {
            continue;
        }
        fs::remove_dir(&path).unwrap();
        make(&path);
        own(dir).unwrap();
        let found = fs::symlink_metadata(&path).unwrap();
        assert!(found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw());
        assert_eq!(aside(dir, "parent"), n);
    }
}

#[test]
fn slots_and_records_of_hooks_are_made_whatever_has_their_name() {
    let dir = tempfile::tempdir().unwrap();
    fifo(&dir.path().join("slots"));
    symlink("/tmp", dir.path().join("jobs")).unwrap();
    assert_eq!(
        slots(dir.path()).unwrap().metadata().unwrap().mode() & 0o777,
        0o700
    );
    assert_eq!(
        jobs(dir.path()).unwrap().metadata().unwrap().mode() & 0o777,
        0o750
    );
    assert_eq!((aside(dir.path(), "slots"), aside(dir.path(), "jobs")), (1, 1));
}

/// To open the FIFO would wait for ever; to truncate the other link would destroy another file.
#[test]
fn a_lock_is_taken_whatever_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOCK);
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fifo(&path);
    drop(lock(dir.path()).unwrap());
    fs::remove_file(&path).unwrap();
    fs::hard_link(&victim, &path).unwrap();
    drop(lock(dir.path()).unwrap());
    fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    let held = lock(dir.path()).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(aside(dir.path(), LOCK), 3);
    let host = nix::unistd::gethostname().unwrap();
    let holder = format!("pid {} on {}", std::process::id(), host.to_str().unwrap());
    assert!(matches!(lock(dir.path()), Err(DirError::Held { holder: h, .. }) if h == holder));
    drop(held);
    lock(dir.path()).unwrap();
}

#[test]
fn files_of_an_earlier_daemon_are_given_to_the_next_and_no_others() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["old", "roots", "linked"] {
        fs::write(at(name), "").unwrap();
    }
    fs::hard_link(at("linked"), at("other")).unwrap();
    for name in ["old", "linked"] {
        chown(at(name), Some(7), Some(7)).unwrap();
    }
    fifo(&at("fifo"));
    chown(at("fifo"), Some(7), Some(7)).unwrap();
    hand_over(dir.path(), (8, 9)).unwrap();
    let ids = |name: &str| at(name).metadata().map(|m| (m.uid(), m.gid())).unwrap();
    assert_eq!(ids("old"), (8, 9));
    assert_eq!((ids("roots").0, ids("linked"), ids("fifo")), (0, (7, 7), (7, 7)));
}

/// Root restores or edits a record, and a container runtime creates a folder for a bind mount of the socket.
#[test]
fn what_root_left_under_a_name_of_the_daemons_is_given_to_it_or_renamed() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let files = ["state.json", "audit.jsonl.1", ".jobs.jsonl.new"];
    for name in files {
        fs::write(at(name), "x").unwrap();
    }
    fs::create_dir(at("control.sock")).unwrap();
    fifo(&at("verdict"));
    fs::write(at("jobs.json"), "").unwrap();
    fs::hard_link(at("jobs.json"), at("state.json.bad-7")).unwrap();
    for _ in 0..2 {
        hand_over(dir.path(), (8, 9)).unwrap();
    }
    for name in files {
        assert_eq!(at(name).metadata().unwrap().uid(), 8, "{name}");
    }
    for name in ["control.sock", "verdict", "jobs.json"] {
        assert!(!at(name).exists(), "{name}");
    }
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        7,
        "nothing is lost, or renamed twice"
    );
}

/// After an update from a version with different ids, or when a site creates the users.
#[test]
fn the_files_of_an_earlier_daemon_become_those_of_the_next_one() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, state) = (dir.path().join("run"), dir.path().join("state"));
    let take = |id| {
        (
            take_run(&run, id, id).unwrap(),
            take_state(&state, id, id).unwrap(),
        )
    };
    drop(take(FORMER_DAEMON_UID));
    let files = [run.join("verdict"), state.join("state.json")];
    let [verdict, record] = &files;
    let socket = run.join("control.sock");
    fs::write(verdict, "").unwrap();
    fs::write(record, "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for file in [verdict, record, &socket] {
        std::os::unix::fs::lchown(file, Some(FORMER_DAEMON_UID), Some(FORMER_DAEMON_UID)).unwrap();
    }
    let (_run, held) = take(DAEMON_UID);
    assert!(held.is_some());
    assert!(!socket.exists());
    for file in &files {
        assert_eq!(
            fs::metadata(file).unwrap().uid(),
            DAEMON_UID,
            "{}",
            file.display()
        );
    }
    assert_eq!(fs::metadata(run.join(LOCK)).unwrap().uid(), 0);
    assert_eq!(fs::metadata(&run).unwrap().gid(), DAEMON_UID);
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// The lock that the first start left in it made it our own at the second.
#[test]
fn a_folder_of_others_is_refused_at_each_start_and_never_written_to() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("messages"), "x").unwrap();
    let before = mode(dir.path());
    for _ in 0..2 {
        let refused = take_state(dir.path(), DAEMON_UID, DAEMON_UID).unwrap_err();
        assert!(refused.to_string().contains("foreign files"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(mode(dir.path()), before);
    }
}

#[test]
fn a_filesystem_of_its_own_may_have_its_folder_of_lost_files() {
    let known = |name: &str, is_disk| is_known(OsStr::new(name), is_disk);
    assert!(known("lost+found", true) && !known("lost+found", false) && !known("home", true));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    assert_eq!(
        foreign(dir.path()).unwrap().unwrap(),
        "lost+found",
        "made by hand"
    );
}

/// flock(2) needs no more than an open file. No process has the number: it is the limit of pid_max.
#[test]
fn a_lock_is_closed_to_other_users_and_names_only_a_process_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOCK);
    fs::write(&path, "pid 4194304\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let other = File::open(&path).unwrap();
    other.lock().unwrap();
    let error = lock(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("is locked by a process that lslocks(8) shows") && !error.contains("4194304"),
        "{error}"
    );
    assert_eq!(mode(&path), 0o600, "changed before it is locked");
    fs::write(&path, "pid 4194304 on another-host\n").unwrap();
    let error = lock(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("is locked by pid 4194304 on another-host: "),
        "{error}"
    );
    let mut child = std::process::Command::new("true").spawn().unwrap();
    fs::write(&path, format!("pid {}\n", child.id())).unwrap();
    let status = format!("/proc/{}/status", child.id());
    while !fs::read_to_string(&status).unwrap().contains("State:\tZ") {
        std::thread::yield_now();
    }
    let error = lock(dir.path()).unwrap_err();
    assert!(matches!(error, DirError::Held { is_zombie: true, .. }), "{error}");
    child.wait().unwrap();
    drop(other);
    drop(lock(dir.path()).unwrap());
    assert_eq!(mode(&path), 0o600);
    fs::remove_file(&path).unwrap();
    drop(lock(dir.path()).unwrap());
    assert_eq!(mode(&path), 0o600);
}

/// Two hosts wrote one record. The error is that of fs/nfs/nfs4proc.c.
#[test]
fn a_lock_that_needs_a_file_open_for_writing_is_taken_and_held() {
    let as_nfs = |file: &File| {
        let flags = nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        match flags & libc::O_ACCMODE {
            libc::O_RDONLY => Err(TryLockError::Error(io::Error::from_raw_os_error(libc::EBADF))),
            _ => file.try_lock(),
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let held = lock_by(dir.path(), as_nfs).unwrap();
    for second in [lock_by(dir.path(), as_nfs), lock(dir.path())] {
        assert!(matches!(second, Err(DirError::Held { .. })), "{second:?}");
    }
    drop(held);
    lock(dir.path()).unwrap();
}

#[test]
fn a_link_in_place_of_a_directory_is_named_with_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let (link, to) = (dir.path().join("link"), dir.path().join("there"));
    symlink(&to, &link).unwrap();
    for _ in 0..2 {
        let error = take_state(&link, DAEMON_UID, DAEMON_UID).unwrap_err().to_string();
        let found = format!("found a symbolic link to {}, expected a folder", to.display());
        assert!(error.contains(&found), "{error}");
        // Also where the link does not dangle.
        fs::create_dir_all(&to).unwrap();
    }
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
}

/// People delete a lock that looks stale. The record behind it has the node's incidents.
#[test]
fn a_directory_without_its_lock_is_taken_again() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join(LOCK);
    let take = || take_state(dir.path(), DAEMON_UID, DAEMON_UID);
    drop(take().unwrap());
    for name in [
        "state.json",
        ".state.json.new",
        "state.json.bad-17",
        "audit.jsonl.2",
    ] {
        fs::write(dir.path().join(name), "{}").unwrap();
    }
    fs::remove_file(&lock).unwrap();
    drop(take().unwrap());
    fs::remove_file(&lock).unwrap();
    fifo(&lock);
    drop(take().unwrap());
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    drop(take().unwrap());
    assert!(lock.is_file());
    assert_eq!(aside(dir.path(), LOCK), 2);
    fs::remove_file(&lock).unwrap();
    fs::write(dir.path().join("state.json.copy"), "").unwrap();
    let refused = take().unwrap_err().to_string();
    assert!(refused.contains("such as \"state.json.copy\""), "{refused}");
}

/// A call on a path that does not exist would fail.
#[test]
fn a_folder_that_is_right_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let gid = dir.path().metadata().unwrap().gid();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1770)).unwrap();
    let found = find(dir.path(), &[]).unwrap();
    adjust(Path::new("/nonexistent/state"), &found, 0o1770, gid).unwrap();
    adjust(Path::new("/nonexistent/state"), &found, 0o1775, gid).unwrap_err();
}
