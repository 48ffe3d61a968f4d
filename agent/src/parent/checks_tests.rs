use std::path::Path;

use health::Mode;
use health::checks::Scope;
use health::settings::Command;
use serde_json::Value;

use super::*;
use crate::runner::fake;

const LONG: Duration = Duration::from_secs(60);

fn row(name: &str, command: &str) -> HealthCommand {
    HealthCommand {
        check: Command {
            name: name.to_owned(),
            every: LONG,
            mode: Mode::Observe,
            scope: Scope::Shared,
            after: 2,
        },
        command: command.to_owned(),
        limit: LONG,
        exits: Exits::Own,
    }
}

fn checks(rows: &[HealthCommand]) -> SiteChecks {
    SiteChecks::new(rows, Waker::new().unwrap())
}

/// All rows are due.
fn start(checks: &mut SiteChecks, socket: &Path) -> Vec<CommandState> {
    for row in &mut checks.rows {
        row.next = Instant::now();
    }
    checks.start(Some(&Client::new(socket)), Some("gpu017"))
}

fn wait(checks: &mut SiteChecks) -> Vec<CommandState> {
    let look = || Ok(Some(checks.ended()).filter(|ended| !ended.is_empty()));
    testkit::wait::until("a result", LONG, look).unwrap()
}

/// A runner that answers every request with this reply, except those for `hangs`.
fn runner(socket: &Path, reply: &'static str) -> Receiver<Value> {
    fake::serve(socket, move |request| {
        (request["name"] != "hangs").then(|| reply.to_owned())
    })
}

const OK: &str = r#"{"ended":{"code":0,"stdout":"all mounts fine\nmore\n","stderr":"","truncated":false}}"#;

#[test]
fn a_command_gets_node_reason_and_version_and_its_first_line_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let requests = runner(&socket, OK);
    let mut checks = checks(&[row("disk", "check-disk")]);
    for why in ["start", "interval"] {
        assert!(start(&mut checks, &socket).is_empty());
        let state = wait(&mut checks).pop().unwrap();
        let request = requests.recv().unwrap();
        assert_eq!(request["name"], "check-disk");
        let input = &request["input"];
        for (field, value) in [("check", "site-disk"), ("why", why), ("node", "gpu017")] {
            assert_eq!(input[field], value);
        }
        assert_eq!(input["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(input["host"], here::hostname());
        let run = state.last.unwrap();
        assert_eq!(
            (state.check.as_str(), run.result),
            ("site-disk", CommandResult::Healthy)
        );
        assert_eq!(
            (run.line.as_str(), run.why.as_str()),
            ("all mounts fine", "exit code 0")
        );
        assert!(run.at <= boot::boottime() && run.at + LONG > boot::boottime());
    }
    assert_eq!(checks.states().next().unwrap().runs, [2, 0, 0, 0, 0]);
}

#[test]
fn each_end_of_a_command_has_its_meaning() {
    use CommandResult::{Failed, Healthy, TimedOut, Unhealthy, Unknown};
    for (code, own, nhc) in [
        (0, Healthy, Healthy),
        (1, Unhealthy, Unhealthy),
        (2, Unknown, Unhealthy),
        (3, Unknown, Unhealthy),
        (10, Unknown, Unknown),
        (123, Unknown, Unhealthy),
        (124, Unknown, TimedOut),
        (125, Unknown, Unknown),
        (127, Unknown, Unknown),
        (142, Unknown, TimedOut),
        (143, Unknown, Unknown),
        (-1, Unknown, Unknown),
    ] {
        assert_eq!(meaning(Exits::Own, code), own, "{code}");
        assert_eq!(meaning(Exits::Nhc, code), nhc, "NHC {code}");
    }
    for (reply, result) in [
        (Reply::TimedOut("timed out after 5s".to_owned()), TimedOut),
        (Reply::Failed("ended by SIGSEGV".to_owned()), Failed),
        (Reply::Refused("an earlier run has not ended".to_owned()), Failed),
    ] {
        let (found, why, line) = judged(Exits::Own, Ok(reply.clone()));
        assert_eq!((found, line.as_str()), (result, ""), "{reply:?}");
        assert!(!why.is_empty());
    }
}

#[test]
fn output_is_cut_and_made_printable() {
    let stdout = format!("\x1b[31m{}\nsecond", "x".repeat(1 << 16));
    let reply = Reply::Ended {
        code: 1,
        stdout,
        stderr: String::new(),
        truncated: true,
    };
    let run = run(Duration::ZERO, judged(Exits::Own, Ok(reply)));
    assert!(
        run.line.starts_with("\\x1b[31mxxx") && run.line.len() == MAX_LINE,
        "{}",
        run.line
    );
}

/// The next run of a command does not start before the last one has ended, and no other command waits.
#[test]
fn a_command_that_hangs_costs_itself_only() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let requests = runner(&socket, OK);
    let mut checks = checks(&[row("hangs", "hangs"), row("disk", "check-disk")]);
    for _ in 0..3 {
        start(&mut checks, &socket);
        assert_eq!(wait(&mut checks).pop().unwrap().check, "site-disk");
    }
    let names: Vec<Value> = requests
        .try_iter()
        .map(|request| request["name"].clone())
        .collect();
    assert_eq!(names.iter().filter(|name| *name == "hangs").count(), 1);
    assert_eq!(names.len(), 4);
    let next = checks.deadline().unwrap();
    assert_eq!(next, checks.rows[1].next, "the row that runs has no deadline");
}

