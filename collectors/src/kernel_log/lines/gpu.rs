//! GPUs: drivers/gpu/drm/amd, and NVIDIA's modules except for Xids, SXids and lost GPUs, which are events of their own.

use super::form::{at, driver};
use super::{Ends, Meaning, ROW, Row};
use crate::EventBody;
use crate::SubjectKind::Pci;
use crate::amd::ras::is_bogus;
use crate::event::Sxid;
use crate::kernel_log::grammar::LogLine;
use crate::kernel_log::sxid;

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "gpu-driver-error",
        ends,
    }
}

const AMD: &str = "amdgpu";

/// In the driver's detail by instance (`gfx, instance: 0, memory block: X`), which the line of the block repeats.
const DETAIL: &str = ", instance: ";

/// Whether a line reports errors: a count of 0, or one that comes from a fault of the driver's query, is none.
fn has_errors(text: &str) -> bool {
    let Some((head, _)) = text.split_once(" hardware errors") else {
        return true;
    };
    let number = head.rsplit([' ', '}']).find_map(|word| word.parse::<u64>().ok());
    number.is_none_or(|count| count > 0 && !is_bogus(count))
}

/// Those that NVIDIA's guide to the fabric manager (appendix D.6) calls always fatal: every NVLink of the node is down until it was
/// restarted. Others stop one link, which the GPU at its end reports.
pub(super) const fn stops_the_fabric(sxid: &Sxid) -> bool {
    !matches!(sxid.fatal, Some(false)) && matches!(sxid.code, 12020 | 22003 | 22011 | 23001..=23017)
}

/// The id of its row.
pub(super) const NVSWITCH_FATAL: &str = "nvidia-nvswitch-fatal";

fn is_fatal_sxid(text: &str) -> bool {
    let read = sxid::start(text).map(|rest| sxid::parse(rest, true));
    matches!(read, Some(LogLine::Event(EventBody::Sxid(sxid))) if stops_the_fabric(&sxid))
}

