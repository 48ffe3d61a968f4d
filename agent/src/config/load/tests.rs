use std::time::Duration;

use collectors::settings::Kind;
use collectors::{Cadence, PciAddress, Tier};
use proptest::prelude::*;

use super::*;
use crate::config::keys;
use crate::own;
use sys::store;

collectors::keys! {
    ROWS;
    LIMIT = "fake.limit": Kind::Integer { what: "a number", from: 0, to: 9 }, default "0", since "0.1.0", "h";
    NAME = "fake.name": Kind::Text { what: "a name", fits: |_| true }, default "\"\"", rule unlike, since "0.1.0", "h";
}

fn unlike(settings: &Settings) -> Result<(), collectors::Error> {
    match settings.get::<String>(&NAME)?.as_str() {
        "limit" => Err(collectors::Error::Settings("fake.name: as limit".to_owned())),
        _ => Ok(()),
    }
}

static FAKE: Spec = Spec {
    name: "fake",
    domain: &collectors::domain::KERNEL,
    metrics: &[],
    events: &[],
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(15)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: ROWS,
    open: |_, _| Ok(None),
};

struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("conf.d")).unwrap();
        for (name, text) in files {
            store::replace(&dir.path().join(name), text.as_bytes(), 0o644, false).unwrap();
        }
        Self(dir)
    }

    fn load(&self, sets: &[&str]) -> Result<Parsed, ConfigError> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        let file = self.0.path().join("n.toml");
        load(Some(&file), &sets, &KNOWN, &[&FAKE])
    }

    fn put(&self, text: impl AsRef<[u8]>) {
        store::replace(&self.0.path().join("n.toml"), text.as_ref(), 0o644, false).unwrap();
    }

    /// Problems without the folder.
    fn problems(&self, sets: &[&str]) -> Vec<String> {
        let dir = format!("{}/", self.0.path().display());
        let error = self.load(sets).unwrap_err().to_string();
        error.lines().map(|l| l.replace(&dir, "")).collect()
    }
}

#[test]
fn a_time_out_of_slurm_that_a_slot_does_not_outlast_is_a_fault_at_its_line() {
    let with = |timeout: &str| format!("health.mode = \"drain\"\n[slurm]\ntimeout = \"{timeout}\"\n");
    let files = Files::new(&[("n.toml", &with("76s"))]);
    assert_eq!(
        files.problems(&[]),
        [
            "n.toml:3:11: slurm.timeout: found \"1m16s\", expected at most an eighth of health.guard.window, \"1m15s\""
        ]
    );
    files.load(&["health.guard.window=\"15m\""]).unwrap();
    for without_slots in ["health.guard.mode=\"off\"", "health.mode=\"comment\""] {
        files.load(&[without_slots]).unwrap();
    }
    files.put(with("75s"));
    files.load(&[]).unwrap();
}

#[test]
fn what_comes_later_wins() {
    let files = Files::new(&[
        ("n.toml", "[health]\nmode = \"comment\"\nsettle = \"10s\"\n"),
        (
            "conf.d/10-a.toml",
            "health.mode = \"drain\"\nhealth.checks.gpu_xid = \"observe\"\n",
        ),
        (
            "conf.d/20-b.toml",
            "slurm.poll = \"0\"\nhealth.checks.gpu_missing = \"drain\"\n",
        ),
        ("conf.d/README", "not = toml"),
        ("conf.d/.hidden.toml", "not = toml"),
    ]);
    let loaded = files
        .load(&[
            "health.settle=\"2m\"",
            "listen=[\"127.0.0.1:0\"]",
            "slurm.undrain=false",
        ])
        .unwrap();
    let config = loaded.config;
    assert_eq!(config.health.mode, Mode::Drain);
    assert_eq!(config.health.settle, Duration::from_secs(120));
    assert_eq!(config.health.checks.len(), 2);
    assert_eq!(config.health.scheduler.poll, Duration::ZERO);
    assert_eq!(config.listen, ["127.0.0.1:0".parse().unwrap()]);
    assert!(!config.health.scheduler.undrain);
    assert_eq!(loaded.files.len(), 3);
}

const KNOWN: [KnownCheck<'static>; 3] = [
    ("gpu_xid", Mode::Drain),
    ("gpu_missing", Mode::Drain),
    ("gpu_idle", Mode::Observe),
];

