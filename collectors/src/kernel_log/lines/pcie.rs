//! PCIe: drivers/pci/pcie/{aer,dpc,edr}.c, drivers/pci/hotplug/pciehp_ctrl.c, drivers/iommu.

use super::form::{Form, at, pci};
use super::{Ends, Meaning, ROW, Row};
use crate::SubjectKind::Pci;

const ERROR: &str = "pcie-error";
/// The row of an uncorrected error that is not fatal.
pub(super) const NONFATAL: &str = "aer-nonfatal";

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault { check: ERROR, ends }
}

/// The line of the port, which names the sender at its end, then that of the device. Before Linux 4.19 the sender is a
/// number.
const CORRECTED: &[Form] = &[
    pci("PCIe Bus Error: severity=Correct"),
    pci("Corrected error received: <>"),
    pci("Corrected error message received from <>"),
    pci("Correctable error received: <>"),
    pci("Correctable error message received from <>"),
];
const NON_FATAL: &[Form] = &[
    pci("PCIe Bus Error: severity=Uncorrected (Non-Fatal)"),
    pci("PCIe Bus Error: severity=Uncorrectable (Non-Fatal)"),
    pci("Uncorrected (Non-Fatal) error received: <>"),
    pci("Uncorrected (Non-Fatal) error message received from <>"),
    pci("Uncorrectable (Non-Fatal) error received: <>"),
    pci("Uncorrectable (Non-Fatal) error message received from <>"),
    // Reported by the firmware. The kernel prints this line for no corrected one.
    pci("aer_uncor_severity: "),
];
const FATAL: &[Form] = &[
    pci("PCIe Bus Error: severity=Uncorrected (Fatal)"),
    pci("PCIe Bus Error: severity=Uncorrectable (Fatal)"),
    pci("Uncorrected (Fatal) error received: <>"),
    pci("Uncorrected (Fatal) error message received from <>"),
    pci("Uncorrectable (Fatal) error received: <>"),
    pci("Uncorrectable (Fatal) error message received from <>"),
];

pub(super) static ROWS: &[Row] = &[
    // A link that repaired itself. Its rate is a counter of the device.
    Row {
        id: "aer-corrected",
        what: "corrected PCIe error",
        about: Pci,
        forms: CORRECTED,
        ..ROW
    },
    Row {
        id: NONFATAL,
        what: "uncorrected PCIe error (non-fatal)",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: NON_FATAL,
        ..ROW
    },
    Row {
        id: "aer-fatal",
        what: "uncorrected PCIe error (fatal)",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: FATAL,
        ..ROW
    },
    Row {
        id: "aer-recovery-failed",
        what: "the device was not recovered after a PCIe error",
        about: Pci,
        meaning: fault(Ends::Reboot),
        // The result. A single driver's vote against it ("can't recover") may still end in success.
        forms: &[pci("device recovery failed"), pci("Device recovery failed")],
        ..ROW
    },
    Row {
        id: "device-not-ready",
        what: "a device did not come back after a reset",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[pci("not ready *ms after *; giving up")],
        // A guest resets it.
        not: &["vfio-pci ", "vfio_pci "],
        ..ROW
    },
    Row {
        id: "dpc",
        what: "the port cut the device off after an error",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        // Where the firmware has DPC, "EDR event received" comes before it: it may name another port, and no sender.
        forms: &[pci("DPC: containment event"), pci("DPC containment event")],
        not: &["software trigger"],
        ..ROW
    },
    // Whether it mattered is known where the device is read.
    Row {
        id: "slot-down",
        what: "the link of a slot went down",
        about: Pci,
        forms: &[
            pci("pciehp: Slot(*): Link Down"),
            pci("pciehp: Slot(*): Card not present"),
            pci("Slot(*): Link Down"),
            pci("Slot(*): Card not present"),
            pci("slot(*): Link Down event"),
            pci("Card not present on Slot(*)"),
        ],
        // A link that the port or a reset took down and brought back: "(recovered by DPC)" before Linux 6.16.
        not: &["Link Down/Up ignored"],
        ..ROW
    },
    Row {
        id: "slot-up",
        what: "the link of a slot came up",
        about: Pci,
        forms: &[
            pci("pciehp: Slot(*): Link Up"),
            pci("pciehp: Slot(*): Card present"),
            pci("Slot(*): Link Up"),
            pci("Slot(*): Card present"),
            pci("slot(*): Link Up event"),
            pci("Card present on Slot(*)"),
        ],
        ..ROW
    },
    Row {
        id: "slot-power",
        what: "a slot has no power",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            pci("pciehp: Slot(*): Power fault"),
            pci("Slot(*): Power fault"),
            pci("Power fault on slot "),
        ],
        ..ROW
    },
    Row {
        id: "iommu-fault",
        what: "a device accessed memory that it may not",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("DMAR: [DMA *] Request device [<>]"),
            pci("AMD-Vi: Event logged [IO_PAGE_FAULT "),
            pci("Event logged [IO_PAGE_FAULT "),
            at("AMD-Vi: Event logged [IO_PAGE_FAULT device=<> "),
            // Since Linux 6.14, below the line of `iommu-node-fault`.
            at("arm-smmu-v3 *: event: F_TRANSLATION client: <> sid: "),
            at("arm-smmu-v3 *: event: F_ADDR_SIZE client: <> sid: "),
            at("arm-smmu-v3 *: event: F_ACCESS client: <> sid: "),
            at("arm-smmu-v3 *: event: F_PERMISSION client: <> sid: "),
        ],
        // The processor's own graphics, at boot.
        not: &["device [00:02.0]", "device [0x00:0x02.0]"],
        ..ROW
    },
    // Events 0x10 to 0x13 are those four faults (Arm IHI 0070, event records). No echo: the more specific line comes second.
    Row {
        id: "iommu-node-fault",
        what: "a device accessed memory that it may not; this line does not say which",
        meaning: fault(Ends::Quiet(6)),
        forms: &[at("arm-smmu-v3 *: event 0x1% received:")],
        ..ROW
    },
    // Typical of a device that is lost or hangs.
    Row {
        id: "iommu-timeout",
        what: "a device does not answer the IOMMU",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("iommu *: AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=<> "),
            at("AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=<> "),
        ],
        ..ROW
    },
    Row {
        id: "iommu-node-timeout",
        what: "a device does not answer the IOMMU; the kernel does not say which",
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            // Newer kernels name the IOMMU: `IOMMU 0000:40:00.2: `.
            at("AMD-Vi: *Completion-Wait loop timed out"),
            at("DMAR: VT-d detected Invalidation Time-out Error: SID "),
            at("arm-smmu-v3 *: CMD_SYNC timeout at "),
            at("arm-smmu-v3 *: CMDQ error (cons %): ATC invalidate timeout"),
        ],
        echoes: &["iommu-timeout"],
        ..ROW
    },
];
