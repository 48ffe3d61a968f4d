use std::path::Path;

use super::*;
use crate::http::control::{GpuView, NodeStatus};
use crate::own::sample;
use crate::screen::{PLAIN, columns, time};
use health::view::{DrainView, FindingView};

/// One hour after the sample's incident began.
const NOW: i64 = 1_700_003_600;

fn caller() -> Caller {
    Caller::called("nodewarden", Some(Path::new("/tmp/run")))
}

/// The page on a node whose GPUs are unknown.
fn show(i: &IncidentView, view: &View, caller: &Caller, now: i64, screen: &Screen) -> String {
    show::show(i, (view, &[]), caller, now, screen)
}

/// The sample's incident, with a second finding.
fn incident() -> IncidentView {
    let mut i = sample::view().incidents.remove(0);
    i.detail = "xid79".to_owned();
    i.findings.push(FindingView {
        check: "edac-uncorrected".to_owned(),
        detail: "mc0".to_owned(),
        count: 1,
        first: 1_700_000_060,
        last: 1_700_000_060,
        evidence: vec!["host_edac_uncorrected_errors_total{controller=\"mc0\"} 1 > 0".to_owned()],
        jobs: vec!["4711".to_owned(), "4712".to_owned()],
        others: false,
    });
    i.history.push((1_700_000_060, "joined by mc0".to_owned()));
    i.ack = Some(("ana".to_owned(), 1_700_000_100, "board ordered".to_owned()));
    i
}

fn shown(i: &IncidentView, drain: &DrainView) -> String {
    let view = View {
        drain: drain.clone(),
        comment: Some(i.id.clone()),
        ..sample::view()
    };
    show(i, &view, &caller(), NOW, &PLAIN)
}