#[test]
fn no_check_may_do_more_than_it_can_be_trusted_with() {
    let files = Files::new(&[(
        "n.toml",
        "[health.checks]\ngpu_idle = \"comment\"\ngpu_xid = \"drain\"\n",
    )]);
    assert_eq!(
        files.problems(&["health.checks.gpu_idle=\"drain\""]),
        [
            "n.toml:2:12: health.checks.gpu_idle: found \"comment\", expected \"observe\"",
            "--set 'health.checks.gpu_idle=\"drain\"': health.checks.gpu_idle: found \"drain\", expected \"observe\"",
        ]
    );
}

#[test]
fn every_problem_of_every_file_is_reported_with_its_place() {
    let files = Files::new(&[
        (
            "n.toml",
            "lisen = [\"127.0.0.1:1\"]\n[health]\nmode = \"drian\"\n  settel = \"1s\"\nsettle = \"0s\"\n[health.checks]\ngpu_xidd = \"drain\"\ngpu_xid = 3\n",
        ),
        (
            "conf.d/a.toml",
            "listen = [\"localhost:1\", \"1.2.3.4:5\", 7]\nslurm = 3\n[slurm2]\n",
        ),
    ]);
    assert_eq!(
        files.problems(&["health.gpu_addresses=[\"3b:00\", \"zz\"]"]),
        [
            "n.toml:1:1: unknown key lisen, did you mean listen?",
            "n.toml:3:8: health.mode: found string \"drian\", expected \"observe\", \"comment\" or \"drain\"",
            "n.toml:4:3: unknown key health.settel, did you mean health.settle?",
            "n.toml:5:10: health.settle: found string \"0s\", expected a duration above 0, such as \"250ms\", \"15s\" or \"5m\"",
            "n.toml:7:1: unknown check gpu_xidd, did you mean gpu_xid?",
            "n.toml:8:11: health.checks: found integer 3, expected \"observe\", \"comment\" or \"drain\"",
            "conf.d/a.toml:1:11: listen: found string \"localhost:1\", expected an address, interface or \
             network with a port, such as \"127.0.0.1:19190\", \"[::]:19190\", \"ib0:19190\", \
             \"10.20.0.0/16:19190\" or \"[fd00::]/8:19190\"",
            "conf.d/a.toml:1:39: listen: found integer 7, expected an address, interface or network with a port, \
             such as \"127.0.0.1:19190\", \"[::]:19190\", \"ib0:19190\", \"10.20.0.0/16:19190\" or \
             \"[fd00::]/8:19190\"",
            "conf.d/a.toml:2:9: slurm: found integer 3, expected a table",
            "conf.d/a.toml:3:2: unknown key slurm2, did you mean slurm?",
            "--set 'health.gpu_addresses=[\"3b:00\", \"zz\"]': health.gpu_addresses: found string \"zz\", expected a \
             PCI address such as \"0000:3b:00.0\"",
        ]
    );
}

#[test]
fn a_profile_of_rdma_is_checked_key_by_key() {
    let files = Files::new(&[(
        "n.toml",
        "[health.rdma]\npfc = [3, 8]\ntrust = \"vlan\"\necn = 3\nmtu = 40\nfec = \"yes\"\nrate = \"400G\"\nfirmware = [\"\"]\naddresses = [\"x\"]\npcf = [3]\nports = \"mlx5_0\"\nexclude = [\"mlx5 0\"]\n",
    )]);
    assert_eq!(
        files.problems(&[]),
        [
            "n.toml:2:11: health.rdma.pfc: found integer 8, expected a priority from 0 to 7",
            "n.toml:3:9: health.rdma.trust: found string \"vlan\", expected \"dscp\" or \"pcp\"",
            "n.toml:4:7: health.rdma.ecn: found integer 3, expected an array of priorities from 0 to 7",
            "n.toml:5:7: health.rdma.mtu: found integer 40, expected a number of bytes from 68 to 65535",
            "n.toml:6:7: health.rdma.fec: found string \"yes\", expected \"off\", \"rs\", \"baser\" or \"llrs\"",
            "n.toml:7:8: health.rdma.rate: found string \"400G\", expected a number of gigabits per second from 1 to 10000",
            "n.toml:8:13: health.rdma.firmware: found string \"\", expected a firmware version such as \"28.43.1014\"",
            "n.toml:9:14: health.rdma.addresses: found string \"x\", expected a PCI address such as \"0000:19:00.0\"",
            "n.toml:10:1: unknown key health.rdma.pcf, did you mean health.rdma.pfc?",
            "n.toml:11:9: health.rdma.ports: found string \"mlx5_0\", expected an array of names of devices or ports",
            "n.toml:12:12: health.rdma.exclude: found string \"mlx5 0\", expected a name such as \"mlx5_0\", \"mlx5_*\" or \"mlx5_4/2\"",
        ]
    );
    let good = Files::new(&[(
        "n.toml",
        "[health.rdma]\npfc = [4, 3, 3]\nmtu = 9000\nrate = [400, 200]\nfirmware = [\"20.43.1014\", \"229.0.147.0/pkg 229.1\"]\nports = [\"mlx5_*\"]\nexclude = [\"mlx5_4\", \"mlx5_5/2\"]\n",
    )]);
    let rdma = good.load(&[]).unwrap().config.health.rdma;
    assert_eq!(rdma.rate, [400, 200]);
    assert_eq!(rdma.pfc, Some(vec![3, 4]));
    let about = |port| rdma.is_about(port);
    assert_eq!(["mlx5_0/1", "mlx5_5/1"].map(about), [true; 2]);
    assert_eq!(["mlx5_4/1", "mlx5_5/2", "bnxt_re0/1"].map(about), [false; 3]);
    assert_eq!((rdma.mtu, rdma.firmware.len(), rdma.trust), (Some(9000), 2, None));
}

