//! Complete fixtures through collectors and engine: what nodewarden would do on such a node.
//!
//! A case is `fixtures/<collector>/<case>/` or `fixtures/demo`: its tree, its kernel log, and perhaps `health.toml`.
//! `expected.health` holds the verdict, the incidents and the acts in mode drain. `UPDATE_GOLDEN=1` writes it again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads and writes its own fixtures"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use collectors::{COLLECTORS, Env, Event, Events, Settings};
use health::engine::Engine;
use health::policy::Policy;
use health::{Effect, Input};
use nodewarden::config::Config;
use testkit::play::Driver;
use testkit::tree;

#[path = "common/reading.rs"]
mod reading;

use reading::{now, snapshot};

/// Every event of the recorded kernel log.
fn events(env: &Env) -> Vec<Event> {
    let opened = (collectors::kernel_log::SPEC.open)(env, &Settings::default()).unwrap();
    let Some(mut watcher) = opened.and_then(|source| source.watcher) else {
        return Vec::new();
    };
    let (to, from) = mpsc::sync_channel(100_000);
    watcher.run(None, &Events::new(to)).unwrap();
    drop(watcher);
    from.try_iter().collect()
}

fn judge(case: &Path) -> String {
    let copy = tempfile::tempdir().unwrap();
    tree::unpack(case, copy.path()).unwrap();
    let mut driver = Driver::open(case, copy.path()).unwrap();
    let boot_id = Some("11111111-2222-3333-4444-555555555555".to_owned());
    let env = Env {
        boot_id,
        ..Env::recorded(copy.path())
    };
    let file = case.join("health.toml");
    let file = file.is_file().then_some(file);
    let sets = ["health.mode=\"drain\"".to_owned()];
    // An empty file in place of the default, so that the machine's own configuration has no effect.
    let empty = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let config = Config::load(Some(file.as_deref().unwrap_or(empty.path())), &sets, &[])
        .unwrap()
        .config;
    let policy = Policy::new(&config.health, None).unwrap();
    let boot = collectors::sys::boot::boot_id(&env).unwrap();

    let mut engine = Engine::new(policy, boot, None, now(Duration::ZERO))
        .unwrap()
        .replaying();
    let mut acts = Vec::new();
    let mut take = |effects: Vec<Effect>| {
        for effect in effects {
            if let Effect::Act(_, action) = effect {
                acts.push(format!("{action:?}"));
            }
        }
    };
    take(engine.step(now(Duration::ZERO), Input::Tick));
    for event in events(&env) {
        take(engine.step(now(Duration::ZERO), Input::Event("kernel_log", &event)));
    }
    // Three minutes of health ticks before the first step and after each.
    let (mut ticks, mut laid) = (0, 0);
    let mut steps = tree::steps(case).unwrap().into_iter();
    loop {
        for _ in 0..12 {
            ticks += 1;
            let time = now(Duration::from_secs(15 * ticks));
            take(engine.step(
                time,
                Input::Snapshot(&snapshot(
                    &env,
                    &config.collectors,
                    driver.as_ref(),
                    time.boottime,
                )),
            ));
        }
        let Some(step) = steps.next() else { break };
        tree::lay_step(&step, copy.path()).unwrap();
        laid += 1;
        if let Some(driver) = &mut driver {
            driver.advance(Duration::from_secs(15 * ticks), laid).unwrap();
        }
    }
    // A comment is written within a minute.
    for more in 1..=4 {
        take(engine.step(now(Duration::from_secs(15 * (ticks + more))), Input::Tick));
    }
    let view = engine.view();
    let mut out = format!("verdict {:?}: {}\n", view.verdict.health, view.verdict.text);
    for incident in &view.incidents {
        writeln!(
            out,
            "incident {} {}: {} act={} drains={}\n  ends by: {}",
            incident.check, incident.subject, incident.detail, incident.act, incident.drains, incident.clears
        )
        .unwrap();
        for finding in &incident.findings {
            writeln!(out, "  finding {} x{}", finding.detail, finding.count).unwrap();
            for line in &finding.evidence {
                writeln!(out, "    {line}").unwrap();
            }
        }
    }
    for act in acts {
        writeln!(out, "act {act}").unwrap();
    }
    for (gpu, codes) in &view.ledger.xids {
        for (code, count) in codes {
            writeln!(out, "counted xid {code} of {gpu}: {}", count.count).unwrap();
        }
    }
    for (switch, codes) in &view.ledger.sxids {
        for (code, count) in codes {
            writeln!(out, "counted sxid {code} of {switch}: {}", count.count).unwrap();
        }
    }
    out
}

fn cases() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut cases = vec![fixtures.join("demo")];
    for spec in COLLECTORS {
        for entry in fs::read_dir(fixtures.join(spec.name)).unwrap() {
            cases.push(entry.unwrap().path());
        }
    }
    cases.sort();
    cases
}

#[test]
fn every_fixture_is_judged_as_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for case in cases() {
        let found = judge(&case);
        let path = case.join("expected.health");
        if update {
            fs::write(&path, &found).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != found {
            wrong.push(format!("{}:\n{found}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
