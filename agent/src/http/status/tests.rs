use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::own::sample;
use health::view::View;
use model::commands::{CommandResult, CommandRun, CommandState};
use model::snapshot::DeviceState;

const WALL: i64 = 1_700_007_384;
const NOW: Duration = Duration::from_secs(1010);

fn report(page: &Page) -> StatusReport {
    StatusReport::of(page, NOW, WALL, "gpu017".to_owned())
}

fn json(page: &Page) -> serde_json::Value {
    serde_json::from_slice(&report(page).json().unwrap()).unwrap()
}

#[test]
fn the_json_holds_its_fields() {
    let json = json(&sample::page());
    assert_eq!(json["version"], 1);
    assert_eq!(json["host"], "gpu017");
    assert_eq!(json["verdict"]["health"], "unhealthy");
    assert_eq!(json["verdict"]["age"], 10);
    let incident = &json["incidents"][0];
    assert_eq!(incident["id"], "abcdefgh");
    assert_eq!(incident["remedy"], "reboot");
    assert_eq!(incident["mode"], "observe");
    assert_eq!(incident["age"], 7384);
    assert_eq!(incident["ends"], "a reboot");
    assert_eq!(incident["acknowledged"], false);
    assert_eq!(json["drain"]["state"], "none");
    let all = json["collectors"].as_array().unwrap();
    let collector = all.iter().find(|c| c["name"] == "test").unwrap();
    assert_eq!(collector["devices"], 3);
    let late = &collector["late"][0];
    assert_eq!((&late["device"], &late["age"]), (&"pci c".into(), &20.into()));
    assert_eq!(
        (&late["task_state"], &late["wait_channel"]),
        (&"D".into(), &"nv_wait".into())
    );
    assert_eq!(
        json["workers"].as_array().unwrap().len(),
        collectors::DOMAINS.len()
    );
}

/// The table is the interface: a program that reads the page is written after it.
#[test]
fn the_json_has_the_fields_of_its_document_and_no_others() {
    let document = include_str!("../../../../docs/http.md");
    let rows = document
        .lines()
        .skip_while(|line| !line.starts_with("| `version`"));
    let names = rows.take_while(|row| row.starts_with('|')).flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        cell.split('`').skip(1).step_by(2)
    });
    let documented: BTreeSet<&str> = names.map(|name| name.trim_end_matches("[]")).collect();
    let json = json(&sample::page());
    let fields: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, documented);
}