/// The kernel shows no mount point in such a form, so that it would be missing on each node.
#[test]
fn a_mount_point_that_no_mount_table_shows_is_a_fault() {
    for point in ["/a/../b", "/a/.", "/..", "/a//b", "/a/", "/proc/x", "a"] {
        let files = Files::new(&[("n.toml", &format!("health.expect.mounts = [\"{point}\"]\n"))]);
        let problems = files.problems(&[]);
        assert!(
            problems[0].contains("expected an absolute path without"),
            "{problems:?}"
        );
    }
    let good = "health.expect.mounts = [\"/\", \"/a/.b\", \"/a/..c\", \"/my data\"]\n";
    assert!(Files::new(&[("n.toml", good)]).load(&[]).is_ok());
}

#[test]
fn an_address_twice_is_a_fault_however_it_is_written() {
    let lists = "gpu_addresses = [\"1b:00.0\", \"3b:00.0\", \"0000:1B:00.0\"]\n\
                 [health.rdma]\naddresses = [\"19:00.0\", \"19:00.0\"]\n";
    let files = Files::new(&[("n.toml", &format!("[health]\n{lists}"))]);
    assert_eq!(
        files.problems(&[]),
        [
            "n.toml:2:17: health.gpu_addresses: found \"0000:1b:00.0\" twice, expected each address once",
            "n.toml:4:13: health.rdma.addresses: found \"0000:19:00.0\" twice, expected each address once",
        ]
    );
}

#[test]
fn syntax_errors_do_not_hide_what_is_wrong_elsewhere() {
    let files = Files::new(&[("n.toml", "[health]\nmode = drain\nsettle = 5\n[[\n")]);
    let problems = files.problems(&[]);
    assert!(problems[0].starts_with("n.toml:2:8: "), "{problems:?}");
    assert!(
        problems
            .iter()
            .any(|p| p.starts_with("n.toml:3:10: health.settle: found integer 5"))
    );
    assert!(
        problems.iter().any(|p| p.starts_with("n.toml:4:")),
        "{problems:?}"
    );
}

#[test]
fn a_bare_word_gets_a_hint_about_quotes() {
    let files = Files::new(&[("n.toml", "")]);
    let problems = files.problems(&["health.mode=drain"]);
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].ends_with("strings need quotes: --set 'health.mode=\"drain\"'"),
        "{problems:?}"
    );
    assert!(files.problems(&["health.mode"])[0].starts_with("--set 'health.mode': "));
}

#[test]
fn a_quoted_key_is_not_a_path() {
    let files = Files::new(&[("n.toml", "\"health.mode\" = \"drain\"\n")]);
    assert_eq!(files.problems(&[]).len(), 1);
}

