//! Checks of lines in the kernel log.

use collectors::event::{EventBody, KernelLine, Recovery, Sxid};
use collectors::kernel_log::lines::{Meaning, row, rows};
use collectors::{Subject, SubjectKind};

use super::maintenance::drains_1_min_after_the_end;
use super::sim::*;
use crate::checks::check;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};
use slurm::state::Flag;

const HOUR: u64 = 3600;
const OOM: &str = "the node has no memory left";
const CRASH: &str = "the kernel crashed and runs on";

pub(super) fn line(id: &str, name: &str) -> EventBody {
    let subject = match name {
        "" => Subject::node(),
        name => Subject::new(row(id).unwrap().about, name),
    };
    let row = id.to_owned();
    EventBody::Kernel(KernelLine { row, subject })
}

fn node() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.pass(60);
    sim
}

/// A node whose site lets one of these checks drain.
fn draining(id: &str) -> Sim {
    let mut config = config(Mode::Drain);
    config.checks.insert(id.to_owned(), Mode::Drain);
    let mut sim = Sim::with(config, None);
    sim.pass(60);
    sim
}

/// An incident that only a reboot ends.
fn lasts_until_a_reboot(sim: &mut Sim, what: &str) {
    let open = format!("{what} open");
    assert_eq!(sim.incidents(), [open.as_str()]);
    sim.pass(48 * HOUR);
    sim.restart();
    sim.pass(60);
    assert_eq!(sim.incidents(), [open]);
    sim.reboot();
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{what} cleared")]);
}

#[test]
fn every_fault_of_the_table_is_that_of_a_check() {
    for row in rows() {
        if let Meaning::Fault { check: id, .. } = row.meaning {
            assert!(check(id).is_some(), "{}: {id}", row.id);
        }
    }
}

#[test]
fn a_crash_of_the_kernel_is_observed_and_ends_with_a_reboot() {
    let mut sim = node();
    sim.event(line("oops", ""));
    sim.pass(60);
    assert_eq!((sim.slurm.drains, sim.slurm.comment.clone()), (0, None));
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
    assert_eq!(
        sim.engine.view().incidents[0].findings[0].evidence,
        ["kernel log: line 1"]
    );
    assert_eq!(sim.engine.view().ledger.kernel_lines["oops"]["node"][""].count, 1);
    lasts_until_a_reboot(&mut sim, "the kernel crashed and runs on");
}

/// Or one `clear`, or two lifts, for the GPU would end the other.
#[test]
fn it_is_no_part_of_the_open_incident_of_a_gpu() {
    let mut sim = draining("kernel-crash");
    sim.xid(79);
    sim.pass(60);
    sim.event(line("oops", ""));
    sim.pass(60);
    assert_eq!(sim.engine.view().incidents.len(), 2, "{:?}", sim.incidents());
}

#[test]
fn it_drains_where_the_site_says_so() {
    let mut sim = draining("kernel-crash");
    sim.event(line("hard-lockup", ""));
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
    assert!(
        sim.reason()
            .starts_with("nodewarden:kernel-crash node a processor takes no interrupts act=reboot"),
        "{}",
        sim.reason()
    );
}

/// A server of storage that is away blocks tasks of each of its clients, and an I/O error of a disk follows it into its filesystem.
#[test]
fn a_fault_that_follows_from_another_asks_for_no_reboot() {
    for (id, name, act) in [
        ("hung-task", "", "inspect"),
        ("ext4-error", "sda1", "inspect"),
        ("xfs-shutdown", "sda1", "inspect"),
        ("overheated", "", "inspect"),
        ("oops", "", "reboot"),
        ("mce-uncorrected", "", "reboot"),
        ("disk-offline", "sda", "reboot"),
        ("clock-unstable", "", "reboot"),
    ] {
        let mut sim = node();
        sim.event(line(id, name));
        sim.pass(60);
        let incident = sim.engine.view().incidents[0].clone();
        assert_eq!(incident.act, act, "{id}");
        assert!(incident.clears.contains("a reboot"), "{id}: {}", incident.clears);
    }
}

#[test]
fn an_error_that_passes_ends_after_hours_without_one() {
    let mut sim = node();
    sim.event(line("disk-io", "sda"));
    sim.pass(5 * HOUR);
    sim.event(line("disk-io", "sda"));
    sim.pass(5 * HOUR);
    assert_eq!(sim.incidents(), ["an I/O error open"]);
    assert_eq!(sim.engine.view().incidents[0].subject, "disk sda");
    sim.pass(HOUR + 300);
    assert_eq!(sim.incidents(), ["an I/O error cleared"]);
}

