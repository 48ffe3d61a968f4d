use testkit::tree::{Entry, put};

use super::*;
use crate::Env;
use crate::slurm::hook::End;
use crate::slurm::{JobDevices, SPEC};
use crate::sys::kept::DescriptorBudget;

struct Node {
    dir: tempfile::TempDir,
    spool: Spool,
}

impl Node {
    fn new(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::recorded(dir.path());
        let settings = SPEC.settings(settings).unwrap();
        let spool = Spool::new(
            &JobDevices::new(&env, &settings, DescriptorBudget::new(1))
                .unwrap()
                .common,
        );
        Self { dir, spool }
    }

    fn write(&self, path: &str, text: &str) {
        let entry = Entry::File(text.as_bytes().to_vec());
        put(&self.dir.path().join("root").join(path), &entry).unwrap();
    }

    fn record(&self, name: &str, text: &str) {
        self.write(&format!("run/nodewarden/jobs/ended/{name}"), text);
    }

    fn take(&mut self) -> Vec<JobEnd> {
        let mut all = Vec::new();
        let done: Result<(), ()> = self.spool.take(Instant::now(), |end| {
            all.push(end);
            Ok(())
        });
        done.unwrap();
        all
    }

    fn jobs(&mut self) -> Vec<u32> {
        self.take().iter().map(|end| end.record.job).collect()
    }
}

const RECORD: &str =
    "start = 1795227133.5\nuid = 1000\nuser = \"ada\"\naccount = \"projb\"\npartition = \"gpu\"\n";

#[test]
fn a_record_has_what_prolog_and_epilog_were_told() {
    let mut node = Node::new("user = \"name\"");
    let end = "gpus = \"0,2\"\n[end]\nexit_code = 3\nsignal = 0\n";
    node.write(
        "etc/slurm/gres.conf",
        "AutoDetect=off\nName=gpu File=/dev/nvidia[2,3,0,1]\n",
    );
    for minor in 0..4 {
        node.write(&format!("dev/nvidia{minor}"), &format!("195:{minor}\n"));
    }
    node.record("1795227140000000-7.toml", &format!("job = 7\n{RECORD}{end}"));
    node.record("dropped", "xx");
    let expected = JobEnd {
        record: RecordId {
            ended_us: 1_795_227_140_000_000,
            job: 7,
        },
        start_us: Some(1_795_227_133_500_000),
        end: Some(End {
            exit_code: 3,
            ..End::default()
        }),
        uid: Some(1000),
        user: "ada".to_owned(),
        account: "projb".to_owned(),
        partition: "gpu".to_owned(),
        devices: Some(vec!["nvidia2".to_owned(), "nvidia0".to_owned()]),
        dropped: 2,
        ..JobEnd::default()
    };
    assert_eq!(node.take(), [expected]);
    assert_eq!(node.take(), []);
    assert!(node.spool.common().hooks.has_ended(7, 1_795_227_133.5));
}

#[test]
fn gpus_that_gres_conf_does_not_name_are_unknown_and_the_rest_is_reported() {
    let mut node = Node::new("user = \"off\"");
    node.record(
        "0000000000000001-7.toml",
        &format!("job = 7\n{RECORD}gpus = \"0\"\n"),
    );
    node.record("0000000000000002-8.toml", &format!("job = 8\n{RECORD}"));
    let all = node.take();
    assert_eq!([&all[0].devices, &all[1].devices], [&None, &None]);
    assert_eq!(
        (all[0].user.as_str(), all[0].uid, all[0].partition.as_str()),
        ("", Some(1000), "gpu")
    );
}

#[test]
fn records_are_taken_in_order_once_and_those_of_another_slurmd_are_left() {
    let mut node = Node::new("node = \"n1\"");
    assert!(!node.spool.has_news());
    for (name, text) in [
        ("0000000000000003-7.toml", "job = 7\n"),
        ("0000000000000001-9.toml", "job = 9\nnode = \"n1\"\n"),
        ("0000000000000002-8.toml", "job = 8\nnode = \"n0\"\n"),
        ("0000000000000004-6.toml", "job = 6\nsta"),
        ("0000000000000005-6.toml", "job = 5\n"),
        (".0000000000000006-4.toml.new", "job = 4\n"),
    ] {
        node.record(name, text);
    }
    assert!(node.spool.has_news());
    assert_eq!(node.jobs(), [9, 7]);
    assert!(!node.spool.has_news());
    node.record("0000000000000006-7.toml", "job = 7\n");
    assert_eq!(node.jobs(), [7], "another run");
    // A report that does not arrive is repeated by the next process, which knows nothing of this one.
    let mut again = Spool::new(&node.spool.common);
    assert_eq!(again.take(Instant::now(), |_| Err("closed")), Err("closed"));
}

/// gres.conf may be on a mount that hangs.
#[test]
fn a_record_waits_for_gres_conf_for_a_minute_and_is_then_reported_without_gpus() {
    let mut node = Node::new("");
    node.record("0000000000000001-7.toml", "job = 7\ngpus = \"0\"\n");
    node.record("0000000000000002-8.toml", "job = 8\n");
    let common = Arc::clone(&node.spool.common);
    let held = common.positions.lock().unwrap();
    let start = Instant::now();
    let at = |node: &mut Node, seconds: u64| {
        let mut jobs = Vec::new();
        let now = start + Duration::from_secs(seconds);
        let done: Result<(), ()> = node.spool.take(now, |end| {
            jobs.push(end.record.job);
            Ok(())
        });
        done.unwrap();
        jobs
    };
    assert_eq!(at(&mut node, 0), [0; 0]);
    assert!(node.spool.is_waiting());
    assert_eq!(at(&mut node, 30), [0; 0]);
    assert_eq!(at(&mut node, 61), [7, 8]);
    assert!(!node.spool.is_waiting());
    drop(held);
}