#[test]
fn a_named_file_must_be_there_and_be_text() {
    let files = Files::new(&[]);
    assert_eq!(files.problems(&[]), ["n.toml: no such file"]);
    files.put(b"a = 1\n  \xff");
    assert!(files.problems(&[])[0].starts_with("n.toml:2:3: found a byte that is not UTF-8"));
    files.put("#".repeat(1 << 20 | 1));
    assert_eq!(files.problems(&[]), ["n.toml: larger than 1 MiB"]);
}

#[test]
fn collector_tables_are_merged_and_checked_where_they_were_written() {
    let files = Files::new(&[
        ("n.toml", "[fake]\nlimit = 3\nname = \"a\"\n"),
        ("conf.d/a.toml", "fake.name = \"b\\nc\"\n"),
    ]);
    let config = files.load(&[]).unwrap().config;
    assert_eq!(config.collectors.get::<u64>(&LIMIT).unwrap(), 3);
    assert_eq!(config.collectors.get::<String>(&NAME).unwrap(), "b\nc");

    let files = Files::new(&[
        ("n.toml", "[fake]\nlimit = 3\nnam = \"a\"\n"),
        ("conf.d/a.toml", "\nfake.limit = \"x\"\n"),
    ]);
    assert_eq!(
        files.problems(&[]),
        [
            "n.toml:3:1: unknown key fake.nam, did you mean fake.name?",
            "conf.d/a.toml:2:14: fake.limit: found string \"x\", expected a number from 0 to 9",
        ]
    );
    // A rule that involves other keys is checked last.
    files.put("[fake]\nname = \"limit\"\n");
    std::fs::remove_file(files.0.path().join("conf.d/a.toml")).unwrap();
    assert_eq!(files.problems(&[]), ["n.toml:2:8: fake.name: as limit"]);
}

#[test]
fn a_command_with_a_missing_or_mistyped_key_is_named() {
    let files = Files::new(&[]);
    for (row, found) in [
        ("", "a table without timeout"),
        ("\nlimit = \"5s\"", "a table with the unknown key \"limit\""),
    ] {
        files.put(format!("[commands.pager]\ncommand = [\"/bin/p\"]{row}\n"));
        let [problem] = files.problems(&[]).try_into().unwrap();
        assert!(
            problem.ends_with(&format!(
                ": commands: pager: found {found}, expected a table with command and timeout"
            )),
            "{problem}"
        );
    }
}

#[test]
fn a_fifo_is_no_empty_drop_in() {
    let files = Files::new(&[("conf.d/a.toml", "")]);
    let path = files.0.path().join("conf.d/b.toml");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
    files.put("");
    let [problem] = files.problems(&[]).try_into().unwrap();
    assert!(
        problem.ends_with("b.toml: found a FIFO, expected a file"),
        "{problem}"
    );
}

/// A value that no key of this kind takes.
fn bad(kind: &Kind) -> &'static str {
    match kind {
        Kind::Boolean => "\"true\"",
        Kind::Integer { .. } => "-1",
        Kind::Duration { .. } => "\"5 minutes\"",
        Kind::Text { what: "a string", .. } => "7",
        Kind::Text { .. } | Kind::Name { .. } | Kind::Choice(_) => "\"\\u0000\"",
        Kind::Path => "\"here\"",
        Kind::List { .. } => "\"x\"",
        Kind::OneOrMore(of) => bad(of),
        Kind::Map { .. } | Kind::Record { .. } => "{ x = 7 }",
    }
}

#[test]
fn a_bad_value_of_each_key_is_refused_where_it_is_written() {
    for key in keys() {
        let set = format!("{} = {}", key.name, bad(&key.kind));
        let error = Config::load(Some(Path::new("/dev/null")), std::slice::from_ref(&set), &[]).unwrap_err();
        let message = format!("--set '{set}': {}: found ", key.name);
        let text = error.to_string();
        assert!(
            text.starts_with(&message) && text.contains(", expected "),
            "{text}"
        );
    }
}

/// Whether a value of this TOML type can ever fit.
fn may_fit(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Boolean => value.is_bool(),
        Kind::Integer { .. } => value.is_integer(),
        Kind::List { .. } => value.is_array(),
        Kind::OneOrMore(of) => value.is_array() || may_fit(of, value),
        Kind::Map { .. } | Kind::Record { .. } => value.is_table(),
        _ => value.is_str(),
    }
}