#[test]
fn a_server_that_is_back_ends_it_for_that_server() {
    let mut sim = node();
    sim.event(line("nfs-not-responding", "fs01"));
    sim.event(line("nfs-not-responding", "fs02"));
    sim.pass(24 * HOUR);
    sim.event(line("nfs-ok", "fs02"));
    sim.pass(300);
    let incidents = sim.engine.view().incidents;
    let mut of: Vec<_> = incidents
        .iter()
        .map(|i| (i.subject.as_str(), i.state == "open"))
        .collect();
    of.sort_unstable();
    assert_eq!(of, [("server fs01", true), ("server fs02", false)]);
}

/// As a client of Lustre with a bad port: lost and restored within a second, every few minutes.
#[test]
fn what_comes_and_goes_between_readings_is_one_incident_until_an_hour_without() {
    let target = "scratch-OST003a";
    let mut sim = node();
    for _ in 0..10 {
        sim.event(line("lustre-lost", target));
        sim.event(line("lustre-restored", target));
        sim.pass(203);
    }
    let what = "the connection to a Lustre target was lost";
    assert_eq!(sim.incidents(), [format!("{what} open")]);
    let found = sim.engine.view().incidents[0].findings[0].clone();
    assert_eq!(found.count, 10);
    assert_eq!(
        found.evidence[0],
        "kernel log: line 1; its end was logged before a reading"
    );
    sim.pass(HOUR);
    assert_eq!(sim.incidents(), [format!("{what} cleared")]);
    // Lost for longer, it ends with its line as ever.
    sim.event(line("lustre-lost", target));
    sim.pass(60);
    sim.event(line("lustre-restored", target));
    sim.pass(120);
    assert!(sim.incidents().iter().all(|one| one.ends_with("cleared")));
}

/// The next loss of a connection that came and went may last.
#[test]
fn what_came_back_before_a_reading_and_is_lost_again_stays() {
    let target = "scratch-OST003a";
    let mut sim = node();
    sim.event(line("lustre-lost", target));
    sim.event(line("lustre-restored", target));
    sim.pass(60);
    sim.event(line("lustre-lost", target));
    sim.pass(24 * HOUR);
    assert_eq!(
        sim.incidents(),
        ["the connection to a Lustre target was lost open"]
    );
}

#[test]
fn what_is_over_before_a_reading_never_drains() {
    let mut sim = draining("machine-check");
    sim.event(line("mce-storm", ""));
    sim.event(line("mce-storm-over", ""));
    sim.pass(60);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 0));
    sim.event(line("mce-storm", ""));
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1, "the check may drain");
}

#[test]
fn a_later_line_that_a_reading_shows_ends_with_its_own_line() {
    let mut sim = draining("machine-check");
    sim.event(line("mce-storm", ""));
    sim.event(line("mce-storm-over", ""));
    sim.pass(1800);
    assert_eq!(sim.slurm.drains, 0);
    sim.event(line("mce-storm", ""));
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
    sim.event(line("mce-storm-over", ""));
    sim.pass(120);
    assert_eq!(sim.incidents(), ["very many corrected machine checks cleared"]);
}

/// The driver names the GPU of the end and not of the fault.
#[test]
fn faults_of_no_device_that_come_and_go_are_over_an_hour_later() {
    let mut sim = node();
    for _ in 0..3 {
        sim.event(line("amdgpu-node-ring-timeout", ""));
        sim.event(line("amdgpu-reset-done", "0000:c3:00.0"));
        sim.pass(60);
    }
    assert_eq!(sim.engine.view().incidents[0].findings[0].count, 3);
    sim.pass(HOUR + 120);
    assert!(sim.incidents()[0].ends_with("cleared"), "{:?}", sim.incidents());
    // Two faults, of which one is over.
    sim.event(line("amdgpu-node-ring-timeout", ""));
    sim.event(line("amdgpu-node-ring-timeout", ""));
    sim.event(line("amdgpu-reset-done", "0000:c3:00.0"));
    sim.pass(5 * HOUR);
    let open = sim.incidents().iter().filter(|one| one.ends_with("open")).count();
    assert_eq!(open, 1, "{:?}", sim.incidents());
}

#[test]
fn clear_of_one_incident_of_a_disk_leaves_the_fault_of_another() {
    let mut sim = draining("disk-error");
    sim.event(line("disk-io", "sda"));
    sim.pass(60);
    let first = sim.engine.view().incidents[0].id.clone();
    sim.admin_insists();
    sim.event(line("disk-offline", "sda"));
    sim.pass(60);
    assert!(sim.slurm.is_drained());
    let answer = sim.order(OrderVerb::Clear, &first).unwrap();
    assert!(!answer.contains("Warning"), "only new lines count: {answer}");
    sim.pass(600);
    let mut incidents = sim.incidents();
    incidents.sort();
    assert_eq!(incidents, ["a disk was given up open", "an I/O error cleared"]);
    assert!(sim.slurm.is_drained());
}

