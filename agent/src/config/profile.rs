//! The drop-in file of `nodewarden profile learn`: the keys that describe a node, with the values that it has now.

use collectors::Key;
use collectors::host::metrics as h;
use collectors::{ethernet, gpu, nvidia, rdma};
use health::profile::Profile;
use toml::Value;

use super::keys as k;

/// A key, its value in a profile, and where that comes from.
struct Row {
    key: &'static Key,
    value: fn(&Profile) -> Option<Value>,
    source: &'static [&'static str],
    /// What a reader should know before other nodes get it.
    note: &'static str,
}

const ADDRESSES: &str = "Nodes of one kind usually share PCI addresses; delete this key if yours do not.";

static ROWS: &[Row] = &[
    Row {
        key: &k::GPU_ADDRESSES,
        value: |p| list(p.gpu_addresses.iter().map(|pci| &pci.0)),
        source: &[h::PCI_GPU_INFO.name],
        note: ADDRESSES,
    },
    Row {
        key: &k::RDMA_ADDRESSES,
        value: |p| list(p.rdma.addresses.iter().map(|pci| &pci.0)),
        source: &[rdma::metrics::PORT_INFO.name],
        note: ADDRESSES,
    },
    Row {
        key: &k::PFC,
        value: |p| priorities(p.rdma.pfc.as_deref()),
        source: &[ethernet::metrics::PFC_ENABLED.name],
        note: "",
    },
    Row {
        key: &k::TRUST,
        value: |p| p.rdma.trust.clone().map(Value::from),
        source: &[ethernet::metrics::QOS_TRUST.name],
        note: "",
    },
    Row {
        key: &k::ECN,
        value: |p| priorities(p.rdma.ecn.as_deref()),
        source: &[ethernet::metrics::DCQCN_ENABLED.name],
        note: "",
    },
    Row {
        key: &k::MTU,
        value: |p| integer(p.rdma.mtu),
        source: &[ethernet::metrics::PORT_MTU.name],
        note: "",
    },
    Row {
        key: &k::FEC,
        value: |p| p.rdma.fec.clone().map(Value::from),
        source: &[ethernet::metrics::FEC_MODE.name],
        note: "",
    },
    Row {
        key: &k::RATE,
        value: |p| integers(&p.rdma.rate),
        source: &[rdma::metrics::PORT_RATE.name],
        note: "",
    },
    Row {
        key: &k::FIRMWARE,
        value: |p| list(&p.rdma.firmware),
        source: &[rdma::metrics::DEVICE_INFO.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_GPUS,
        value: |p| integer(p.expect.gpus),
        source: &[h::PCI_GPUS.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_MODELS,
        value: |p| list(&p.expect.gpu_models),
        source: &[gpu::metrics::INFO.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_DRIVERS,
        value: |p| list(&p.expect.gpu_drivers),
        source: &[gpu::metrics::INFO.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_VBIOS,
        value: |p| list(&p.expect.gpu_vbios),
        source: &[gpu::metrics::INFO.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_NVLINKS,
        value: |p| integer(p.expect.nvlinks),
        source: &[nvidia::metrics::NVLINK_LINKS_UP.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_PORTS,
        value: |p| integer(p.expect.rdma_ports),
        source: &[rdma::metrics::PORT_STATE.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_MEMORY,
        value: |p| memory(p.expect.memory?),
        source: &[h::MEMORY_TOTAL.name],
        note: "Rounded down.",
    },
    Row {
        key: &k::EXPECT_CPUS,
        value: |p| integer(p.expect.cpus),
        source: &[h::CPUS_ONLINE.name],
        note: "",
    },
    Row {
        key: &k::EXPECT_MOUNTS,
        value: |p| list(&p.expect.mounts),
        source: &["/proc/self/mountinfo"],
        note: "Shared and local filesystems. Delete what a user or a job may unmount.",
    },
    Row {
        key: &k::EXPECT_MODULES,
        value: |p| list(&p.expect.modules),
        source: &["/proc/modules"],
        note: "Drivers of GPUs, RDMA and filesystems. Delete what jobs do not need.",
    },
];

/// The drop-in file. The same profile gives the same text, and `nodewarden config check` accepts it.
pub fn drop_in(profile: &Profile) -> String {
    let mut out = format!(
        "# Profile of a node, printed by `nodewarden profile learn` {}. Read it before other nodes get it:\n\
         # what this node lacks is not expected. Place: /etc/nodewarden/conf.d/50-profile.toml\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut section = "";
    for row in ROWS {
        let (table, name) = row.key.split();
        if table != section {
            section = table;
            out.push_str(&format!("\n[{table}]\n"));
        }
        // A driver's text may have a form that the key refuses.
        let fitting = (row.value)(profile).filter(|value| row.key.kind.check(value).is_empty());
        let source = row.source.join(", ");
        match fitting {
            Some(value) => {
                let note = if row.note.is_empty() {
                    String::new()
                } else {
                    format!(" {}", row.note)
                };
                out.push_str(&format!("# From {source}.{note}\n{name} = {value}\n"));
            }
            None => out.push_str(&format!(
                "# {name}: not set. {source}: absent, unreadable, or not equal everywhere.\n"
            )),
        }
    }
    out
}

fn integer(value: Option<u64>) -> Option<Value> {
    value.and_then(|n| i64::try_from(n).ok()).map(Value::from)
}

fn integers(values: &[u64]) -> Option<Value> {
    let values: Option<Vec<Value>> = values.iter().map(|n| integer(Some(*n))).collect();
    values.filter(|values| !values.is_empty()).map(Value::from)
}

/// Priorities may be none, which is a value too.
fn priorities(values: Option<&[u64]>) -> Option<Value> {
    let values: Option<Vec<Value>> = values?.iter().map(|n| integer(Some(*n))).collect();
    values.map(Value::from)
}

fn list<'a>(values: impl IntoIterator<Item = &'a String>) -> Option<Value> {
    let values: Vec<Value> = values.into_iter().cloned().map(Value::from).collect();
    (!values.is_empty()).then(|| Value::from(values))
}

/// In whole GiB, of less than 64 GiB in whole MiB: what the kernel keeps for itself differs by less.
fn memory(bytes: u64) -> Option<Value> {
    let (power, unit) = if bytes >> 30 >= 64 {
        (30, "GiB")
    } else {
        (20, "MiB")
    };
    let size = bytes >> power;
    (size > 0).then(|| Value::from(format!("{size} {unit}")))
}