proptest! {
    #[test]
    fn a_value_of_a_wrong_type_is_refused_by_every_key(value in prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        proptest::collection::vec(any::<i64>(), 0..3).prop_map(Value::from),
        proptest::collection::btree_map("[a-z]{1,3}", any::<i64>(), 0..3).prop_map(Value::from),
    ]) {
        for key in keys().filter(|key| !may_fit(&key.kind, &value)) {
            let set = format!("{} = {value}", key.name);
            let error = Config::load(Some(Path::new("/dev/null")), &[set], &[]).unwrap_err().to_string();
            let expected = format!("{}, expected {}", key.name, key.kind.expected());
            prop_assert!(error.contains(&format!("{}: found ", key.name)), "{error}");
            prop_assert!(error.ends_with(&key.kind.expected()), "{error}: {expected}");
        }
    }
}

#[test]
fn addresses_are_kept_in_one_form() {
    let files = Files::new(&[("n.toml", "health.gpu_addresses = [\"3B:00.0\"]\n")]);
    let config = files.load(&[]).unwrap().config;
    assert_eq!(
        config.health.gpu_addresses,
        [PciAddress("0000:3b:00.0".to_owned())]
    );
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(key in "[a-z.\"]{0,12}", value in "\\PC{0,40}") {
        let sets = [format!("{key}={value}"), format!("health.{value}"), value];
        let null = Some(Path::new("/dev/null"));
        if let Err(error) = load(null, &sets, &[], &[&FAKE]) {
            prop_assert!(!error.problems.is_empty());
        }
    }
}

#[test]
fn metrics_are_switched_by_name_and_a_wrong_name_is_found() {
    let files = Files::new(&[(
        "n.toml",
        "[metrics]\ntier = \"detail\"\ninclude = [\"nodewarden_verdict\"]\nexclude = [\"nodewarden_mode_info\"]\n",
    )]);
    let metrics = files.load(&[]).unwrap().config.metrics;
    assert_eq!(metrics.tier, Tier::Detail);
    assert_eq!(metrics.include, ["nodewarden_verdict"]);
    assert_eq!(metrics.exclude, ["nodewarden_mode_info"]);

    let private = own::all_metrics().find(|m| m.tier == Tier::Private);
    let private = private.unwrap().name;
    files.put(format!(
        "[metrics]\ntier = \"private\"\ninclude = [\n  \"nodewarden_verdict\",\n  \"nodewarden_verdikt\",\n]\n\
         exclude = [\"zzz\", 1, {private:?}]\n"
    ));
    let problems = files.problems(&[]);
    for line in [
        "n.toml:2:8: metrics.tier: found string \"private\", expected \"core\", \"detail\" or \"debug\"",
        "n.toml:5:3: metrics.include: unknown metric \"nodewarden_verdikt\", did you mean nodewarden_verdict?",
        "n.toml:7:12: metrics.exclude: unknown metric \"zzz\", expected a name of docs/metrics.md",
        "n.toml:7:19: metrics.exclude: found integer 1, expected a metric name",
    ] {
        assert!(problems.iter().any(|p| p == line), "{line}\n{problems:#?}");
    }
    let never = format!("metrics.exclude: {private} is read by health checks only and never served");
    assert!(problems.iter().any(|p| p.ends_with(&never)), "{problems:#?}");
    assert_eq!(problems.len(), 5, "{problems:#?}");
}

#[test]
fn every_fault_of_a_command_has_its_place() {
    let files = Files::new(&[
        (
            "n.toml",
            "[commands.Bad]\ncommand = [\"true\"]\ntimeout = \"2h\"\n\
             [commands.none]\ncommand = []\ntimeout = \"0\"\n",
        ),
        (
            "conf.d/a.toml",
            "commands.nul = { command = [\"/bin/a\\u0000\"], timeout = \"1s\" }\n",
        ),
    ]);
    let problems = files.problems(&["commands.b={command=[\"b\"],timeout=\"1s\"}"]);
    for start in [
        "n.toml:1:11: name of a command: found \"Bad\"",
        "n.toml:2:11: commands.Bad.command: found program \"true\", expected an absolute path",
        "n.toml:3:11: commands.Bad.timeout: found 2h, expected 1ms to 1h",
        "n.toml:5:11: commands: found an array, expected an array of program",
        "n.toml:6:11: commands: found string \"0\"",
        "conf.d/a.toml:1:28: commands.nul.command: found a NUL byte",
        "--set 'commands.b={command=[\"b\"],timeout=\"1s\"}': commands.b.command: found program \"b\"",
    ] {
        assert!(
            problems.iter().any(|p| p.starts_with(start)),
            "{start}\n{problems:#?}"
        );
    }
    assert_eq!(problems.len(), 7, "{problems:#?}");
}

