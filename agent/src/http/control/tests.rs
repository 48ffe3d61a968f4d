use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::{NodeStatus, Reply, Request};
use crate::http::fake::Fake;
use crate::http::{Server, bind_control, spawn};
use crate::own::sample;
use crate::own::{JobAccess, OwnFacts, Page};
use crate::web::{Access, Gate};
use health::view::View;
use model::jobs::{JobsView, Line};
use model::snapshot::{Presence, Snapshot};

struct Running {
    _server: Server,
    dir: tempfile::TempDir,
    fake: Fake,
}

impl Running {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::new();
        *fake.page.lock().unwrap() = Arc::new(Page {
            facts: OwnFacts {
                operators: Arc::from(["4000000000".to_owned()]),
                ..OwnFacts::default()
            },
            ..sample::page()
        });
        let control = bind_control(dir.path()).unwrap();
        let server = spawn(
            fake.clone(),
            Vec::new(),
            Some(control),
            &Gate::new(Access::default()),
        )
        .unwrap();
        Self {
            _server: server,
            dir,
            fake,
        }
    }

    fn ask(&self, lines: &[&str]) -> Vec<serde_json::Value> {
        let mut stream = UnixStream::connect(self.dir.path().join(super::SOCKET)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        lines
            .iter()
            .map(|line| {
                stream.write_all(format!("{line}\n").as_bytes()).unwrap();
                let mut reply = String::new();
                reader.read_line(&mut reply).unwrap();
                serde_json::from_str(&reply).unwrap()
            })
            .collect()
    }
}

#[test]
fn questions_and_orders() {
    let running = Running::start();
    let replies = running.ask(&[
        r#"{"verb":"status"}"#,
        r#"{"verb":"why"}"#,
        r#"{"verb":"why","id":"abcdefgh"}"#,
        r#"{"verb":"why","id":"zzzzzzzz"}"#,
        r#"{"verb":"ack","id":"abcdefgh","reason":" board ordered "}"#,
        r#"{"verb":"clear","id":"zzzzzzzz","reason":"x"}"#,
        r#"{"verb":"clear","id":"../../etc","reason":"x"}"#,
        r#"{"verb":"clear","id":"abcdefgh","reason":" "}"#,
        r#"{"verb":"clear","id":"abcdefgh","reason":"a\nb"}"#,
        r#"{"verb":"drain"}"#,
        "nonsense",
    ]);
    assert_eq!(replies[0]["status"]["view"]["verdict"]["health"], "unhealthy");
    let collectors = replies[0]["status"]["collectors"].as_array().unwrap();
    let test = collectors.iter().find(|c| c["name"] == "test").unwrap();
    assert_eq!(test["troubled"][0]["subject"], "pci c");
    // Nothing was read for 100 s.
    assert_eq!(
        (&test["series"], &test["age_ms"]),
        (&0.into(), &serde_json::Value::Null)
    );
    assert_eq!(replies[1]["incidents"][0]["id"], "abcdefgh");
    assert_eq!(replies[2]["incidents"][0]["act"], "reboot");
    assert_eq!(replies[3]["refused"], "unknown incident zzzzzzzz");
    assert_eq!(replies[4]["done"], "acknowledged abcdefgh");
    for refused in &replies[5..] {
        assert!(refused["refused"].is_string(), "{refused}");
    }
    let orders = running.fake.orders.lock().unwrap();
    assert_eq!(orders.len(), 2);
    assert_eq!(orders[0].reason, "board ordered");
    assert!(!orders[0].by.is_empty());
    // Whatever refused them, and no question among them.
    let refused = running.fake.refused.lock().unwrap();
    let ids = ["zzzzzzzz", "", "abcdefgh", "abcdefgh"];
    assert_eq!(refused.len(), ids.len());
    for (entry, id) in refused.iter().zip(ids) {
        assert_eq!(entry.order.as_deref(), Some("clear"));
        assert_eq!(entry.incident.as_ref().map_or("", |id| &id.0), id);
        assert_eq!(entry.uid, Some(nix::unistd::geteuid().as_raw()));
        assert!(entry.why.is_some() && entry.by.is_some() && entry.at > 1_700_000_000);
    }
}