#[test]
fn an_incident_is_shown_from_evidence_to_remedy() {
    let (at, later, ack) = (time(1_700_000_000), time(1_700_000_060), time(1_700_000_100));
    let expected = format!(
        "\
incident abcdefgh  open
  what          xid: xid79: GPU has fallen off the bus
                CONDITION
  subject       gpu GPU-1 at 0000:3b:00.0
  since         {at} (60 min ago)
  does          would drain; mode observe counts it and writes nothing to Slurm
  remedy        reboot: reboot the node, or power it off and on
  ends by       a reboot
  acknowledged  {ack} by ana: board ordered
  runbook       page /runbooks/xid, or /usr/share/doc/nodewarden/runbooks/xid.md of the package
  evidence
    xid xid79, 2 times, {at} to {at} (60 min ago)
      NVRM: Xid (PCI:0000:3b:00): 79
    edac-uncorrected mc0, {later} (59 min ago)
      host_edac_uncorrected_errors_total{{controller=\"mc0\"}} 1 > 0
      jobs then: 4711, 4712
  history
    {at}  opened
    {later}  joined by mc0
  what you can do
    scontrol reboot NODENAME
      the remedy, after jobs have ended; never with ASAP or nextstate, which can lift every drain
    nodewarden clear abcdefgh --reason 'TEXT' --run-dir /tmp/run
      after the repair: closes the incident and lifts nodewarden's drain
"
    );
    let found = shown(&incident(), &sample::view().drain);
    // The fields of the check are those of its row, of any length.
    let fields: Vec<&str> = found
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with("  subject"))
        .collect();
    for (field, _) in health::checks::xid::CHECK.conditions() {
        assert!(
            fields.iter().any(|line| line.starts_with(&format!("  {field}"))),
            "{found}"
        );
    }
    let expected = expected.replace("                CONDITION", &fields.join("\n"));
    assert_eq!(found, expected, "\n{found}");
}

#[test]
fn what_it_does_depends_on_the_mode_and_on_our_drain() {
    let mut drain = sample::view().drain;
    let mut i = incident();
    i.mode = Mode::Comment;
    assert!(shown(&i, &drain).contains("in the node's Comment"));
    i.mode = Mode::Drain;
    drain.state = "drained".to_owned();
    drain.incident = Some(i.id.clone());
    drain.reason = Some("nodewarden:xid x".to_owned());
    assert!(shown(&i, &drain).contains("our drain: drained: nodewarden:xid x"));
    drain.why = "nodewarden:xid x".to_owned();
    assert_eq!(
        shown(&i, &drain).matches("nodewarden:xid x").count(),
        1,
        "said once"
    );
    (i.acts, i.could) = (false, Mode::Observe);
    assert!(shown(&i, &drain).contains("never drains the node, in any mode"));
    i.check = "kernel-crash".to_owned();
    let text = shown(&i, &drain);
    assert!(
        text.contains("changes the node only if health.checks.kernel-crash is set"),
        "{text}"
    );
    i.check = "site-disk".to_owned();
    let text = shown(&i, &drain);
    assert!(
        text.contains("changes the node only if mode of its [[health.command]] is set"),
        "{text}"
    );
    (i.closed, i.state) = (Some(NOW), "cleared".to_owned());
    let text = shown(&i, &drain);
    assert!(
        text.contains("none, closed") && text.contains("because"),
        "{text}"
    );
    assert!(!text.contains("what you can do"), "{text}");
}

#[test]
fn hostile_content_stays_on_the_screen_and_drives_nothing() {
    let evil = format!(
        "\x1b]0;x\x07\u{202e}{}\r\n\u{9b}2J{}",
        "節".repeat(200),
        "w".repeat(200)
    );
    let mut i = incident();
    for text in [
        &mut i.subject,
        &mut i.check,
        &mut i.detail,
        &mut i.act,
        &mut i.clears,
        &mut i.state,
    ] {
        text.clone_from(&evil);
    }
    i.findings[0].evidence.push(evil.clone());
    i.history.push((0, evil.clone()));
    i.ack = Some((evil.clone(), 0, evil));
    for width in [40, 100] {
        let text = show(&i, &sample::view(), &caller(), NOW, &Screen { width, ..PLAIN });
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        // Commands are never wrapped, so that they can be pasted; this one fits the screen.
        let wide = text
            .lines()
            .filter(|l| !l.starts_with("incident") && !l.contains("--reason"));
        assert!(wide.clone().all(|l| columns(l) <= width.max(60)), "{text}");
    }
}

#[test]
fn a_name_picks_by_id_subject_or_their_beginning() {
    let mut status = NodeStatus::of(&sample::page(), sample::AT);
    let mut closed = incident();
    (closed.id, closed.closed, closed.subject_name) = ("zyxwvuts".to_owned(), Some(NOW), "GPU-2".to_owned());
    closed.subject = "gpu GPU-2".to_owned();
    status.view.incidents.push(closed);
    status.view.incidents[0].check = "gpu-down".to_owned();
    status.view.incidents[0].findings[0].check = "xid".to_owned();
    let ids = |name: Option<&str>, all| {
        select(&status, name, all).map(|found| {
            found
                .incidents
                .iter()
                .map(|i| i.id.clone())
                .collect::<Vec<_>>()
                .join(" ")
        })
    };
    for (name, all, found) in [
        (None, false, "abcdefgh"),
        (None, true, "abcdefgh zyxwvuts"),
        (Some("abcdefgh"), false, "abcdefgh"),
        (Some("zyxwvuts"), false, "zyxwvuts"),
        (Some("GPU-1"), false, "abcdefgh"),
        (Some("gpu GPU-"), false, "abcdefgh"),
        (Some("GPU-"), true, "abcdefgh zyxwvuts"),
        (Some("GPU-2"), false, "zyxwvuts"),
        (Some("abc"), false, "abcdefgh"),
    ] {
        assert_eq!(ids(name, all).as_deref(), Ok(found), "{name:?}");
    }
    for check in ["gpu-down", "xid"] {
        assert_eq!(ids(Some(check), false).as_deref(), Ok("abcdefgh"), "{check}");
    }
    assert_eq!(
        ids(Some("kernel-crash"), true).unwrap_err(),
        "no incident of check kernel-crash"
    );
    for name in ["GPU-3", ""] {
        let error = ids(Some(name), true).unwrap_err();
        assert!(error.contains("expected one of abcdefgh, zyxwvuts"), "{error}");
    }
}

#[test]
fn a_gpu_is_meant_by_what_status_and_other_tools_call_it() {
    const UUID: &str = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
    const OTHER: &str = "GPU-7a1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
    let gpu = |gpu: &str, pci: &str, index: &str| GpuView {
        gpu: gpu.to_owned(),
        pci: pci.to_owned(),
        index: index.to_owned(),
        ..GpuView::default()
    };
    let mut status = NodeStatus::of(&sample::page(), sample::AT);
    let incident = &mut status.view.incidents[0];
    incident.subject_name = UUID.to_owned();
    incident.pci = "0000:43:00.0".to_owned();
    // The UUID of the faulty GPU begins with another one's index.
    status.gpus = vec![gpu(UUID, "0000:43:00.0", "1"), gpu(OTHER, "0000:5e:00.0", "6")];
    let found = |status: &NodeStatus, name: &str| {
        select(status, Some(name), false).map(|found| found.incidents.len())
    };
    for name in [
        "1",
        "gpu 1",
        "6f1c2f0e",
        UUID,
        "GPU-6f1c",
        "0000:43:00.0",
        "43:00.0",
        "00000000:43:00.0",
        "pci:0000:43:00.0",
    ] {
        assert_eq!(found(&status, name), Ok(1), "{name}");
    }
    // These GPUs exist and have no incident.
    for name in ["6", "7a"] {
        let gpu = select(&status, Some(name), false).unwrap().gpu;
        assert_eq!(gpu.map(|gpu| gpu.gpu.as_str()), Some(OTHER), "{name}");
    }
    for name in ["6", "gpu 6", OTHER, "7a1c", "GPU-7a1c", "5e:00.0"] {
        assert_eq!(found(&status, name), Ok(0), "{name}");
    }
    for name in ["2", "44:00.0", "8a1c", ""] {
        assert!(found(&status, name).is_err(), "{name}");
    }
    // The driver has not named it in this boot, or is released: the PCI address is enough.
    status.gpus[0].gpu = "pci:0000:43:00.0".to_owned();
    assert_eq!(found(&status, "43:00.0"), Ok(1));
    status.gpus.clear();
    assert_eq!(found(&status, "43:00.0"), Ok(1));
    assert_eq!(found(&status, "6f1c"), Ok(1));
    // The index is unknown now; it does not match UUIDs that begin with it.
    assert!(found(&status, "6").is_err() && found(&status, "gpu 6").is_err());
}

#[test]
fn where_nothing_is_wrong_it_says_so_and_where_closed_ones_are() {
    let mut view = sample::view();
    view.incidents[0].closed = Some(NOW);
    // As after `clear` of a GPU that is still missing.
    view.verdict.health = Health::Unknown;
    view.verdict.text = "the GPU is not on the PCI bus".to_owned();
    assert_eq!(
        nothing(&view, None, &caller()),
        "no open incidents; 1 closed: `nodewarden why --all`\nverdict unknown: the GPU is not on the PCI bus\n"
    );
    view.incidents[0].closed = None;
    let gpu = GpuView {
        gpu: "GPU-2".to_owned(),
        index: "3".to_owned(),
        ..GpuView::default()
    };
    assert_eq!(
        nothing(&view, Some(&gpu), &caller()),
        "no incident of GPU 3 (GPU-2)\n"
    );
    view.incidents.clear();
    view.verdict.health = Health::Healthy;
    assert_eq!(nothing(&view, None, &caller()), "no open incidents\n");
}

/// Slurm still shows the drain, with an id that `why` does not list.
#[test]
fn a_drain_that_stays_after_its_incident_is_shown_with_the_command_that_lifts_it() {
    let mut view = sample::view();
    view.incidents.clear();
    view.verdict.health = Health::Healthy;
    view.drain.state = "drained".to_owned();
    view.drain.incident = Some("abcdefgh".to_owned());
    view.drain.why = "repaired, but no test has verified it: an operator lifts the drain".to_owned();
    let caller = Caller::called("nodewarden", None);
    assert_eq!(
        nothing(&view, None, &caller),
        "no open incidents\nour drain: drained, repaired, but no test has verified it: an operator lifts the drain\n  nodewarden clear abcdefgh --reason 'TEXT'\n"
    );
}

#[test]
fn an_incident_that_the_comment_or_the_reason_does_not_name_says_which_one_it_names() {
    let mut view = sample::view();
    let mut i = incident();
    let page = |i: &IncidentView, view: &View| {
        let text = show(i, view, &caller(), NOW, &PLAIN);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    i.mode = Mode::Comment;
    let text = page(&i, &view);
    assert!(
        text.contains("does not in the node's Comment: not written yet"),
        "{text}"
    );
    view.comment = Some("zyxwvuts".to_owned());
    let text = page(&i, &view);
    assert!(
        text.contains(
            "does not in the node's Comment, which names zyxwvuts: one incident at a time; mode comment"
        ),
        "{text}"
    );
    // The drain was written for another incident, which is closed.
    i.mode = Mode::Drain;
    view.drain.state = "drained".to_owned();
    view.drain.incident = Some("zyxwvuts".to_owned());
    let text = page(&i, &view);
    let outdated =
        "the reason in Slurm names zyxwvuts, which is closed; the drain is for abcdefgh (act=reboot)";
    assert!(text.contains(outdated), "{text}");
    let mut closed = i.clone();
    (closed.id, closed.closed, closed.state) = ("zyxwvuts".to_owned(), Some(NOW), "cleared".to_owned());
    let text = page(&closed, &view);
    assert!(text.contains(&format!("does none, closed; {outdated}")), "{text}");
    // It needs more than the reason says.
    view.drain.incident = Some(i.id.clone());
    view.drain.reason = Some("nodewarden:xid gpu GPU-1 xid95 act=reset-gpu id=abcdefgh".to_owned());
    let text = page(&i, &view);
    assert!(
        text.contains("says act=reset-gpu, the remedy is reboot now"),
        "{text}"
    );
    // Nothing is drained, and the cause is known.
    (view.drain.state, view.drain.why) = ("none".to_owned(), "no slurmd".to_owned());
    view.drain.incident = None;
    let text = page(&i, &view);
    assert!(text.contains("our drain: none, no slurmd"), "{text}");
}

#[test]
fn a_lifted_incident_and_a_set_check_are_said_as_they_are() {
    let view = sample::view();
    let mut i = incident();
    (i.state, i.acts, i.drains) = ("overridden".to_owned(), false, false);
    assert_eq!(does(&i), "lifted");
    let text = show(&i, &view, &caller(), NOW, &PLAIN);
    assert!(text.contains("an operator lifted its drain"), "{text}");
    assert!(!text.contains("lifts nodewarden's drain"), "{text}");
    (i.state, i.check) = ("open".to_owned(), "kernel-crash".to_owned());
    let text = show(&i, &view, &caller(), NOW, &PLAIN);
    assert!(
        text.contains("health.checks.kernel-crash is set: it acts with the next readings"),
        "{text}"
    );
}

#[test]
fn the_command_names_the_node_where_its_name_is_known() {
    let mut view = sample::view();
    view.node = Some("gn07".to_owned());
    let text = show(&incident(), &view, &caller(), NOW, &PLAIN);
    assert!(text.contains("    scontrol reboot gn07\n"), "{text}");
}

#[test]
fn a_node_that_nodewarden_does_not_drain_is_drained_before_the_remedy() {
    let mut view = sample::view();
    view.node = Some("gn07".to_owned());
    let drain = "    scontrol update NodeName=gn07 State=DRAIN Reason='TEXT'\n";
    for (act, drains, first) in [
        ("reboot", false, true),
        ("reset-gpu", false, true),
        ("inspect", false, false),
        ("reboot", true, false),
    ] {
        let mut i = incident();
        (i.act, i.drains) = (act.to_owned(), drains);
        let text = show(&i, &view, &caller(), NOW, &PLAIN);
        let at = text.find(drain);
        assert_eq!(at.is_some(), first, "{text}");
        let reboot = text.find("    scontrol reboot gn07\n");
        assert!(at.is_none() || reboot.is_none() || at < reboot, "{text}");
    }
}

/// Tools such as lspci take the address, nvidia-smi the index.
#[test]
fn the_subject_has_its_address_and_a_gpu_its_index() {
    let view = sample::view();
    let gpu = |index: &str| GpuView {
        gpu: "GPU-1".to_owned(),
        pci: "0000:3b:00.0".to_owned(),
        index: index.to_owned(),
        ..GpuView::default()
    };
    let page = |i: &IncidentView, gpu| show::show(i, (&view, &[gpu]), &caller(), NOW, &PLAIN);
    let mut i = incident();
    let text = page(&i, gpu("7"));
    assert!(text.contains(" gpu GPU-1 at 0000:3b:00.0 (GPU 7)\n"), "{text}");
    let text = page(&i, gpu(""));
    assert!(text.contains(" gpu GPU-1 at 0000:3b:00.0\n"), "{text}");
    i.subject = "rdma_port mlx5_0/1".to_owned();
    let text = page(&i, gpu("7"));
    assert!(text.contains(" rdma_port mlx5_0/1 at 0000:3b:00.0\n"), "{text}");
    i.subject = "pci 0000:3b:00.0".to_owned();
    let text = page(&i, gpu("7"));
    assert!(text.contains(" pci 0000:3b:00.0\n"), "said once: {text}");
}

/// Its drain stays until a person lifts it, beside another finding that never drains.
#[test]
fn a_drain_for_a_finding_that_has_ended_is_named() {
    let mut drain = sample::view().drain;
    let mut i = incident();
    (i.acts, i.drains, i.could, i.act) = (false, false, Mode::Observe, "inspect".to_owned());
    assert!(!shown(&i, &drain).contains("our drain"));
    (drain.state, drain.incident) = ("drained".to_owned(), Some(i.id.clone()));
    drain.why = "repaired, but no test has verified it".to_owned();
    let text = shown(&i, &drain);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("our drain: drained, repaired"), "{text}");
    assert!(!text.contains("scontrol"), "{text}");
}