/// In whatever file: drop-ins may hold commands.
#[test]
fn the_command_of_notifications_is_one_of_the_configuration() {
    let files = Files::new(&[
        ("n.toml", "[notify]\ncommand = \"pager\"\n"),
        (
            "conf.d/a.toml",
            "[commands.pager]\ncommand = [\"/bin/true\"]\ntimeout = \"3s\"\n",
        ),
    ]);
    let notify = files.load(&[]).unwrap().config.notify.unwrap();
    assert_eq!(
        (notify.command.as_str(), notify.limit),
        ("pager", Duration::from_secs(3))
    );
    assert_eq!(
        Files::new(&[("n.toml", "")]).load(&[]).unwrap().config.notify,
        None
    );

    files.put("\n[notify]\ncommand = \"page\"\n");
    assert_eq!(
        files.problems(&[]),
        ["n.toml:3:11: notify.command: found \"page\", expected one of [commands]: pager"]
    );
    files.put("[notify]\ncommand = \"../pager\"\n");
    let problems = files.problems(&[]);
    let start = "n.toml:2:11: notify.command: found string \"../pager\", expected the name of a command";
    assert_eq!(problems, [start]);
    let alone = Files::new(&[("n.toml", "")]);
    assert_eq!(
        alone.problems(&["notify.command=\"pager\""]),
        [
            "--set 'notify.command=\"pager\"': notify.command: found \"pager\", \
          expected a table [commands.NAME], which is absent"
        ]
    );
}

/// The parent keeps it as JSON, without the programs.
#[test]
fn the_last_good_configuration_needs_a_runner_for_what_names_a_command() {
    let command = "[commands.a]\ncommand = [\"/bin/a\"]\ntimeout = \"30s\"\n";
    let check = "[[health.command]]\nname = \"a\"\ncommand = \"a\"\n";
    for (rest, is_named) in [("", false), (check, true), ("[notify]\ncommand = \"a\"\n", true)] {
        let text = format!("{command}{rest}");
        let files = Files::new(&[("n.toml", text.as_str())]);
        let config = files.load(&[]).unwrap().config;
        assert!(config.needs_runner(), "{rest}");
        let kept: Config = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert!(kept.commands.is_empty());
        assert_eq!(kept.needs_runner(), is_named, "{rest}");
    }
    assert!(
        !Files::new(&[("n.toml", "")])
            .load(&[])
            .unwrap()
            .config
            .needs_runner()
    );
}

/// Every default of a row.
#[test]
fn a_command_that_checks_the_node_needs_a_name_and_a_command() {
    let files = Files::new(&[
        (
            "n.toml",
            "[commands.a]\ncommand = [\"/bin/a\"]\ntimeout = \"30s\"\n\
             [commands.nhc]\ncommand = [\"/usr/sbin/nhc\", \"MARK_OFFLINE=0\"]\ntimeout = \"1m\"\n\
             [[health.command]]\nname = \"scratch\"\ncommand = \"a\"\n",
        ),
        (
            "conf.d/a.toml",
            "[[health.command]]\nname = \"nhc\"\ncommand = \"nhc\"\nevery = \"1m\"\nmode = \"drain\"\nscope = \"node\"\nafter = 3\n",
        ),
    ]);
    let config = files.load(&[]).unwrap().config;
    let [scratch, nhc] = config.health_commands.as_slice() else {
        panic!("{:?}", config.health_commands)
    };
    let row = health::settings::Command {
        name: "scratch".to_owned(),
        every: Duration::from_secs(300),
        mode: Mode::Observe,
        scope: health::checks::Scope::Shared,
        after: 2,
    };
    assert_eq!(scratch.check, row);
    assert_eq!(
        (scratch.limit, scratch.exits),
        (Duration::from_secs(30), crate::config::Exits::Own)
    );
    assert_eq!(
        (nhc.check.mode, nhc.check.after, nhc.exits),
        (Mode::Drain, 3, crate::config::Exits::Nhc)
    );
    assert_eq!(config.health.commands, [scratch.check.clone(), nhc.check.clone()]);
    // A later file replaces the row of a name.
    let set = "health.command=[{name=\"scratch\",command=\"a\",every=\"2h\"}]";
    let config = files.load(&[set]).unwrap().config;
    let every: Vec<_> = config
        .health
        .commands
        .iter()
        .map(|c| (c.name.as_str(), c.every.as_secs()))
        .collect();
    assert_eq!(every, [("nhc", 60), ("scratch", 7200)]);
}