/// The page is from the last reading, which is up to a health tick ago.
#[test]
fn ages_are_those_at_the_time_of_the_request() {
    let age = |now| {
        let status = NodeStatus::of(&sample::page(), now);
        let test = status.collectors.into_iter().find(|c| c.name == "test");
        test.unwrap().age_ms
    };
    let read = age(sample::AT).unwrap();
    assert_eq!(age(sample::AT + Duration::from_secs(12)), Some(read + 12_000));
    // A clock that is behind the page makes nothing younger than it is.
    assert_eq!(age(Duration::ZERO), Some(read));
}

#[test]
fn a_line_without_end_is_refused() {
    let running = Running::start();
    let mut stream = UnixStream::connect(running.dir.path().join(super::SOCKET)).unwrap();
    stream.write_all(&vec![b' '; 64 * 1024]).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("refused"), "{reply}");
}

#[tokio::test]
async fn a_stranger_may_look_but_not_order() {
    let fake = Fake::new();
    let ask = |uid, json: &str| super::answer(serde_json::from_str(json).unwrap(), uid, &fake);
    let stranger = 3_999_999_999;
    let why = ask(stranger, r#"{"verb":"why"}"#).await;
    assert!(matches!(why, Reply::Incidents(_)));
    let clear = r#"{"verb":"clear","id":"abcdefgh","reason":"x"}"#;
    let refused = ask(stranger, clear).await;
    assert!(
        matches!(&refused, Reply::Refused(t) if t.starts_with("permission denied")),
        "{refused:?}"
    );
    assert!(fake.orders.lock().unwrap().is_empty());
    *fake.page.lock().unwrap() = Arc::new(Page {
        facts: OwnFacts {
            operators: Arc::from([stranger.to_string()]),
            ..OwnFacts::default()
        },
        ..sample::page()
    });
    assert!(matches!(ask(stranger, clear).await, Reply::Done(_)));
    assert_eq!(fake.orders.lock().unwrap()[0].by, stranger.to_string());
}

#[test]
fn a_release_lasts_as_long_as_its_connection() {
    let running = Running::start();
    let released = || running.fake.released.lock().unwrap().len();
    let until =
        |count| testkit::wait::until_true("releases", Duration::from_secs(60), || released() == count);
    let ask = |stream: &mut BufReader<UnixStream>, line: &str| {
        stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
        let mut reply = String::new();
        stream.read_line(&mut reply).unwrap();
        reply
    };
    let connect = || BufReader::new(UnixStream::connect(running.dir.path().join(super::SOCKET)).unwrap());
    let order = r#"{"verb":"release","domain":"nvidia","seconds":600}"#;

    let mut first = connect();
    assert!(ask(&mut first, r#"{"verb":"resume"}"#).contains("no release on this connection"));
    assert!(
        ask(&mut first, r#"{"verb":"release","domain":"tpu","seconds":600}"#)
            .contains("expected one of nvidia")
    );
    assert!(ask(&mut first, r#"{"verb":"release","domain":"nvidia","seconds":0}"#).contains("invalid limit"));
    assert_eq!(released(), 0);
    let refused = || running.fake.refused.lock().unwrap().len();
    assert_eq!(refused(), 2, "no end of a release among them");
    assert!(ask(&mut first, order).contains("nvidia is released"));
    assert_eq!(released(), 1);
    let clear = r#"{"verb":"clear","id":"abcdefgh","reason":"x"}"#;
    for other in [order, clear] {
        assert!(ask(&mut first, other).contains("`status` and `resume` only"));
    }
    assert_eq!(refused(), 4);
    assert!(running.fake.orders.lock().unwrap().is_empty());
    assert!(ask(&mut first, r#"{"verb":"status"}"#).contains("status"));
    assert!(ask(&mut first, r#"{"verb":"resume"}"#).contains("release ended"));
    assert_eq!(released(), 0);

    // A client that closes without `resume` ends its release, and so does the time limit.
    let mut silent = connect();
    assert!(ask(&mut silent, order).contains("nvidia is released"));
    drop(silent);
    until(0).unwrap();
    let mut late = connect();
    assert!(ask(&mut late, r#"{"verb":"release","domain":"nvidia","seconds":1}"#).contains("is released"));
    until(0).unwrap();
    let mut rest = String::new();
    assert_eq!(late.read_line(&mut rest).unwrap(), 0, "{rest}");
}

#[tokio::test]
async fn a_stranger_may_not_release() {
    let fake = Fake::new();
    let (reply, lease) = super::release::release("nvidia", 600, (3_999_999_999, None), &fake)
        .await
        .unwrap();
    assert!(
        matches!(&reply, Reply::Refused(t) if t.starts_with("permission denied")),
        "{reply:?}"
    );
    assert!(lease.is_none() && fake.released.lock().unwrap().is_empty());
}

/// A page with jobs of the users 1000 and 1001 and one of unknown owner, and an incident about job 7.
fn page_with_jobs(access: JobAccess) -> Arc<Page> {
    let line = |job: &str, uid: Option<u32>| Line {
        job: job.to_owned(),
        user: uid.map(|uid| uid.to_string()).unwrap_or_default(),
        uid,
        ..Line::default()
    };
    let mut page = sample::page();
    page.facts.access = access;
    page.facts.jobs = Arc::new(JobsView {
        running: vec![line("7", Some(1000)), line("8", Some(1001)), line("9", None)],
        ended: [Arc::new(line("5", Some(1000)))].into(),
        ..JobsView::default()
    });
    let mut view = sample::view();
    let finding = &mut view.incidents[0].findings[0];
    finding.jobs = vec!["7".to_owned()];
    finding.evidence = vec!["job 7 of user 1000".to_owned()];
    page.view = Arc::new(view);
    Arc::new(page)
}

/// The same page, where these jobs are those of the finding, and whether its evidence may be about others.
fn page_about(jobs: &[&str], others: bool, evidence: &str) -> Arc<Page> {
    let page = page_with_jobs(JobAccess::Own);
    let mut view = View::clone(&page.view);
    let finding = &mut view.incidents[0].findings[0];
    finding.jobs = jobs.iter().map(|job| (*job).to_owned()).collect();
    (finding.others, finding.evidence) = (others, vec![evidence.to_owned()]);
    Arc::new(Page {
        view: Arc::new(view),
        ..Page::clone(&page)
    })
}

#[tokio::test]
async fn a_user_sees_the_jobs_that_access_allows() {
    let fake = Fake::new();
    for (access, uid, seen) in [
        (JobAccess::Own, 1000, "7 5"),
        (JobAccess::Own, 1001, "8"),
        (JobAccess::Own, 1002, ""),
        (JobAccess::Own, 0, "7 8 9 5"),
        (JobAccess::Operators, 1000, ""),
        (JobAccess::Operators, 0, "7 8 9 5"),
        (JobAccess::All, 1002, "7 8 9 5"),
    ] {
        *fake.page.lock().unwrap() = page_with_jobs(access);
        let Reply::Jobs(jobs) = super::answer(Request::Jobs, uid, &fake).await else {
            panic!("no jobs");
        };
        let ended = jobs.ended.iter().map(AsRef::as_ref);
        let lines: Vec<&Line> = jobs.running.iter().chain(ended).collect();
        let numbers: Vec<&str> = lines.iter().map(|l| l.job.as_str()).collect();
        assert_eq!(numbers.join(" "), seen, "{access:?} {uid}");
        assert_eq!(jobs.withheld, 4 - lines.len(), "{access:?} {uid}");
        assert!(
            lines.iter().all(|l| l.uid.is_none()),
            "users may be shown as hashes"
        );
    }
}

#[tokio::test]
async fn evidence_about_another_users_job_is_withheld() {
    let fake = Fake::new();
    let asked = [
        Request::Status,
        Request::Why { id: None },
        Request::Why {
            id: Some("abcdefgh".to_owned()),
        },
    ];
    for (access, uid, seen) in [
        (JobAccess::Own, 1000, true),
        (JobAccess::Own, 1001, false),
        (JobAccess::Own, 0, true),
        (JobAccess::Operators, 1000, false),
        (JobAccess::All, 1001, true),
    ] {
        *fake.page.lock().unwrap() = page_with_jobs(access);
        for request in &asked {
            let reply = super::answer(request.clone(), uid, &fake).await;
            let text = serde_json::to_string(&reply).unwrap();
            assert_eq!(text.contains("of user 1000"), seen, "{access:?} {uid} {text}");
            assert_eq!(text.contains("access.jobs"), !seen, "{access:?} {uid} {text}");
            assert!(
                text.contains(r#""jobs":["7"]"#),
                "numbers are on every page: {text}"
            );
        }
    }
}

/// The user 1000 owns job 7.
#[tokio::test]
async fn evidence_that_may_be_about_others_is_withheld_from_the_owner_of_one_job() {
    let fake = Fake::new();
    for (jobs, others, evidence, seen) in [
        (&["7"][..], false, "python3 (pid 500)", true),
        (&["7"], true, "python3 (pid 500)", false),
        (&["7"], true, "jobs 7, 8", false),
        (&["7", "8"], false, "python3 (pid 500)", false),
        (&[], true, "python3 (pid 500)", false),
        // A value of the hardware, at a time without jobs.
        (&[], true, "gpu_up 0", true),
    ] {
        *fake.page.lock().unwrap() = page_about(jobs, others, evidence);
        for (uid, seen) in [(1000, seen), (0, true)] {
            let reply = super::answer(Request::Why { id: None }, uid, &fake).await;
            let text = serde_json::to_string(&reply).unwrap();
            assert_eq!(text.contains(evidence), seen, "{uid} {jobs:?} {others} {text}");
        }
    }
}

#[tokio::test]
async fn a_kernel_line_that_names_a_program_is_withheld() {
    let fake = Fake::new();
    for (detail, evidence, seen) in [
        (
            "a task has been blocked for minutes",
            "INFO: task secret:4242 blocked for more than 120 seconds.",
            false,
        ),
        (
            "the node has no memory left",
            "Out of memory: Kill process 4242 (secret) score 900",
            false,
        ),
        (
            "a processor ran one task for a long time",
            "BUG: soft lockup - CPU#2 stuck for 22s! [secret:4242]",
            false,
        ),
        (
            "the kernel crashed and runs on",
            "BUG: scheduling while atomic: secret/4242/0x00000002",
            false,
        ),
        (
            "an ext4 error",
            "EXT4-fs error (device sda1): ext4_lookup:1785: inode #2: comm secret: x",
            false,
        ),
        (
            "the port cut the device off after an error",
            "pcieport 0000:00:01.0: DPC: containment event",
            true,
        ),
    ] {
        let page = page_about(&[], true, &format!("kernel log: {evidence}"));
        let mut view = View::clone(&page.view);
        detail.clone_into(&mut view.incidents[0].findings[0].detail);
        *fake.page.lock().unwrap() = Arc::new(Page {
            view: Arc::new(view),
            ..Page::clone(&page)
        });
        for (uid, seen) in [(1000, seen), (0, true)] {
            let reply = super::answer(Request::Why { id: None }, uid, &fake).await;
            let text = serde_json::to_string(&reply).unwrap();
            assert_eq!(text.contains(evidence), seen, "{uid} {text}");
        }
    }
}

/// Their errors name cgroups, which may hold the number of a job's owner.
#[tokio::test]
async fn errors_of_collectors_that_read_jobs_are_withheld() {
    const PATH: &str = "/sys/fs/cgroup/memory/slurm/uid_1000/job_7";
    let fake = Fake::new();
    let page = page_with_jobs(JobAccess::Own);
    let mut snapshot = Snapshot::clone(&page.snapshot);
    for c in snapshot.collectors_mut() {
        c.presence = Presence::Failed("io".to_owned(), format!("{PATH}: Permission denied"));
    }
    *fake.page.lock().unwrap() = Arc::new(Page {
        snapshot: Arc::new(snapshot),
        ..Page::clone(&page)
    });
    for (uid, sees_all) in [(1001, false), (0, true)] {
        let Reply::Status(status) = super::answer(Request::Status, uid, &fake).await else {
            panic!("no status");
        };
        for c in &status.collectors {
            let seen = sees_all || !["slurm", "tasks"].contains(&c.name.as_str());
            assert_eq!(c.text.contains(PATH), seen, "{uid} {}: {}", c.name, c.text);
        }
    }
}
