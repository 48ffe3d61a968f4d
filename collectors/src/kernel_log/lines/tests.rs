use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::kernel_log::grammar::{self, LogLine};

const SAMPLES: &str = include_str!("samples.txt");

fn samples() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = SAMPLES.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut parts = line.splitn(3, '\t');
        let mut next = || parts.next().unwrap_or_else(|| panic!("{line}"));
        (next(), next(), next())
    })
}

/// Whether the daemon takes the event.
fn is_admitted(read: &Read) -> bool {
    let event = crate::Event {
        boot: crate::BootId("b".to_owned()),
        seq: 1,
        at_us: 1,
        history: false,
        count: 1,
        text: String::new(),
        body: crate::EventBody::Kernel(read.line.clone()),
    };
    event.admit(&[crate::event::EventKind::Kernel]).is_ok()
}

#[test]
fn each_line_is_the_row_and_the_subject_of_its_sample_or_none() {
    for (row, subject, text) in samples() {
        let is_early = super::row(row).is_some_and(|row| row.is_early);
        let at_us = if is_early { 0 } else { u64::MAX };
        let read = match grammar::parse(text.as_bytes(), true, None, at_us) {
            LogLine::Kernel(read) => Some(read),
            // SXids are events of their own.
            _ => read(text, None, at_us),
        };
        let got = read.as_ref().map(|read| {
            let name = read.line.subject.name.as_str();
            (read.row.id, if name.is_empty() { "-" } else { name })
        });
        let want = (row != "-").then_some((row, subject));
        assert_eq!(got, want, "{text}");
        assert!(read.is_none_or(|read| is_admitted(&read)), "{text}");
    }
}

/// Its command is `grep -F`.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the test reads documents of this repository"
)]
fn the_command_of_a_runbook_shows_each_line_that_opens_its_check() {
    let runbooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks");
    for id in ["kernel-crash", "kernel-stall"] {
        let runbook = fs::read_to_string(runbooks.join(format!("{id}.md"))).unwrap();
        let parts: Vec<&str> = runbook
            .split("-e '")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once('\'')?.0))
            .collect();
        assert!(runbook.contains("grep -F "), "{id}");
        let shows = |line: &str| parts.iter().any(|part| line.contains(part));
        let is_its = |row: &Row| matches!(row.meaning, Meaning::Fault { check, .. } if check == id);
        for row in rows().filter(|row| is_its(row)) {
            for form in row.forms {
                assert!(shows(form.text()), "{id}: {}", form.text());
            }
            for (_, _, line) in samples().filter(|(sample, ..)| *sample == row.id) {
                assert!(shows(line), "{id}: {line}");
            }
        }
    }
}

#[test]
fn every_row_has_an_id_of_its_own_and_a_sample_or_a_form_that_only_one_version_prints() {
    let ids: Vec<&str> = rows().map(|row| row.id).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len());
    let sampled: BTreeSet<&str> = samples().map(|(row, ..)| row).collect();
    let missing: Vec<_> = ids.iter().filter(|id| !sampled.contains(**id)).collect();
    assert_eq!(
        missing,
        ["cgroup-pids", "cpu-offline", "nvidia-inband", "nvidia-in-use"]
            .iter()
            .collect::<Vec<_>>()
    );
    for row in rows() {
        assert!(!row.forms.is_empty() && !row.what.is_empty(), "{}", row.id);
        let others = match row.meaning {
            Meaning::AllClear(ids) => ids,
            _ => row.echoes,
        };
        assert!(others.iter().all(|id| super::row(id).is_some()), "{}", row.id);
    }
}

/// A `<` alone has no line.
#[test]
fn every_name_in_a_form_is_an_angle_pair() {
    for text in rows().flat_map(|row| row.forms).map(|form| form.text()) {
        assert_eq!(text.matches('<').count(), text.matches("<>").count(), "{text}");
    }
}

/// A form with many of them would cost much for a long line.
#[test]
fn no_form_has_more_than_three_free_parts_or_begins_with_a_name_alone() {
    for form in rows().flat_map(|row| row.forms) {
        let text = form.text();
        assert!(text.matches('*').count() <= 3, "{text}");
        let literal: usize = text.split(['*', '%', '<', '>']).map(str::len).sum();
        assert!(literal >= 4, "{text}");
    }
}