#[test]
fn an_sxid_is_an_incident_where_it_stops_every_nvlink() {
    let sxid = |code, fatal| {
        EventBody::Sxid(Sxid {
            pci: pci("0000:c3:00.0"),
            code,
            fatal,
            link: Some(30),
        })
    };
    let mut sim = node();
    // One link, which its GPU reports; a code of the list that the line calls non-fatal.
    sim.event(sxid(24007, Some(true)));
    sim.event(sxid(23001, Some(false)));
    sim.pass(60);
    assert!(sim.incidents().is_empty());
    sim.event(sxid(22003, Some(true)));
    sim.pass(60);
    assert_eq!(sim.engine.view().incidents[0].subject, "pci 0000:c3:00.0");
    assert_eq!(sim.slurm.drains, 0);
    lasts_until_a_reboot(
        &mut sim,
        "an error of an NVSwitch that stops every NVLink of the node",
    );
}

/// A user's container with a library of its own causes it, on a node whose own library fits.
#[test]
fn a_library_of_another_version_drains_no_node() {
    let mut sim = draining("gpu-driver-error");
    sim.event(line("nvidia-versions", ""));
    sim.pass(600);
    assert_eq!(sim.incidents().len(), 1);
    assert_eq!(
        (sim.slurm.drains, sim.engine.verdict().health),
        (0, Health::Healthy)
    );
    sim.event(line("nvidia-not-started", "0000:0a:00.0"));
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 1, "the check may drain");
}

#[test]
fn a_queue_that_was_reset_ends_its_time_out_also_where_the_line_named_no_gpu() {
    for (timeout, name) in [
        ("amdgpu-ring-timeout", "0000:83:00.0"),
        ("amdgpu-node-ring-timeout", ""),
    ] {
        let mut sim = node();
        sim.event(line(timeout, name));
        sim.pass(60);
        assert_eq!(sim.incidents().len(), 1, "{timeout}");
        sim.event(line("amdgpu-ring-reset-done", "0000:83:00.0"));
        sim.pass(300);
        assert!(sim.incidents()[0].ends_with("cleared"), "{:?}", sim.incidents());
    }
}

/// They may be of two GPUs, and the reset is that of one.
#[test]
fn time_outs_that_name_no_gpu_do_not_end_with_the_reset_of_one() {
    let mut sim = node();
    for _ in 0..2 {
        sim.event(line("amdgpu-node-ring-timeout", ""));
        sim.pass(60);
    }
    sim.event(line("amdgpu-reset-done", "0000:83:00.0"));
    sim.pass(5 * HOUR);
    assert!(sim.incidents()[0].ends_with("open"), "{:?}", sim.incidents());
    sim.pass(2 * HOUR);
    assert!(sim.incidents()[0].ends_with("cleared"), "{:?}", sim.incidents());
}

/// The driver logs it for each command that a GPU does not answer.
#[test]
fn lines_of_firmware_that_names_no_gpu_are_of_one_fault_within_a_minute() {
    // Between two readings, and with readings between.
    for (pause, end) in [(0, "cleared"), (20, "cleared"), (90, "open")] {
        let mut sim = node();
        for _ in 0..3 {
            sim.event(line("amdgpu-node-firmware", ""));
            sim.pass(pause);
        }
        sim.pass(60);
        sim.event(line("amdgpu-reset-done", "0000:03:00.0"));
        sim.pass(300);
        assert!(
            sim.incidents()[0].ends_with(end),
            "{pause}: {:?}",
            sim.incidents()
        );
    }
}

/// The next hang of the same GPU.
#[test]
fn lines_of_firmware_that_come_and_go_are_over_an_hour_later() {
    let mut sim = node();
    for _ in 0..3 {
        for _ in 0..2 {
            sim.event(line("amdgpu-node-firmware", ""));
        }
        sim.event(line("amdgpu-reset-done", "0000:03:00.0"));
        sim.pass(120);
    }
    assert_eq!(sim.engine.view().incidents[0].findings[0].count, 6);
    sim.pass(HOUR);
    assert!(sim.incidents()[0].ends_with("cleared"), "{:?}", sim.incidents());
}

