use std::io::Write as _;

use super::*;

fn all(kmsg: &mut Kmsg) -> Vec<String> {
    let (mut record, mut out) = (Vec::new(), Vec::new());
    while kmsg.read(&mut record).unwrap() == KmsgRead::Record {
        out.push(String::from_utf8(record.clone()).unwrap());
    }
    out
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kmsg");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[test]
fn a_file_gives_one_record_per_line_and_leaves_dictionaries_out() {
    let (_dir, path) =
        file(b"6,1,5,-;one\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n\n6,2,6,-;two\n6,3,7,-;three");
    let mut kmsg = Kmsg::open(&path).unwrap();
    assert_eq!(
        all(&mut kmsg),
        ["6,1,5,-;one\n", "6,2,6,-;two\n", "6,3,7,-;three\n"]
    );
    assert_eq!(kmsg.read(&mut Vec::new()).unwrap(), KmsgRead::End);
}

#[test]
fn a_line_without_end_is_cut_and_the_next_one_is_whole() {
    let mut bytes = b"6,1,5,-;".to_vec();
    bytes.resize(3 * MAX_BUFFER, b'a');
    bytes.extend_from_slice(b"\n6,2,6,-;two\n");
    let (_dir, path) = file(&bytes);
    let mut kmsg = Kmsg::open(&path).unwrap();
    let records = all(&mut kmsg);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].len(), BUFFER);
    assert_eq!(records[1], "6,2,6,-;two\n");
    assert!(kmsg.lines.unwrap().bytes.capacity() < 4 * MAX_BUFFER);
}

#[test]
fn a_fifo_is_empty_while_it_is_open_and_ends_with_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut kmsg = Kmsg::open(&path).unwrap();
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    let mut record = Vec::new();
    assert_eq!(kmsg.read(&mut record).unwrap(), KmsgRead::Empty);
    kmsg.wait(Some(Duration::from_millis(1))).unwrap();
    writer.write_all(b"6,1,5,-;a").unwrap();
    kmsg.wait(None).unwrap();
    assert_eq!(kmsg.read(&mut record).unwrap(), KmsgRead::Empty);
    writer.write_all(b"b\n").unwrap();
    kmsg.wait(None).unwrap();
    assert_eq!(kmsg.read(&mut record).unwrap(), KmsgRead::Record);
    assert_eq!(record, b"6,1,5,-;ab\n");
    drop(writer);
    assert_eq!(kmsg.read(&mut record).unwrap(), KmsgRead::End);
}

#[test]
fn only_the_kernels_own_log_blames_the_capability_for_its_mode() {
    let error = |path: &str, code| open_error(path.as_ref(), std::io::Error::from_raw_os_error(code));
    for (path, code, reason) in [
        (DEV_KMSG, libc::EPERM, "denied"),
        (DEV_KMSG, libc::EACCES, "denied"),
        ("/run/kmsg", libc::EPERM, "denied"),
        (DEV_KMSG, libc::ENOENT, "io"),
    ] {
        assert_eq!(error(path, code).reason(), reason);
    }
    assert!(matches!(error("/run/kmsg", libc::EACCES), Error::Io { .. }));
}

#[test]
fn a_refusal_despite_the_capability_names_the_containers_device_rule() {
    assert_eq!(missing(false), "CAP_SYSLOG");
    assert!(missing(true).contains("--device=/dev/kmsg"));
    // The kernel's own list of this process, where capabilities 32 to 63 stand before 0 to 31.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
    assert_eq!(has_syslog(), effective >> 34 & 1 == 1);
    let error = open_error(DEV_KMSG.as_ref(), std::io::Error::from_raw_os_error(libc::EPERM));
    let Error::Denied { missing: found, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(found, missing(has_syslog()));
}

#[test]
fn a_missing_file_is_an_error_with_its_path() {
    let error = Kmsg::open("/nonexistent/kmsg".as_ref()).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/kmsg: "), "{error}");
    assert!(!exists("/nonexistent/kmsg".as_ref()));
}