#[test]
fn the_interval_is_spread_and_the_first_run_is_soon() {
    let rows: Vec<_> = (0..16).map(|n| row(&format!("c{n}"), &format!("c{n}"))).collect();
    let begin = Instant::now();
    let mut checks = checks(&rows);
    let all = |checks: &SiteChecks| checks.rows.iter().map(|row| row.next).collect::<Vec<_>>();
    let first = all(&checks);
    assert!(
        first
            .iter()
            .all(|at| *at <= begin + FIRST + Duration::from_secs(1))
    );
    let begin = Instant::now();
    for row in &mut checks.rows {
        row.next = begin;
    }
    // Without a runner each has failed at once.
    let failed = checks.start(None, None);
    assert_eq!(failed.len(), 16);
    let run = failed[0].last.clone().unwrap();
    assert_eq!(run.result, CommandResult::Failed);
    assert!(run.why.contains("restart nodewarden"), "{}", run.why);
    let next = all(&checks);
    let least = begin + LONG.mul_f64(0.9);
    let most = Instant::now() + LONG.mul_f64(1.1);
    assert!(next.iter().all(|at| (least..=most).contains(at)));
    for times in [first, next] {
        let mut times = times;
        times.sort();
        times.dedup();
        assert!(times.len() > 8, "{times:?}");
    }
}

#[test]
fn a_reload_keeps_results_of_the_same_command_and_drops_those_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let _requests = runner(&socket, OK);
    let mut checks = checks(&[row("disk", "check-disk"), row("ntp", "check-ntp")]);
    start(&mut checks, &socket);
    let mut ended = wait(&mut checks).len();
    while ended < 2 {
        ended += wait(&mut checks).len();
    }
    let mut slower = row("disk", "check-disk");
    slower.check.every = LONG * 5;
    checks.configure(&[row("ntp", "other"), slower]);
    let states: Vec<_> = checks
        .states()
        .map(|s| (s.check.as_str(), s.last.is_some()))
        .collect();
    assert_eq!(states, [("site-ntp", false), ("site-disk", true)]);
    assert_eq!(checks.states().nth(1).unwrap().max_age, LONG * 15);
    // The result of a row that is gone is no result of its successor.
    start(&mut checks, &socket);
    checks.configure(&[]);
    checks.configure(&[row("disk", "check-disk")]);
    thread::sleep(Duration::from_millis(200));
    assert!(checks.ended().is_empty());
    assert_eq!(checks.states().next().unwrap().runs, [0; 5]);
}
