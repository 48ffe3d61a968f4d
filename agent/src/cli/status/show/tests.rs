use super::*;
use crate::http::control::{DeviceView, GpuView, LeaseView};
use crate::own::sample;
use crate::screen::{PLAIN, columns, short_time};

/// Three seconds after the verdict.
const NOW: ReplyTime = ReplyTime {
    boottime_ms: 1_003_000,
    wall: 1_700_003_600,
};

fn status() -> NodeStatus {
    NodeStatus::of(&sample::page(), sample::AT)
}

#[test]
fn commands_of_the_site_have_a_table() {
    let mut status = status();
    assert!(!show(&status, NOW, &PLAIN).contains("site check"));
    let command = |check: &str, result: &str, why: &str, ms| CommandView {
        check: check.to_owned(),
        result: result.to_owned(),
        why: why.to_owned(),
        age_ms: ms,
        took_ms: ms,
    };
    status.commands = vec![
        command(
            "site-nhc",
            "timed_out",
            "timed out after 20s and was killed",
            Some(20_150),
        ),
        command("site-scratch", "none", "", None),
    ];
    let text = show(&status, NOW, &PLAIN);
    let expected = "\
site check    result      age    took
site-nhc      timed_out  20 s  20.1 s  timed out after 20s and was killed
site-scratch  none
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_page_says_everything_at_a_glance() {
    let since = short_time(1_700_000_000);
    let version = env!("CARGO_PKG_VERSION");
    let mut status = status();
    status.collectors.retain(|c| c.name == "test");
    status.workers.truncate(1);
    let expected = format!(
        "\
verdict  unhealthy, checked 3 s ago
         xid79 gpu GPU-1 act=reboot id=abcdefgh
drain    none; mode observe: drains are only counted

incidents  1 open
  id        since        does         what          remedy  subject
  abcdefgh  {since}  would drain  xid79 \"fell\"  reboot  gpu GPU-1

collector  state  devices  series  age
test       late         3       5  0 s  deadline
                                        pci c: no answer for 10 s, state D in nv_wait, ioctl
                                        /dev/nvidiactl

worker  pid  starts
kernel            0  down

nodewarden {version}, up 60 min, mode observe; `nodewarden why` shows evidence and remedy
"
    );
    let found = show(&status, NOW, &PLAIN);
    assert_eq!(found, expected, "\n{found}");
}

#[test]
fn a_held_drain_and_a_pause_are_shown_with_their_reason() {
    let mut status = status();
    status.view.drain.state = "held".to_owned();
    status.view.drain.why = "3 of 3 drain slots for xid.79 of partition gpu are taken".to_owned();
    status.view.pause = Some(health::pause::Pause {
        by: "alice".to_owned(),
        reason: "driver upgrade".to_owned(),
        since: 1_700_000_000,
        until: 1_700_007_200,
    });
    let text = show(&status, NOW, &PLAIN);
    let until = screen::time(1_700_007_200);
    for part in [
        "held: 3 of 3 drain slots for xid.79 of partition gpu are taken".to_owned(),
        format!("paused   by alice until {until}: driver upgrade"),
    ] {
        assert!(text.contains(&part), "{text}");
    }
}

#[test]
fn an_expired_verdict_is_no_verdict() {
    let late = ReplyTime {
        boottime_ms: 2_000_000,
        ..NOW
    };
    let text = show(&status(), late, &PLAIN);
    assert!(
        text.starts_with("verdict  unknown: the last verdict, unhealthy, is 16 min old and has expired\n"),
        "{text}"
    );
    assert!(text.contains("journalctl -u nodewarden"), "{text}");
}

#[test]
fn a_drain_says_why_since_when_and_whether_it_is_recorded() {
    let mut status = status();
    status.mode = Mode::Drain;
    status.view.drain = DrainView {
        state: "drained".to_owned(),
        why: "by us".to_owned(),
        incident: Some("abcdefgh".to_owned()),
        reason: Some("nodewarden:xid gpu GPU-1 xid79".to_owned()),
        since: Some(1_700_000_000),
        recorded: false,
        held: None,
        guard: None,
    };
    status.config_error = true;
    status.restart_needed = true;
    status.state_unused = true;
    let text = show(&status, NOW, &PLAIN);
    for part in [
        "drained: by us",
        "nodewarden:xid gpu GPU-1 xid79",
        &screen::time(1_700_000_000),
        "never lifted automatically",
        "`nodewarden config check`,",
        "the --config and --set of the daemon",
        "the new addresses need `systemctl restart nodewarden`",
        "the state directory is not used",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn hostile_content_stays_on_the_screen_and_drives_nothing() {
    let evil = format!(
        "\x1b]0;x\x07\u{202e}{}\r\n\u{9b}2J{}",
        "節".repeat(200),
        "w".repeat(200)
    );
    let mut status = status();
    status.view.verdict.text = evil.clone();
    status.view.drain.state = evil.clone();
    status.view.drain.reason = Some(evil.clone());
    for i in &mut status.view.incidents {
        (i.id, i.subject, i.detail, i.act) = (evil.clone(), evil.clone(), evil.clone(), evil.clone());
    }
    for c in &mut status.collectors {
        (c.name, c.state, c.reason, c.text) = (evil.clone(), evil.clone(), evil.clone(), evil.clone());
        c.troubled.push(DeviceView {
            subject: evil.clone(),
            text: evil.clone(),
        });
    }
    for w in &mut status.workers {
        (w.name, w.down) = (evil.clone(), evil.clone());
    }
    status.version = evil;
    for width in [40, 72, 100] {
        let text = show(&status, NOW, &Screen { width, ..PLAIN });
        for line in text.lines() {
            assert!(columns(line) <= width, "{width}: {line}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let colour = Screen {
        colour: true,
        ..PLAIN
    };
    let mut text = show(&status(), NOW, &colour);
    assert!(
        text.contains("\x1b[1;31munhealthy, checked 3 s ago\x1b[0m"),
        "{text:?}"
    );
    for code in ["0", "1", "2", "32", "33", "1;31"] {
        text = text.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(text, show(&status(), NOW, &PLAIN));
}

#[test]
fn a_driver_that_is_let_go_of_says_for_whom_and_for_how_long() {
    let mut status = status();
    status.workers.truncate(1);
    status.workers[0].down = "released".to_owned();
    for (left, note) in [
        (Some(3500), "released to ana (pid 7), for another 58 min"),
        (None, "closing the driver, for ana (pid 7)"),
    ] {
        status.workers[0].lease = Some(LeaseView {
            by: "ana (pid 7)".to_owned(),
            left,
        });
        let page = show(&status, NOW, &PLAIN);
        assert!(page.contains(note), "{page}");
    }
}

/// A serial console has 80 columns, half a terminal 60. `ack` and `clear` need the whole id.
#[test]
fn an_incident_on_a_narrow_terminal_has_its_whole_id() {
    let uuid = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
    let mut status = status();
    let incident = &mut status.view.incidents[0];
    incident.subject = format!("gpu {uuid}");
    incident.detail = "persistence mode off".to_owned();
    let gpu = GpuView {
        gpu: uuid.to_owned(),
        index: "1".to_owned(),
        ..GpuView::default()
    };
    for gpus in [vec![gpu], vec![]] {
        status.gpus = gpus;
        for width in [50, 60, 80] {
            let text = show(&status, NOW, &Screen { width, ..PLAIN });
            assert!(text.contains("\n  abcdefgh  "), "{width}: {text}");
            let is_known = !status.gpus.is_empty();
            assert_eq!(text.contains("  gpu 1\n"), is_known, "{width}: {text}");
            let is_whole = width == 80 && is_known;
            assert_eq!(
                text.contains("  persistence mode off  "),
                is_whole,
                "{width}: {text}"
            );
        }
    }
}
