//! Network adapters: drivers/net/ethernet, drivers/infiniband, net/sched/sch_generic.c. Firmware that does not answer is
//! another event.

use super::form::{at, driver, interface, pci};
use super::{Ends, Meaning, ROW, Row};
use crate::SubjectKind::{NetworkInterface, Pci, RdmaDevice};

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "network-adapter-error",
        ends,
    }
}

const MLX5: &str = "mlx5_core";

pub(super) static ROWS: &[Row] = &[
    Row {
        id: "adapter-hot",
        what: "a network adapter is hot",
        about: Pci,
        meaning: fault(Ends::Quiet(1)),
        forms: &[
            driver(MLX5, "*High temperature on sensors with bit set "),
            // One driver writes "temprature".
            driver(MLX5, "*Health issue observed, High temp"),
            driver("bnxt_en", "Chip temperature has gone above the "),
        ],
        ..ROW
    },
    // hfi1 takes the link down and leaves it there.
    Row {
        id: "adapter-overheated",
        what: "a network adapter became too hot and was stopped",
        about: Pci,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[driver(
            "hfi1",
            "*: Critical temperature reached! Forcing device into freeze mode!",
        )],
        ..ROW
    },
    Row {
        id: "adapter-cable",
        what: "a network adapter reports a fault of its cable or module",
        about: Pci,
        meaning: fault(Ends::Quiet(24)),
        forms: &[
            driver(MLX5, "Port module event[error]: module %, Cable error"),
            driver(MLX5, "Port module event[error]: module %, "),
        ],
        ..ROW
    },
    Row {
        id: "adapter-cable-plugged",
        what: "a cable or module was plugged in",
        about: Pci,
        meaning: Meaning::AllClear(&["adapter-cable"]),
        forms: &[driver(MLX5, "Port module event: module %, Cable plugged")],
        ..ROW
    },
    // On some boards at each boot.
    Row {
        id: "adapter-power",
        what: "a slot offers a network adapter too little power",
        about: Pci,
        forms: &[driver(MLX5, "Detected insufficient power on the PCIe slot ")],
        ..ROW
    },
    Row {
        id: "adapter-not-started",
        what: "a network adapter was not started by its driver",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            at("mlx5_core: probe of <> failed with error "),
            driver(MLX5, "probe with driver mlx5_core failed with error "),
            driver(MLX5, "Firmware over % MS in "),
            driver(MLX5, "mlx5_init_one failed with error code "),
            driver(MLX5, "mlx5_load_one failed with error code "),
            at("bnxt_en: probe of <> failed with error "),
            driver("bnxt_en", "probe with driver bnxt_en failed with error "),
            at("ice: probe of <> failed with error "),
            driver("ice", "probe with driver ice failed with error "),
            at("ionic: probe of <> failed with error "),
            driver("ionic", "probe with driver ionic failed with error "),
            at("mlx4_core: probe of <> failed with error "),
            driver("mlx4_core", "probe with driver mlx4_core failed with error "),
            at("hfi1: probe of <> failed with error "),
            driver("hfi1", "probe with driver hfi1 failed with error "),
            driver("efa", "Reset indication didn't turn "),
            driver("efa", "Device isn't ready, "),
            // The Ethernet half runs, and no RDMA device appears.
            pci("IRDMA hardware initialization FAILED "),
        ],
        // Tried again later.
        not: &["error -517"],
        ..ROW
    },
    Row {
        id: "rdma-device-not-started",
        what: "an RDMA device was not started by its driver",
        about: RdmaDevice,
        meaning: fault(Ends::Reboot),
        forms: &[
            at("infiniband <>: Couldn't create per-port data"),
            // No management agent: the port is active, and no program connects (drivers/infiniband/core/mad.c).
            at("infiniband <>: Couldn't open port "),
        ],
        ..ROW
    },
    Row {
        id: "adapter-admin-queue",
        what: "a network adapter does not answer its driver",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            pci("The device didn't send any completion for admin cmd "),
            pci("The device sent a completion but the driver didn't receive any MSI-X interrupt"),
            driver("efa", "Admin queue is closed"),
            driver("ena", "Admin queue is closed"),
        ],
        ..ROW
    },
    // The driver's own releases print them for the device, on kernels that they build for without the kernel's function.
    Row {
        id: "rdma-admin-queue",
        what: "an RDMA device does not answer its driver",
        about: RdmaDevice,
        meaning: fault(Ends::Reboot),
        forms: &[
            at("infiniband <>: The device didn't send any completion for admin cmd "),
            at(
                "infiniband <>: The device sent a completion but the driver didn't receive any MSI-X interrupt",
            ),
            at("infiniband <>: Admin queue is closed"),
        ],
        ..ROW
    },
    Row {
        id: "transmit-timeout",
        what: "a network interface does not transmit",
        about: NetworkInterface,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("NETDEV WATCHDOG: <> (*): transmit queue % timed out"),
            interface("<>: NETDEV WATCHDOG: CPU: %: transmit queue % timed out"),
            // mlx5 and bnxt, below the kernel's line. Before Linux 6.8 that one comes once a boot for all interfaces.
            interface("<>: TX timeout detected"),
            at("<>: transmit timeout: latency % msecs"),
        ],
        // Known to come without a fault.
        not: &["latency 10 msecs"],
        ..ROW
    },
    // Once after 10 s and every 10 s from then on. While it lasts, no container starts or ends.
    Row {
        id: "interface-held",
        what: "a removed network interface is still in use",
        forms: &[at("unregister_netdevice: waiting for * to become free. ")],
        ..ROW
    },
    Row {
        id: "neighbor-table-full",
        what: "the table of neighbors is full: packets to further nodes are dropped",
        forms: &[at("neighbour: *: neighbor table overflow!")],
        ..ROW
    },
    Row {
        id: "adapter-transmit",
        what: "a network adapter does not transmit",
        about: Pci,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            pci("tx_timeout: VSI_num: "),
            // i40e.
            pci("tx_timeout: VSI_seid: "),
            pci("tx_timeout recovery level %, "),
        ],
        ..ROW
    },
    // The driver takes the interface down and does nothing more until it is loaded again.
    Row {
        id: "adapter-given-up",
        what: "a network adapter was given up by its driver",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[pci("tx_timeout recovery unsuccessful")],
        ..ROW
    },
    Row {
        id: "queue-pair-error",
        what: "a program's queue pair failed",
        about: RdmaDevice,
        forms: &[
            at("infiniband <>: mlx5_poll_one:* error cqe"),
            at("infiniband <>: dump_cqe:"),
            // Linux 4.18. The name is not cut off at the colon: the event is the node's.
            at("mlx5_*:dump_cqe:"),
        ],
        ..ROW
    },
];