/// The lines name processors and banks, and each of these has its own.
#[test]
fn storms_end_with_as_many_ends_as_there_were_starts() {
    let mut sim = node();
    for _ in 0..2 {
        sim.event(line("mce-storm", ""));
        sim.pass(60);
    }
    sim.event(line("mce-storm-over", ""));
    sim.pass(300);
    assert_eq!(sim.incidents(), ["very many corrected machine checks open"]);
    sim.event(line("mce-storm-over", ""));
    sim.pass(300);
    assert_eq!(sim.incidents(), ["very many corrected machine checks cleared"]);
}

/// One GPU may be reset twice.
#[test]
fn time_outs_that_name_no_gpu_do_not_end_with_two_resets() {
    let mut sim = node();
    for id in ["amdgpu-node-ring-timeout", "amdgpu-reset-done"] {
        let name = if id == "amdgpu-reset-done" { GPU } else { "" };
        for _ in 0..2 {
            sim.event(line(id, name));
            sim.pass(60);
        }
    }
    sim.pass(5 * HOUR);
    assert!(sim.incidents()[0].ends_with("open"), "{:?}", sim.incidents());
}

#[test]
fn counted_lines_open_nothing() {
    let mut sim = node();
    for row in rows().filter(|row| row.meaning == Meaning::Counted) {
        let name = match row.about {
            SubjectKind::Node => "",
            SubjectKind::Pci => GPU,
            _ => "a",
        };
        sim.event(line(row.id, name));
    }
    sim.pass(300);
    assert_eq!(sim.incidents(), Vec::<String>::new());
}

#[test]
fn what_is_only_observed_holds_no_drain_of_another() {
    let mut sim = node();
    sim.xid(119);
    sim.event(line("aer-fatal", GPU));
    sim.pass(60);
    assert_eq!((sim.slurm.drains, sim.incidents().len()), (1, 1));
    sim.verdict_154(Recovery::None);
    sim.pass(60);
    assert!(!sim.slurm.is_drained());
    let open = sim.engine.view().incidents;
    assert!(open.iter().any(|i| i.state == "open"), "{open:?}");
}

#[test]
fn a_person_ends_what_nothing_else_ends() {
    let mut sim = node();
    sim.event(line("raid-degraded", "md0"));
    sim.reboot();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["a RAID array lost a disk open"]);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["a RAID array lost a disk cleared"]);
}

#[test]
fn a_line_from_before_the_first_start_counts_if_it_is_of_this_boot() {
    let mut sim = Sim::new(Mode::Drain);
    sim.history(line("oops", ""));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["the kernel crashed and runs on open"]);
}

/// Most rows end some hours after the last line.
#[test]
fn what_ends_after_hours_drains_where_the_site_says_so_and_the_drain_ends_with_it() {
    for (check, id, name) in [
        ("memory-exhausted", "oom", ""),
        ("disk-error", "disk-io", "sda"),
        ("kernel-stall", "soft-lockup", ""),
    ] {
        let mut sim = node();
        sim.event(line(id, name));
        sim.pass(60);
        assert_eq!(
            (sim.slurm.drains, sim.incidents().len()),
            (0, 1),
            "{id}: observed"
        );
        let mut sim = draining(check);
        sim.event(line(id, name));
        sim.pass(60);
        let reason = sim.reason();
        assert!(reason.starts_with(&format!("nodewarden:{check} ")), "{reason}");
        assert!(reason.contains(" act=inspect "), "{reason}");
        sim.pass(5 * HOUR);
        assert!(sim.slurm.is_drained());
        sim.pass(HOUR + 300);
        assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (1, false), "{id}");
    }
}

/// A fault that ends and comes back all day does not drain the node all day.
#[test]
fn a_third_drain_of_one_day_stays_until_a_person_lifts_it() {
    let mut sim = draining("memory-exhausted");
    for _ in 0..3 {
        sim.event(line("oom", ""));
        sim.pass(7 * HOUR);
    }
    assert_eq!(sim.slurm.drains, 3);
    let drain = sim.engine.view().drain;
    assert!(
        sim.slurm.is_drained() && drain.why.contains("lifted 2 drains in 24 h"),
        "{drain:?}"
    );
}

#[test]
fn a_person_who_lifts_the_drain_of_a_line_twice_is_obeyed_until_the_next_line() {
    let mut sim = draining("memory-exhausted");
    sim.event(line("oom", ""));
    sim.pass(60);
    sim.admin_insists();
    sim.pass(HOUR);
    assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (2, false));
    sim.event(line("oom", ""));
    sim.pass(60);
    assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (3, true));
}

