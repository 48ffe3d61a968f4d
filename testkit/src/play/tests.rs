use std::io::Read;

use super::*;

fn case(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join("case").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn open(dir: &tempfile::TempDir) -> Result<Play> {
    Play::open(&dir.path().join("case"), &dir.path().join("node"))
}

fn read(dir: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join("node/root").join(name)).unwrap()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn what_every_step_names_moves_and_goes_on_and_the_rest_changes_at_its_step() {
    let dir = case(&[
        ("clock.toml", "# a comment\nstep_seconds = 10\n"),
        (
            "root.tree",
            "count = 100\nrate = 5\nline = cpu 7 x 3\nwidth = 16\n",
        ),
        ("steps/1.tree", "count = 200\nrate = 5\nline = cpu 17 x 3\n"),
        (
            "steps/2.tree",
            "# The link is broken.\ncount = 220\nrate = 4\nline = cpu 27 y 3\nwidth = 63\n",
        ),
    ]);
    let mut play = open(&dir).unwrap();
    let mut at = |time| {
        let said = play.advance(seconds(time)).unwrap();
        let files = ["count", "rate", "line", "width"].map(|f| read(&dir, f).trim_end().to_owned());
        (files, said)
    };
    let quiet = Vec::<String>::new();
    let row = |files: [&str; 4]| files.map(str::to_owned);
    assert_eq!(at(0), (row(["100", "5", "cpu 7 x 3", "16"]), quiet.clone()));
    assert_eq!(at(5), (row(["150", "5", "cpu 12 x 3", "16"]), quiet.clone()));
    assert_eq!(at(10), (row(["200", "5", "cpu 17 x 3", "16"]), quiet.clone()));
    assert_eq!(at(15), (row(["210", "5", "cpu 22 x 3", "16"]), quiet.clone()));
    let broken = vec!["The link is broken.".to_owned()];
    assert_eq!(at(20), (row(["220", "4", "cpu 27 y 3", "63"]), broken));
    assert_eq!(at(120), (row(["420", "4", "cpu 127 y 3", "63"]), quiet));
}

#[test]
fn a_node_whose_later_steps_are_left_out_goes_on_and_gets_other_faults() {
    let dir = case(&[
        ("clock.toml", "step_seconds = 10\n"),
        ("root.tree", "count = 100\nstate = 4: ACTIVE\n"),
        ("steps/1.tree", "count = 200\n"),
        ("steps/2.tree", "count = 200\nstate = lost\n"),
    ]);
    let mut play = open(&dir).unwrap();
    assert!(play.log(seconds(1), "no log").is_err());
    play.keep(1).unwrap();
    play.advance(seconds(25)).unwrap();
    assert_eq!(read(&dir, "count"), "350\n");
    play.replace("state", "4: ACTIVE", "1: DOWN").unwrap();
    assert_eq!(read(&dir, "state"), "1: DOWN\n");
    let error = play.replace("state", "4: ACTIVE", "1: DOWN").unwrap_err();
    assert!(error.to_string().contains("expected \"4: ACTIVE\""), "{error}");
    play.log(seconds(30), "a line").unwrap();
    play.log(seconds(31), "another").unwrap();
    let mut log = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(dir.path().join("node/kmsg"))
        .unwrap();
    let mut text = vec![0; 1000];
    let size = log.read(&mut text).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&text[..size]),
        "3,1,86430000000,-;a line\n3,2,86431000000,-;another\n"
    );
}

#[test]
fn steps_that_were_missed_are_all_laid() {
    let dir = case(&[
        ("root.tree", "a = 1\n"),
        ("steps/1.tree", "b = 1\n"),
        ("steps/2.tree", "c = 1\n"),
    ]);
    open(&dir).unwrap().advance(seconds(1000)).unwrap();
    assert_eq!(
        (read(&dir, "b"), read(&dir, "c")),
        ("1\n".to_owned(), "1\n".to_owned())
    );
}