#[test]
fn a_row_that_cannot_check_the_node_is_refused_where_it_is_written() {
    let commands = "[commands]\na = { command = [\"/bin/a\"], timeout = \"2m\" }\n\
                    nhc = { command = [\"/usr/sbin/nhc\", \"-a\"], timeout = \"20s\" }\npager = { command = [\"/bin/p\"], timeout = \"1s\" }\n";
    let files = Files::new(&[("conf.d/commands.toml", commands)]);
    let problems = |text: &str| {
        files.put(text);
        files.problems(&[])
    };
    for (row, at, message) in [
        (
            "name = \"x\"",
            "1:1",
            "health.command: found a table without command, expected a table with name, command and perhaps every",
        ),
        (
            "name = \"x\"\ncommand = \"a\"\nhow-often = \"5m\"",
            "1:1",
            "health.command: found a table with the unknown key \"how-often\", expected a table with name",
        ),
        (
            "name = \"X_1\"\ncommand = \"a\"",
            "2:8",
            "health.command: found string \"X_1\", expected 1 to 35 of a-z",
        ),
        (
            "name = \"a--b\"\ncommand = \"a\"",
            "2:8",
            "health.command: found string \"a--b\", expected 1 to 35",
        ),
        (
            "name = \"x\"\ncommand = \"a\"\nevery = \"30s\"",
            "4:9",
            "health.command: found string \"30s\", expected a time from \"1m\" to \"24h\"",
        ),
        (
            "name = \"x\"\ncommand = \"a\"\nafter = 0",
            "4:9",
            "health.command: found integer 0, expected a number of results from 1 to 10",
        ),
        (
            "name = \"x\"\ncommand = \"a\"\nmode = \"drain\"",
            "4:8",
            "health.command \"x\": found mode = \"drain\" with scope = \"shared\", expected scope = \"node\"",
        ),
        (
            "name = \"x\"\ncommand = \"b\"",
            "1:1",
            "health.command \"x\": found command \"b\", expected one of [commands]: a, nhc, pager",
        ),
        (
            "name = \"x\"\ncommand = \"a\"\nevery = \"1m\"",
            "1:1",
            "health.command \"x\": found commands.a.timeout = \"2m\", expected at most every = \"1m\"",
        ),
        (
            "name = \"x\"\ncommand = \"nhc\"",
            "1:1",
            "health.command \"x\": commands.nhc.command: found NHC without MARK_OFFLINE, expected the argument MARK_OFFLINE=0",
        ),
        (
            "name = \"x\"\ncommand = \"pager\"\n[notify]\ncommand = \"pager\"",
            "1:1",
            "health.command \"x\": found command \"pager\", which another row or notify.command uses",
        ),
    ] {
        let found = problems(&format!("[[health.command]]\n{row}\n"));
        let start = format!("n.toml:{at}: {message}");
        assert!(
            found.len() == 1 && found[0].starts_with(&start),
            "{start}\n{found:#?}"
        );
    }
    // The second row of a file has its own place.
    let row = |name: &str, command: &str| {
        format!("[[health.command]]\nname = \"{name}\"\ncommand = \"{command}\"\n")
    };
    assert!(
        problems(&(row("x", "a") + &row("x", "a")))[0]
            .starts_with("n.toml:4:1: health.command: found \"x\" twice")
    );
    assert!(
        problems(&(row("x", "a") + &row("y", "a")))[0]
            .starts_with("n.toml:4:1: health.command \"y\": found command \"a\", which")
    );
    let many: String = (0..17).map(|n| row(&format!("c{n}"), &format!("c{n}"))).collect();
    assert!(
        problems(&many)
            .iter()
            .any(|p| p.starts_with("n.toml:49:1: health.command \"c16\": found row 17, expected at most 16"))
    );
    // Its mode is in its row.
    assert!(
        problems(&(row("x", "a") + "[health.checks]\nsite-x = \"drain\"\n"))[0]
            .starts_with("n.toml:5:1: health.checks.site-x: found a check of the site, expected mode in its [[health.command]]")
    );
}