#[test]
fn lines_of_one_report_are_one_event() {
    let lines = [
        (
            "pcieport 0000:00:03.1: AER: Corrected error received: 0000:3b:00.0",
            false,
        ),
        (
            "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
            true,
        ),
        (
            "nvidia 0000:3c:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
            false,
        ),
        (
            "nvidia 0000:3c:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
            false,
        ),
        (
            "pcieport 0000:00:03.1: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
            false,
        ),
        ("pcieport 0000:00:03.1: AER: device recovery failed", false),
        (
            "oom-kill:constraint=CONSTRAINT_CPUSET,task_memcg=/slurm/uid_1/job_42/step_0",
            false,
        ),
        ("Out of memory: Killed process 1234 (python) total-vm:8kB", true),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/slurm/uid_1/job_42,task_memcg=/slurm/uid_1/job_42/step_0,task=python,pid=5,uid=1",
            true,
        ),
        ("Memory cgroup out of memory: Killed process 5 (python)", true),
        (
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/system.slice/slurmd.service,task=slurmd,pid=999,uid=0",
            false,
        ),
        ("Out of memory: Killed process 999 (slurmd) total-vm:8kB", true),
        // Before Linux 5.0 no line names the constraint.
        (
            "Memory cgroup out of memory: Kill process 5 (python) score 900",
            false,
        ),
        ("Out of memory: Kill process 999 (slurmd) score 900", false),
        (
            "mlx5_core 0000:41:00.0 ens1np0: NETDEV WATCHDOG: CPU: 94: transmit queue 3 timed out 5032 ms",
            false,
        ),
        ("mlx5_core 0000:41:00.0 ens1np0: TX timeout detected", true),
        (
            "NETDEV WATCHDOG: ens2 (mlx5_core): transmit queue 12 timed out",
            false,
        ),
        ("mlx5_core 0000:42:00.0 ens2: TX timeout detected", true),
        ("mlx5_core 0000:42:00.1 ens3: TX timeout detected", false),
        (
            "iommu ivhd0: AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=06:00.0 address=0x1001e4600]",
            false,
        ),
        ("AMD-Vi: Completion-Wait loop timed out", true),
        ("amdgpu: qcm fence wait loop timeout expired", false),
        (
            "amdgpu: The cp might be in an unrecoverable state due to an unsuccessful queues preemption",
            true,
        ),
        // The driver of another GPU.
        ("amdgpu: qcm fence wait loop timeout expired", false),
        ("kernel BUG at mm/slub.c:379!", false),
        ("invalid opcode: 0000 [#1] PREEMPT SMP NOPTI", true),
        (
            "mlx5_core 0000:41:00.0: init_one:1371:(pid 803): mlx5_load_one failed with error code -22",
            false,
        ),
        ("mlx5_core: probe of 0000:41:00.0 failed with error -22", true),
        ("Bad pagetable: 000f [#1] PREEMPT SMP NOPTI", false),
        ("BUG: scheduling while atomic: python/6325/0x00000000", true),
        (
            "oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,task_memcg=/system.slice/slurmstepd.scope/s0123456789ABC/step_0",
            false,
        ),
        ("Out of memory: Killed process 1234 (python) total-vm:8kB", true),
    ];
    let mut before: Option<Read> = None;
    for (text, is_repeated) in lines {
        let read = read(text, None, u64::MAX).unwrap();
        let got = before.as_ref().is_some_and(|before| repeats(&read, before));
        assert_eq!(got, is_repeated, "{text}");
        if !got {
            before = Some(read);
        }
    }
}

/// The line names the block, of which only `umc` is memory.
#[test]
fn errors_of_a_block_of_a_gpu_are_not_called_errors_of_its_memory() {
    for id in ["amdgpu-uncorrected", "amdgpu-corrected"] {
        let row = row(id).unwrap();
        assert!(row.what.contains("block") && !row.what.contains("memory"), "{id}");
    }
}

#[test]
fn the_address_of_the_record_is_used_where_the_line_has_none() {
    let device = PciAddress::parse("0000:b1:00.0").unwrap();
    let line = "DMAR: [DMA Read] Request device [?] fault addr 0";
    assert_eq!(read(line, Some(&device), u64::MAX), None);
    let line = "NVRM: GPU 7: RmInitAdapter failed! (0x24:0x72:1568)";
    assert_eq!(read(line, None, u64::MAX), None);
    let found = read(line, Some(&device), u64::MAX).unwrap();
    assert_eq!(found.line.subject, Subject::new(SubjectKind::Pci, "0000:b1:00.0"));
}

#[test]
fn lines_that_were_left_out_are_counted() {
    for (text, want) in [
        ("blk_update_request: 12 callbacks suppressed", Some(12)),
        ("__ratelimit: 3 callbacks suppressed", Some(3)),
        (
            "Lustre: 2331:0:(client.c:2289:f()) Skipped 7 previous similar messages",
            Some(7),
        ),
        ("LustreError: Skipped 1 previous similar message", Some(1)),
        ("Skipped files", None),
        ("callbacks suppressed", None),
    ] {
        assert_eq!(suppressed(text), want, "{text}");
    }
}

proptest! {
    #[test]
    fn a_sample_with_any_change_breaks_nothing(at: usize, cut in 0_usize..200, text in "\\PC{0,8}") {
        let (.., line) = samples().nth(at % samples().count()).unwrap();
        let cut = line.char_indices().map(|(at, _)| at).take(cut).last().unwrap_or(0);
        let changed = format!("{}{text}{}", &line[..cut], &line[cut..]);
        prop_assert!(read(&changed, None, u64::MAX).is_none_or(|read| is_admitted(&read)), "{changed}");
        suppressed(&changed);
    }
}