#[test]
fn a_line_whose_drain_was_lifted_twice_still_ends_as_its_row_says() {
    let closed = |sim: &mut Sim, text: &str| {
        let overridden = format!("{text} overridden");
        assert_eq!(sim.incidents(), [overridden.as_str()]);
        sim.restart();
        sim.pass(60);
        assert_eq!(sim.incidents(), [overridden]);
    };
    let mut sim = draining("memory-exhausted");
    sim.event(line("oom", ""));
    sim.pass(60);
    sim.admin_insists();
    closed(&mut sim, OOM);
    sim.pass(6 * HOUR + 300);
    assert_eq!(sim.incidents(), [format!("{OOM} cleared")]);
    let mut sim = draining("kernel-crash");
    sim.event(line("oops", ""));
    sim.pass(60);
    sim.admin_insists();
    sim.pass(HOUR);
    closed(&mut sim, CRASH);
    sim.reboot();
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{CRASH} cleared")]);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "none"));
}

/// A RAID array: only `clear` ends it.
#[test]
fn a_line_that_only_an_operator_ends_is_ended_by_the_first_lift_until_the_next_line() {
    let mut sim = draining("disk-error");
    sim.event(line("raid-degraded", "md0"));
    sim.pass(60);
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "overridden"));
    sim.event(line("raid-degraded", "md0"));
    sim.pass(60);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "drained"));
}

/// What people do in it, such as an exchange of disks or cables, prints lines.
#[test]
fn in_maintenance_a_line_waits_as_an_event_does() {
    let waiting = || {
        let mut sim = draining("disk-error");
        sim.slurm.flags.insert(Flag::Maint);
        sim.event(line("disk-io", "sda"));
        sim.pass(600);
        assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "withheld"));
        sim
    };
    drains_1_min_after_the_end(&mut waiting());
    let mut sim = waiting();
    sim.pass(6 * HOUR);
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0, "it ended in the maintenance");
    let mut sim = waiting();
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(20);
    sim.event(line("disk-io", "sda"));
    sim.pass(20);
    assert_eq!(sim.slurm.drains, 1, "a new line");
}

#[test]
fn further_lines_of_a_fault_do_not_hold_back_the_lift_of_another() {
    let mut sim = Sim::holding();
    sim.xid(119);
    for _ in 0..20 {
        sim.event(line("disk-medium", "sda"));
        sim.pass(30);
    }
    sim.verdict_154(Recovery::None);
    for _ in 0..10 {
        sim.event(line("disk-medium", "sda"));
        sim.pass(30);
    }
    assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (1, false));
}

/// The runbooks show the last line with its time.
#[test]
fn further_lines_are_counted_in_the_finding_that_stands() {
    for mut sim in [node(), draining("disk-error")] {
        sim.event(line("disk-medium", "sda"));
        sim.pass(60);
        let found = |sim: &Sim| {
            let view = sim.engine.view();
            assert_eq!(view.incidents.len(), 1);
            assert_eq!(view.incidents[0].findings.len(), 1);
            view.incidents[0].findings[0].clone()
        };
        assert_eq!(found(&sim).count, 1);
        sim.pass(HOUR);
        for _ in 0..5 {
            sim.event(line("disk-medium", "sda"));
        }
        sim.pass(60);
        let seen = found(&sim);
        assert_eq!(seen.count, 6);
        assert!(seen.last >= seen.first + 3600, "{seen:?}");
        assert_eq!(seen.evidence, ["kernel log: line 1", "kernel log: line 6"]);
        sim.restart();
        sim.pass(60);
        assert_eq!(found(&sim).count, 6, "counted once");
        sim.event(line("disk-medium", "sda"));
        sim.pass(60);
        assert_eq!(found(&sim).count, 7);
        assert_eq!(sim.slurm.drains, u32::from(sim.slurm.is_drained()));
    }
}

#[test]
fn an_incident_has_the_name_of_its_worst_line_whatever_their_order() {
    let resets = ["amdgpu-reset", "amdgpu-reset-failed"];
    for (check, name, lines, worst) in [
        (
            "machine-check",
            "",
            ["mce-storm", "mce-uncorrected"],
            "uncorrected machine check",
        ),
        (
            "gpu-driver-error",
            "0000:c3:00.0",
            resets,
            "a reset of a GPU failed",
        ),
    ] {
        for order in [[0, 1], [1, 0]] {
            let mut sim = draining(check);
            for at in order {
                sim.event(line(lines[at], name));
            }
            sim.pass(60);
            let view = sim.engine.view();
            let texts: Vec<&str> = view.incidents.iter().map(|i| i.detail.as_str()).collect();
            assert_eq!(texts, [worst], "{order:?}");
            if check == "machine-check" {
                assert!(view.verdict.text.contains(worst), "{:?}", view.verdict);
            }
        }
    }
}