#[test]
fn jobs_began_as_long_ago_as_when_it_was_recorded() {
    let record = "run/nodewarden/jobs/7.toml <<END\njob = 7\nstart = START\nuser = \"ada\"\nEND\n";
    let of = |start: &str| {
        let tree = record.replace("START", start);
        case(&[("clock.toml", "recorded_at = 1000\n"), ("root.tree", &tree)])
    };
    let dir = of("400.5");
    open(&dir).unwrap();
    let read: toml::Table = read(&dir, "run/nodewarden/jobs/7.toml").parse().unwrap();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let age = now - read["start"].as_float().unwrap();
    assert!((599.5..700.0).contains(&age), "{age} s, recorded 599.5 s before");
    assert_eq!(read["user"].as_str(), Some("ada"));
    let error = open(&of("\"yesterday\"")).unwrap_err().to_string();
    assert!(error.contains("7.toml: expected `start"), "{error}");
}

#[test]
fn answers_of_netlink_come_with_their_step() {
    let dir = case(&[
        ("netlink", "> rdma 5\n"),
        ("root.tree", "a = 1\n"),
        ("steps/1.tree", "a = 2\n"),
        ("steps/1.netlink", "> rdma 6\n"),
        ("steps/2.tree", "a = 3\n"),
        ("steps/2.netlink", "> rdma 7\n"),
    ]);
    let mut play = open(&dir).unwrap();
    let mut at = |time| {
        play.advance(seconds(time)).unwrap();
        fs::read_to_string(dir.path().join("node/netlink")).unwrap()
    };
    assert_eq!(at(0), "> rdma 5\n");
    assert_eq!(at(10), "> rdma 5\n> rdma 6\n");
    assert_eq!(at(1000), "> rdma 5\n> rdma 6\n> rdma 7\n");
}

#[test]
fn lines_of_the_kernel_log_come_in_their_time_with_what_belongs_to_them() {
    let dir = case(&[
        ("clock.toml", "kernel_log_begins = 5000000\n"),
        ("root.tree", ""),
        (
            "kmsg",
            "6,1,1000,-;old\n3,2,7000000,-;first\n DEVICE=x\n3,3,7000001,-;second\n",
        ),
    ]);
    let mut play = open(&dir).unwrap();
    let mut reader = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(dir.path().join("node/kmsg"))
        .unwrap();
    let mut received = || {
        let mut bytes = [0; 4096];
        let n = reader.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    assert_eq!(play.length(), Duration::from_micros(2_000_001));
    assert_eq!(received(), "6,1,1000,-;old\n");
    assert!(play.advance(seconds(1)).unwrap().is_empty());
    assert_eq!(received(), "");
    assert_eq!(play.advance(seconds(2)).unwrap(), ["kernel: first"]);
    assert_eq!(received(), "3,2,7000000,-;first\n DEVICE=x\n");
    assert_eq!(play.advance(seconds(9)).unwrap(), ["kernel: second"]);
    assert_eq!(received(), "3,3,7000001,-;second\n");
}

#[test]
fn a_case_without_clock_has_its_log_as_a_file() {
    let dir = case(&[("root.tree", ""), ("kmsg", "6,1,1000,-;old\n")]);
    open(&dir).unwrap().advance(seconds(1)).unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join("node/kmsg")).unwrap(),
        "6,1,1000,-;old\n"
    );
}

#[test]
fn an_error_names_the_file_and_what_was_expected() {
    for (name, text, part) in [
        (
            "clock.toml",
            "step_seconds = 0",
            "clock.toml: step_seconds: found 0, expected 1 to 3600",
        ),
        (
            "clock.toml",
            "speed = 2",
            "unknown field `speed`, expected one of `step_seconds`",
        ),
        (
            "kmsg",
            "no record\n",
            "kmsg: line 1: \"no record\": expected `priority",
        ),
        ("steps/x.tree", "", "expected `<number>.tree`"),
    ] {
        let files = [
            ("root.tree", ""),
            ("clock.toml", "kernel_log_begins = 0"),
            ("kmsg", ""),
            (name, text),
        ];
        let error = format!("{:#}", open(&case(&files)).unwrap_err());
        assert!(error.contains(part), "{error}");
    }
}