/// What a script prints may name a user.
#[test]
fn commands_of_the_site_are_shown_without_their_output() {
    let mut page = sample::page();
    let mut snapshot = Snapshot::clone(&page.snapshot);
    let mut state = CommandState::new("site-disk".to_owned(), Duration::from_secs(180));
    state.ended(CommandRun {
        at: NOW - Duration::from_secs(75),
        took: Duration::from_millis(1250),
        result: CommandResult::Unhealthy,
        why: "exit code 1".to_owned(),
        line: "alice fills /scratch".to_owned(),
    });
    snapshot.commands = [state, CommandState::new("site-new".to_owned(), Duration::MAX)].into();
    page.snapshot = Arc::new(snapshot);
    let mut view = sample::view();
    view.incidents[0].check = "site-disk".to_owned();
    view.incidents[0].detail = "alice fills /scratch".to_owned();
    page.view = Arc::new(view);
    let json = json(&page);
    assert_eq!(
        json["commands"],
        serde_json::json!([
            { "check": "site-disk", "result": "unhealthy", "age": 75, "took": 1.25 },
            { "check": "site-new", "result": "none", "age": null, "took": null },
        ])
    );
    assert_eq!(
        json["incidents"][0]["detail"],
        "reported by a command of the site"
    );
    assert_eq!(json["incidents"][0]["runbook"], "docs/runbooks/custom-check.md");
    let html = render(&report(&page), false);
    for part in [
        "<td>site-disk</td><td>unhealthy</td>",
        "1 min 15 s",
        "<td>site-new</td><td>none</td>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("alice") && !json.to_string().contains("alice"));
    assert!(!render(&report(&sample::page()), false).contains("Site checks"));
}

/// An incident as the engine makes it.
#[test]
fn an_incident_of_a_command_of_the_site_has_none_of_its_output() {
    let row = health::settings::Command {
        name: "disk".to_owned(),
        every: Duration::from_secs(60),
        mode: Mode::Drain,
        scope: checks::Scope::Node,
        after: 1,
    };
    let mut page = sample::page();
    let mut snapshot = Snapshot::clone(&page.snapshot);
    let mut state = CommandState::new(row.check(), row.max_age());
    state.ended(CommandRun {
        at: snapshot.at,
        took: Duration::from_secs(1),
        result: CommandResult::Unhealthy,
        why: "exit code 1".to_owned(),
        line: "alice fills /scratch".to_owned(),
    });
    snapshot.commands = [state].into();
    let settings = health::Settings {
        commands: vec![row],
        ..crate::config::Config::default().health
    };
    let policy = health::policy::Policy::new(&settings, None).unwrap();
    let now = health::Now {
        boottime: snapshot.at,
        wall: WALL,
    };
    let boot = collectors::BootId("b".to_owned());
    let mut engine = health::engine::Engine::new(policy, boot, None, now).unwrap();
    engine.step(now, health::Input::Snapshot(&snapshot));
    page.snapshot = Arc::new(snapshot);
    page.view = Arc::new(engine.view());
    let json = json(&page);
    let all = json["incidents"].as_array().unwrap();
    let incident = all.iter().find(|i| i["check"] == "site-disk").unwrap();
    assert_eq!(
        incident["ends"],
        "site-disk: healthy readings, or `nodewarden clear`"
    );
    let html = render(&report(&page), false);
    assert!(html.contains("site-disk"));
    assert!(
        !html.contains("alice") && !json.to_string().contains("alice"),
        "{json}"
    );
}

#[test]
fn an_incident_names_the_place_and_its_runbook() {
    let mut report = report(&sample::page());
    report.gpus = vec![GpuView {
        gpu: "GPU-1".to_owned(),
        index: "3".to_owned(),
        pci: "0000:3b:00.0".to_owned(),
        ..GpuView::default()
    }];
    let html = render(&report, false);
    for part in [
        "<h3>GPU 3 (0000:3b:00.0): GPU has fallen off the bus, xid79",
        "<dt>Subject</dt><dd>gpu GPU-1</dd>",
        "<a href=\"/runbooks/xid\">xid</a>",
    ] {
        assert!(html.contains(part), "{part} in\n{html}");
    }
}

#[test]
fn closed_incidents_are_listed_without_the_reason_of_their_end() {
    let mut view = sample::view();
    let mut closed = view.incidents.remove(0);
    closed.closed = Some(WALL - 60);
    closed.clears = "alice cleared it".to_owned();
    view.incidents = (0..12)
        .map(|n| IncidentView {
            id: format!("closed{n:02}"),
            closed: Some(WALL - 60 * n),
            ..closed.clone()
        })
        .collect();
    let mut page = sample::page();
    page.view = Arc::new(view);
    let json = json(&page);
    assert_eq!(json["closed"].as_array().unwrap().len(), MOST_CLOSED);
    assert_eq!(
        (&json["closed"][0]["id"], &json["closed"][9]["age"]),
        (&"closed00".into(), &540.into())
    );
    let html = render(&report(&page), false);
    assert!(html.contains("closed09") && !html.contains("closed10"));
    assert!(!html.contains("alice") && !json.to_string().contains("alice"));
}

#[test]
fn the_page_says_what_is_wrong_and_escapes_it() {
    let page = render(&report(&sample::page()), false);
    let since = crate::screen::zoned_time(1_700_000_000);
    for part in [
        "<p class=\"verdict\">unhealthy</p>",
        "gpu GPU-1: GPU has fallen off the bus, xid79 &quot;fell&quot;\u{fffd}",
        &format!("2 h 3 min, since {since}"),
        "<b>reboot</b>",
        "observe mode: would drain",
        "pci c: no answer for 20 s, uninterruptible (D) in <code>nv_wait</code>",
        "nodewarden why abcdefgh",
        "href=\"/metrics?tier=detail\"",
        "href=\"/api/v1/status\"",
    ] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn a_gpu_is_a_row_and_what_is_not_known_is_empty() {
    let mut report = report(&sample::page());
    assert!(!render(&report, false).contains("<h2>GPUs"), "there are none");
    report.gpus = vec![
        GpuView {
            gpu: "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4".to_owned(),
            index: "0".to_owned(),
            name: "NVIDIA <H100>".to_owned(),
            utilization: Some(0.97),
            memory_used: Some(3.0),
            memory_total: Some(4.0),
            temperature: Some(61.4),
            power: Some(642.31),
            instances: 7,
            up: Some(true),
            jobs: vec!["4712".to_owned(), "<4713>".to_owned()],
            ..GpuView::default()
        },
        GpuView {
            gpu: "pci:0000:43:00.0".to_owned(),
            up: Some(false),
            trouble: vec!["lost".to_owned(), "xid 79".to_owned()],
            ..GpuView::default()
        },
    ];
    let page = render(&report, false);
    for row in [
        "<tr class=\"\"><td>0</td><td class=\"n\">97 %</td><td class=\"n\">75 %</td><td class=\"n\">61 °C</td>\
         <td class=\"n\">642 W</td><td class=\"whole\">4712, &lt;4713&gt;</td><td><b>ok</b>, 7 instances</td></tr><tr class=\"sub\"><td class=\"soft\" colspan=\"7\">NVIDIA &lt;H100&gt; <br>GPU-6f1c2f0e",
        "<tr class=\"bad\"><td>?</td><td class=\"n\"></td><td class=\"n\"></td>\
         <td class=\"n\"></td><td class=\"n\"></td><td class=\"whole\"></td><td><b>lost, xid 79</b></td></tr><tr class=\"sub\"><td class=\"soft\" colspan=\"7\"> <br>pci:0000:43:00.0</td>",
    ] {
        assert!(page.contains(row), "{row} in\n{page}");
    }
}

#[test]
fn a_filesystem_is_a_row_and_what_is_not_known_is_empty() {
    let mut report = report(&sample::page());
    assert!(
        !render(&report, false).contains("<h2>Filesystems"),
        "there are none"
    );
    let home = MountView {
        mountpoint: "/home/<b>".to_owned(),
        fstype: "nfs4".to_owned(),
        up: Some(false),
        trouble: vec!["no answer".to_owned()],
        ..MountView::default()
    };
    let scratch = MountView {
        size: Some(4096.0),
        free: Some(1024.0),
        available: Some(1024.0),
        up: Some(true),
        trouble: Vec::new(),
        ..home.clone()
    };
    report.mounts = vec![home, scratch];
    let page = render(&report, false);
    for row in [
        "<tr class=\"bad\"><td>/home/&lt;b&gt;<br><span class=\"soft\">nfs4</span></td><td class=\"n\"></td>\
         <td class=\"n\"></td><td><b>no answer</b></td></tr>",
        "<td class=\"n\">4.0 KiB</td><td class=\"n\">75 %</td><td><b>ok</b></td></tr>",
    ] {
        assert!(page.contains(row), "{row} in\n{page}");
    }
}

/// Whatever people wrote and whatever the log said must be on neither page.
#[test]
fn no_user_names_and_no_log_lines() {
    const SECRET: &str = "alice4711";
    let mut view = sample::view();
    let secret = || SECRET.to_owned();
    let incident = view.incidents.first_mut().unwrap();
    incident.ack = Some((secret(), 1, secret()));
    incident.history = vec![(1, secret())];
    let finding = incident.findings.first_mut().unwrap();
    finding.evidence = vec![format!("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name={SECRET}")];
    let mut closed = incident.clone();
    closed.closed = Some(2);
    closed.clears = format!("cleared by {SECRET}");
    view.incidents.push(closed);
    view.drain.state = "foreign".to_owned();
    view.drain.why = secret();
    view.drain.reason = Some(secret());
    view.verdict.health = Health::Unknown;
    view.verdict.text = format!("a failure of {SECRET}");
    view.verdict.blind = Some("test");
    let failed = DeviceState {
        error: Some(("io".to_owned(), secret())),
        ..sample::device("a", |_| {})
    };
    let mut snapshot = sample::snapshot(vec![failed]);
    for c in snapshot.collectors_mut() {
        c.watcher = Some(Err(("parse".to_owned(), secret())));
    }
    snapshot.collectors_mut().next().unwrap().presence = Presence::Failed("io".to_owned(), secret());
    let mut facts = sample::page().facts;
    facts.operators = Arc::from([secret()]);
    let page = Page {
        snapshot: Arc::new(snapshot),
        view: Arc::new(view),
        facts,
    };
    let report = report(&page);
    let (html, json) = (
        render(&report, false),
        String::from_utf8(report.json().unwrap()).unwrap(),
    );
    for text in [&html, &json] {
        assert!(!text.contains(SECRET) && !text.contains("NVRM"), "{text}");
        assert!(
            text.contains("abcdefgh") && text.contains("collector test is failed: parse"),
            "{text}"
        );
    }
}

/// A folder of cgroup v1 names the owner of its job.
#[test]
fn a_late_reading_of_a_job_has_no_path() {
    const PATH: &str = "/sys/fs/cgroup/memory/slurm/uid_1000/job_7/memory.usage_in_bytes";
    let mut snapshot = sample::snapshot(Vec::new());
    for c in snapshot.collectors_mut() {
        let mut late = sample::late("c");
        late.late.as_mut().unwrap().task.as_mut().unwrap().call = format!("read {PATH}");
        (c.presence, c.devices) = (Presence::Open, vec![late]);
    }
    let page = Page {
        snapshot: Arc::new(snapshot),
        ..sample::page()
    };
    for c in &report(&page).collectors {
        let call = &c.late[0].call;
        assert_eq!(
            call.contains(PATH),
            !["slurm", "tasks"].contains(&c.name),
            "{}: {call}",
            c.name
        );
        assert_eq!(c.late[0].wait_channel, "nv_wait");
    }
}

#[test]
fn what_a_core_that_hangs_has_read_of_a_gpu_is_shown_no_longer() {
    let mut device = sample::device("a", |b| b.u64(&collectors::gpu::metrics::UP, &["GPU-1"], 1));
    device.subject = collectors::Subject::gpu("GPU-1");
    let mut page = sample::page();
    page.snapshot = Arc::new(sample::snapshot(vec![device]));
    let up = |at| StatusReport::of(&page, at, WALL, String::new()).gpus[0].up;
    let at = page.snapshot.at;
    assert_eq!(up(at), Some(true));
    assert_eq!(up(at + Duration::from_secs(3600)), None);
}

#[test]
fn a_verdict_that_is_too_old_is_none() {
    let page = sample::page();
    let late = StatusReport::of(&page, Duration::from_secs(1046), WALL, String::new());
    assert_eq!(late.verdict.health, Health::Unknown);
    assert!(render(&late, false).contains("<p class=\"verdict\">unknown</p>"));
}

#[test]
fn a_quiet_node_has_a_quiet_page() {
    let mut view = View {
        incidents: Vec::new(),
        ..sample::view()
    };
    view.verdict.health = Health::Healthy;
    let page = Page {
        view: Arc::new(view),
        ..sample::page()
    };
    let text = render(&report(&page), false);
    assert!(text.contains("<p class=\"verdict\">healthy</p>") && text.contains("Open incidents: 0"));
}

#[test]
fn an_unknown_verdict_says_which_gpu_is_missing() {
    let doubt = "the GPU at 0000:43:00.0 is not on the PCI bus, although its incident was cleared";
    let mut view = sample::view();
    view.verdict.health = Health::Unknown;
    doubt.clone_into(&mut view.verdict.text);
    let page = Page {
        view: Arc::new(view),
        ..sample::page()
    };
    assert_eq!(report(&page).verdict.text, doubt);
}

/// Who reads with a screen reader, or compares, needs a page that stays.
#[test]
fn a_browser_loads_it_again_unless_asked_not_to() {
    let report = report(&sample::page());
    for (still, link) in [(false, "href=\"/?refresh=off\""), (true, "href=\"/\"")] {
        let page = render(&report, still);
        assert_eq!(page.contains("http-equiv=\"refresh\""), !still);
        assert!(page.contains(link), "{link} in\n{page}");
    }
}

/// At the top, where the reason of an unknown verdict is looked for.
#[test]
fn collectors_in_trouble_are_above_the_tables_that_they_leave_empty() {
    let mut report = report(&sample::page());
    report.gpus = vec![GpuView::default()];
    let is_above = |report: &StatusReport| {
        let page = render(report, false);
        page.find("<h2>Collectors").unwrap() < page.find("<h2>GPUs").unwrap()
    };
    assert!(is_above(&report));
    for collector in &mut report.collectors {
        collector.state = "ok";
        collector.late.clear();
    }
    assert!(!report.collectors.is_empty() && !is_above(&report));
}