pub(super) static ROWS: &[Row] = &[
    Row {
        id: "amdgpu-ring-timeout",
        what: "a queue of a GPU timed out",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            driver(AMD, "ring * timeout, signaled seq="),
            driver(AMD, "Ring * reset failed"),
            // KFD's queues.
            driver(AMD, "qcm fence wait loop timeout expired"),
            driver(AMD, "The cp might be in an unrecoverable state"),
            driver(AMD, "Queue preemption failed for queue with doorbell_id:"),
            driver(
                AMD,
                "HIQ MQD's queue_doorbell_id0 is not 0, Queue preemption time out",
            ),
        ],
        not: &["soft recovered"],
        ..ROW
    },
    // DRM_ERROR() of Linux 6.1: `[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, ...`.
    Row {
        id: "amdgpu-node-ring-timeout",
        what: "a queue of an AMD GPU timed out; the driver does not say of which",
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("[drm:amdgpu_* ring * timeout, signaled seq="),
            // KFD's queues, before Linux 6.11.
            at("amdgpu: qcm fence wait loop timeout expired"),
            at("amdgpu: The cp might be in an unrecoverable state"),
            at("amdgpu: *Queue preemption time out"),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-node-recovery-failed",
        what: "the recovery of an AMD GPU failed; the driver does not say of which",
        meaning: fault(Ends::Reboot),
        forms: &[at("[drm:amdgpu_* GPU Recovery Failed: ")],
        ..ROW
    },
    Row {
        id: "amdgpu-node-not-resumed",
        what: "a part of an AMD GPU did not start again after a reset or sleep; the driver does not say of which",
        meaning: fault(Ends::Reboot),
        forms: &[at("[drm:amdgpu_* resume of IP block * failed ")],
        ..ROW
    },
    // DRM_ERROR() before Linux 6.11.
    Row {
        id: "amdgpu-node-firmware",
        what: "the firmware of an AMD GPU does not answer; the driver does not say of which",
        meaning: fault(Ends::Quiet(6)),
        forms: &[at("[drm:* *ERROR* MES failed to respon")],
        ..ROW
    },
    Row {
        id: "amdgpu-reset",
        what: "the driver resets a GPU",
        about: Pci,
        meaning: fault(Ends::Line),
        forms: &[driver(AMD, "GPU reset begin!")],
        ..ROW
    },
    Row {
        id: "amdgpu-reset-done",
        what: "the driver has reset a GPU",
        about: Pci,
        meaning: Meaning::AllClear(&[
            "amdgpu-reset",
            "amdgpu-ring-timeout",
            "amdgpu-node-ring-timeout",
            "amdgpu-firmware",
            "amdgpu-node-firmware",
            "amdgpu-not-resumed",
            "amdgpu-node-not-resumed",
        ]),
        forms: &[
            driver(AMD, "GPU reset(%) succeeded"),
            driver(AMD, "GPU reset end with ret = 0"),
        ],
        ..ROW
    },
    // A queue alone was reset, without the rest of the GPU.
    Row {
        id: "amdgpu-ring-reset-done",
        what: "the driver has reset a queue of a GPU",
        about: Pci,
        meaning: Meaning::AllClear(&["amdgpu-ring-timeout", "amdgpu-node-ring-timeout"]),
        forms: &[
            driver(AMD, "Ring * reset succeeded"),
            driver(AMD, "device wedged, but recovered through reset"),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-lost",
        what: "a GPU is no longer on the PCI bus",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            driver(AMD, "device lost from bus!"),
            // The PCI core gave the device up.
            driver(AMD, "pci_channel_io_perm_failure: state("),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-reset-failed",
        what: "a reset of a GPU failed",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            driver(AMD, "GPU reset(%) failed"),
            driver(AMD, "GPU reset end with ret = -"),
            driver(AMD, "GPU Recovery Failed: "),
            driver(AMD, "ASIC reset failed"),
            driver(AMD, "device wedged, needs recovery"),
        ],
        ..ROW
    },
    // The parameter gpu_recovery=0.
    Row {
        id: "amdgpu-no-reset",
        what: "a GPU that needs a reset gets none: its recovery is disabled",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[driver(AMD, "GPU recovery disabled.")],
        ..ROW
    },
    Row {
        id: "amdgpu-not-resumed",
        what: "a part of a GPU did not start again after a reset or sleep",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            driver(AMD, "resume of IP block * failed "),
            driver(AMD, "amdgpu_device_ip_resume failed ("),
            driver(AMD, "late_init of IP block * failed * after reset"),
        ],
        ..ROW
    },
    // The driver shuts the node down, except if the temperature falls in time.
    Row {
        id: "amdgpu-overheated",
        what: "a GPU is hotter than it may be; the driver shuts the node down",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            driver(AMD, "ERROR: GPU over temperature range"),
            driver(AMD, "ERROR: GPU HW Critical Temperature Fault(aka CTF) detected!"),
            driver(AMD, "ERROR: System is going to shutdown due to GPU "),
        ],
        ..ROW
    },
    // At most once a minute. Check gpu-slowdown judges how long it lasts.
    Row {
        id: "amdgpu-throttled",
        what: "a GPU reduces its clocks because of heat",
        about: Pci,
        forms: &[
            driver(AMD, "WARN: GPU is throttled, expect performance decrease"),
            driver(AMD, "WARN: GPU thermal throttling temperature reached, "),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-fatal",
        // The kernel logs it once for all GPUs of the node, with the address of the one whose interrupt came first.
        what: "an uncorrectable error of this GPU or of one linked with it",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            // With a capital letter: the unified RAS driver. With a blank before the parenthesis: found when the driver is loaded.
            driver(
                AMD,
                "*ncorrectable hardware error*(ERREVENT_ATHUB_INTERRUPT) detected!",
            ),
            driver(AMD, "RAS controller interrupt triggered by NBIF error"),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-uncorrected",
        what: "uncorrectable errors in a block of a GPU",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            driver(AMD, "% uncorrectable hardware errors detected in *block"),
            driver(AMD, "% new uncorrectable hardware errors detected in *block"),
            driver(AMD, "Uncorrectable error detected in UMC inst: "),
            driver(AMD, "*oison is consumed"),
            driver(AMD, "*oison consumption"),
        ],
        not: &[
            "detected in total in",
            DETAIL,
            "does not support poison consumption",
        ],
        when: has_errors,
        ..ROW
    },
    Row {
        id: "amdgpu-corrected",
        what: "corrected errors in a block of a GPU",
        about: Pci,
        forms: &[
            driver(AMD, "% correctable hardware errors detected in *block"),
            driver(AMD, "% new correctable hardware errors detected in *block"),
            driver(AMD, "% deferred hardware errors detected in *block"),
            driver(AMD, "% new deferred hardware errors detected"),
        ],
        not: &["detected in total in", DETAIL],
        when: has_errors,
        ..ROW
    },
    // Whether the next start uses the GPU depends on bad_page_threshold and the version. Of -1 (the default) and -2, the
    // first drivers refuse both, later ones accept only -2, then only -1, and from 2025 on both.
    Row {
        id: "amdgpu-bad-pages",
        what: "a GPU has too many bad pages; the driver may refuse it at the next start",
        about: Pci,
        meaning: fault(Ends::Person),
        forms: &[
            driver(AMD, "RAS records:% exceed threshold:%"),
            // The driver's newer RAS manager.
            driver(AMD, "RAS records:% exceed error threshold"),
            driver(AMD, "User defined threshold is set, "),
            driver(AMD, "Saved bad pages % reaches threshold value %"),
            driver(AMD, "This GPU is in BAD status"),
            driver(AMD, "*GPU will not be initialized due to "),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-bad-pages-near",
        what: "a GPU has nearly too many bad pages",
        about: Pci,
        forms: &[driver(AMD, "RAS records:% exceeds * of threshold:")],
        ..ROW
    },
    Row {
        id: "amdgpu-boot",
        what: "the firmware of a GPU found a fault when it started",
        about: Pci,
        meaning: fault(Ends::Reboot),
        // Behind `socket: N, `.
        forms: &[
            driver(AMD, "aid: %, *fw_status: %, "),
            driver(AMD, "aid: %, * failed"),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-link",
        what: "an error of a link between GPUs",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            driver(AMD, "XGMI PCS * detected"),
            driver(AMD, "XGMI3X16 PCS * detected"),
            driver(AMD, "WAFL PCS * detected"),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-not-started",
        what: "a GPU was not started by its driver",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            driver(AMD, "Fatal error during GPU init"),
            driver(AMD, "amdgpu_device_ip_init failed"),
            driver(AMD, "hw_init of IP block * failed "),
            driver(AMD, "probe with driver amdgpu failed with error "),
            at("amdgpu: probe of <> failed with error "),
        ],
        ..ROW
    },
    // The driver's files are there, and no program can use the GPU.
    Row {
        id: "amdgpu-node-not-added",
        what: "a GPU was not added to KFD; the driver does not say which",
        meaning: fault(Ends::Reboot),
        forms: &[at("kfd kfd: *device * NOT added due to errors")],
        ..ROW
    },
    Row {
        id: "amdgpu-firmware",
        what: "the firmware of a GPU does not answer",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            driver(AMD, "MES failed to respond to msg="),
            driver(AMD, "MES(%) failed to respond to msg="),
            driver(AMD, "MES might be in unrecoverable state"),
            driver(AMD, "SMU: *No response"),
            driver(AMD, "SMU: response:"),
            driver(AMD, "SMU: I'm not done with your previous command"),
            driver(AMD, "SMU is in hanged state"),
            driver(AMD, "SMC engine is not correctly up!"),
            driver(AMD, "failed to add hardware queue to MES"),
            driver(AMD, "failed to remove hardware queue from MES"),
        ],
        ..ROW
    },
    Row {
        id: "amdgpu-page-fault",
        what: "a program used a wrong address on a GPU",
        about: Pci,
        forms: &[
            driver(AMD, "[gfxhub*page fault (src_id:"),
            driver(AMD, "[mmhub*page fault (src_id:"),
        ],
        ..ROW
    },
    // NVIDIA prints it at each open of the device.
    Row {
        id: "nvidia-not-started",
        what: "a GPU was not started by its driver",
        about: Pci,
        meaning: fault(Ends::Quiet(1)),
        forms: &[at("NVRM: GPU <>: RmInitAdapter failed!")],
        ..ROW
    },
    // It may have started others: where it started none, a line says so, and the driver is not loaded.
    Row {
        id: "nvidia-probe-failed",
        what: "the driver did not start every GPU",
        meaning: fault(Ends::Reboot),
        forms: &[at("NVRM: The NVIDIA probe routine failed for % device(s)")],
        ..ROW
    },
    Row {
        id: "nvidia-no-gpu",
        what: "the driver started no GPU",
        meaning: fault(Ends::Reboot),
        forms: &[at("NVRM: None of the NVIDIA devices were initialized")],
        ..ROW
    },
    // An event of its own, counted as an SXid.
    Row {
        id: NVSWITCH_FATAL,
        what: "an error of an NVSwitch that stops every NVLink of the node",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[at("nvidia-nvswitch%: SXid (PCI:<>): %, ")],
        when: is_fatal_sxid,
        ..ROW
    },
    // Each GPU gets the verdict that asks for a reboot (Xid 154); only this line says why.
    Row {
        id: "nvidia-uvm-fatal",
        what: "the driver's unified memory failed: no program can use a GPU",
        meaning: fault(Ends::Reboot),
        forms: &[at("NVRM: *uvm encountered global fatal error ")],
        ..ROW
    },
    Row {
        id: "nvidia-bar",
        what: "the firmware gave a GPU no address space",
        meaning: fault(Ends::Reboot),
        forms: &[at(
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid",
        )],
        ..ROW
    },
    Row {
        id: "nvidia-versions",
        what: "a program's NVIDIA library has another version than the module",
        meaning: fault(Ends::Quiet(1)),
        names_program: true,
        forms: &[at("NVRM: API mismatch: the client ")],
        ..ROW
    },
    // Xid 119 and 120 follow.
    Row {
        id: "nvidia-gsp-timeout",
        what: "a GPU's system processor does not answer",
        forms: &[
            at("NVRM: *_kgspIsHeartbeatTimedOut: Heartbeat timed out"),
            // Of `_kgspLogXid119()`, `_kgspLogRpcTimeout()` and `_kgspLogGspTimeout()`, by driver.
            at("NVRM: *GSP Timeout "),
        ],
        ..ROW
    },
    // The driver repeats it while its calls hang; the line does not name the GPU.
    Row {
        id: "nvidia-nvlink-discovery",
        what: "the driver cannot find out which NVLinks are connected",
        meaning: fault(Ends::Reboot),
        forms: &[
            at("NVRM: *knvlinkDiscoverPostRxDetLinks_*postRxDetLinkMask failed"),
            at("NVRM: *knvlinkUpdatePostRxDetectLinkMask_*: Failed to update Rx Detect Link mask"),
        ],
        ..ROW
    },
    Row {
        id: "nvidia-inband",
        what: "NVSwitch does not reach the fabric manager",
        forms: &[
            at("NVRM: *Failed to send inband data"),
            at("NVRM: *Timed out retrying to send inband data"),
        ],
        ..ROW
    },
    Row {
        id: "nvidia-in-use",
        what: "a GPU was removed while it was in use",
        about: Pci,
        forms: &[at(
            "NVRM: Attempting to remove device <> with non-zero usage count",
        )],
        ..ROW
    },
];
