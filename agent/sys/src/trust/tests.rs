use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

fn expected(owners: &[u32]) -> Expected<'_> {
    Expected {
        owners,
        most: 100,
        private: true,
    }
}

fn refused(path: &Path) -> String {
    let owners = own();
    let read = read(path, &expected(&owners)).map(drop).unwrap_err();
    // A file that is opened for writing, or created, is believed no more than one that is read.
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let written = open(path, &expected(&owners), &mut options)
        .map(drop)
        .unwrap_err();
    assert_eq!(read.to_string(), written.to_string());
    read.to_string()
}

/// Without the flags, the open of the FIFO alone would never return.
#[test]
fn only_a_regular_file_with_one_link_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "x").unwrap();
    fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(
        read_text(&at("file"), &expected(&own())).unwrap().as_deref(),
        Some("x")
    );
    assert_eq!(read(&at("none"), &expected(&own())).unwrap(), None);
    mkfifo(&at("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink(at("none"), at("dangling")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    for (name, found) in [
        ("fifo", "a FIFO"),
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
        ("folder", "a folder"),
        ("socket", "a socket"),
    ] {
        let error = refused(&at(name));
        assert_eq!(
            error,
            format!("{}: found {found}, expected a regular file", at(name).display())
        );
    }
    let null = refused(Path::new("/dev/null"));
    assert_eq!(null, "/dev/null: found a device, expected a regular file");
    fs::hard_link(at("file"), at("second")).unwrap();
    assert!(refused(&at("file")).ends_with("found 2 hard links, expected 1"));
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "x");
}

#[test]
fn owner_permissions_and_size_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [b'x'; 101]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refused(&path).ends_with("found 101 bytes, expected at most 100"));
    fs::write(&path, [b'x'; 100]).unwrap();
    assert_eq!(read(&path, &expected(&own())).unwrap().unwrap().len(), 100);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(refused(&path).contains("found mode 0620, expected no write permission"));
    let open = Expected {
        private: false,
        ..expected(&[])
    };
    let error = read(&path, &open).unwrap_err().to_string();
    assert!(error.contains("found a file of uid"), "{error}");
    if crate::privileges::is_root() {
        chown(&path, Some(1), None).unwrap();
        assert!(refused(&path).ends_with("found a file of uid 1, expected uid 0"));
    }
}

#[test]
fn a_missing_file_is_created_where_the_caller_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    assert!(open(&path, &expected(&own()), &mut options).unwrap().is_some());
    assert!(path.exists());
}

/// As certbot and Kubernetes lay out certificates.
#[test]
fn a_link_is_followed_where_only_the_own_user_can_change_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mode = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    for folder in ["live", "archive"] {
        fs::create_dir(at(folder)).unwrap();
        mode(folder, 0o755);
    }
    fs::write(at("archive/key1"), "secret").unwrap();
    mode("archive/key1", 0o600);
    symlink("../archive/key1", at("live/key")).unwrap();
    let read = |name: &str| read_linked(&at(name), 100).map_err(|e| e.to_string());
    assert_eq!(read("live/key"), Ok(Some(b"secret".to_vec())));
    assert_eq!(read("live/none"), Ok(None));
    symlink("nowhere", at("live/lost")).unwrap();
    assert_eq!(read("live/lost"), Ok(None));
    for folder in ["live", "archive"] {
        mode(folder, 0o777);
        assert!(read("live/key").unwrap_err().contains("mode 777"), "{folder}");
        mode(folder, 0o755);
    }
    // In a sticky folder only the owner replaces a file or a link.
    for folder in ["live", "archive"] {
        mode(folder, 0o1777);
        assert!(read("live/key").is_ok(), "{folder}");
        mode(folder, 0o755);
    }
    mode("archive/key1", 0o620);
    assert!(read("live/key").unwrap_err().contains("mode 620"));
    mode("archive/key1", 0o600);
    assert!(
        read_linked(&at("live/key"), 3)
            .unwrap_err()
            .to_string()
            .contains("6 bytes")
    );
    // It would never return.
    mkfifo(&at("archive/fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    symlink("../archive/fifo", at("live/fifo")).unwrap();
    assert!(read("live/fifo").unwrap_err().contains("a FIFO"));
    if nix::unistd::geteuid().is_root() {
        lchown(at("live/key"), Some(60_999), None).unwrap();
        assert!(read("live/key").unwrap_err().contains("a link with owner 60999"));
        lchown(at("live/key"), Some(0), None).unwrap();
        chown(at("archive/key1"), Some(60_999), None).unwrap();
        assert!(read("live/key").unwrap_err().contains("owner 60999"));
    }
}
