//! The rows of the daemon's configuration keys; those of collectors stand beside each collector.

use collectors::settings::{Kind, nearest};
use collectors::slurm::settings::NODE_NAME;
use collectors::{PciAddress, Tier, rdma};

use super::Listen;
use super::listen;
use crate::own;

const MODE: Kind = Kind::Choice(&["observe", "comment", "drain"]);

const PCI: Kind = Kind::List {
    what: "an array of PCI addresses",
    of: &Kind::Text {
        what: "a PCI address such as \"0000:3b:00.0\"",
        fits: |text| PciAddress::parse(text).is_some(),
    },
    empty: true,
};

const PRIORITIES: Kind = Kind::List {
    what: "an array of priorities from 0 to 7",
    of: &Kind::Integer {
        what: "a priority",
        from: 0,
        to: 7,
    },
    empty: true,
};

const METRICS: Kind = Kind::List {
    what: "an array of metric names",
    of: &Kind::Name {
        what: "a metric name",
        find: metric,
    },
    empty: true,
};

/// `major.minor` or `major.minor.patch`.
fn version(text: &str) -> bool {
    let number = |part: &str| (1..=5).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    (2..=3).contains(&text.split('.').count()) && text.split('.').all(number)
}

/// Whether a text of 1 to `most` characters holds letters, digits and these only.
fn plain(text: &str, most: usize, others: &[u8]) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || others.contains(&b);
    (1..=most).contains(&text.len()) && text.bytes().all(known)
}

fn metric(name: &str) -> Result<(), String> {
    let known = || own::all_metrics().filter(|m| m.tier != Tier::Private);
    if known().any(|m| m.name == name) {
        return Ok(());
    }
    if own::all_metrics().any(|m| m.name == name) {
        return Err(format!("{name} is read by health checks only and never served"));
    }
    let hint = nearest(name, known().map(|m| m.name)).map_or_else(
        || "expected a name of docs/metrics.md".to_owned(),
        |meant| format!("did you mean {meant}?"),
    );
    Err(format!("unknown metric {name:?}, {hint}"))
}

collectors::keys! {
    pub(super) KEYS;
    LISTEN = "listen": Kind::List { what: "an array of at least one address", of: &Kind::Text {
            what: listen::EXPECTED,
            fits: |text| text.parse::<Listen>().is_ok(),
        }, empty: false }, default "[\"127.0.0.1:19190\"]", since "0.1.0",
        "Where pages are served: addresses (\"127.0.0.1:19190\", \"[::]:19190\"), interfaces (\"ib0:19190\": all its\n\
         addresses) and networks (\"10.20.0.0/16:19190\", \"[fd00::]/8:19190\": every local address inside). What is\n\
         not there yet is waited for; an address already in use is a start-up error. Port 0 picks a free one.";
    LOG_LEVEL = "log.level": Kind::Choice(&["error", "warn", "info", "debug", "trace"]), default "\"info\"", since "0.1.0",
        "error, warn, info, debug or trace.";
    HEALTH_MODE = "health.mode": MODE, default "\"observe\"", since "0.1.0",
        "The most that any check may do: observe (count what it would have done), comment (write it into\n\
         the node's Comment) or drain (drain the node).";
    CHECKS = "health.checks": Kind::Map { what: "a table of check = mode", of: &MODE }, default "{}",
        example "{ xid = \"observe\" }", since "0.1.0",
        "The mode of single checks, never above health.mode.";
    BASELINE = "health.baseline": Kind::Text { what: "a version such as \"0.1\" or \"0.1.0\"", fits: version },
        example "\"0.1\"", since "0.1.0",
        "Only checks that this version had may drain; those that a later version brought observe.";
    SETTLE = "health.settle": Kind::Duration { zero: false }, default "\"30s\"", since "0.1.0",
        "Findings on one subject within this time are one incident. It never delays a drain.";
    GPU_ADDRESSES = "health.gpu_addresses": PCI, default "[]", example "[\"0000:1b:00.0\"]", since "0.1.0",
        "PCI addresses of the GPUs that must be there. Empty: no per-address check.";
    XIDS = "health.xids": Kind::Path, example "\"/etc/nodewarden/xids.toml\"", since "0.1.0",
        "A file whose rows replace single rows of the built-in table of Xids.";
    OPERATORS = "health.operators": Kind::List { what: "an array of user names", of: &Kind::Text {
            what: "a user name or uid",
            fits: |text| plain(text, 64, b"_.-@$\\") && !text.starts_with('-'),
        }, empty: true }, default "[]", example "[\"ops\"]", since "0.1.0",
        "Users besides root who may acknowledge and clear incidents and release drivers: names or uids.";
    RDMA_ADDRESSES = "health.rdma.addresses": Kind::List { what: "an array of PCI addresses", of: &Kind::Text {
            what: "a PCI address such as \"0000:19:00.0\"",
            fits: |text| PciAddress::parse(text).is_some(),
        }, empty: true }, default "[]", example "[\"0000:19:00.0\"]", since "0.1.0",
        "PCI addresses of the RDMA adapters that must be there. Empty: those that were there in this boot.";
    RDMA_PORTS = "health.rdma.ports": rdma::NAMES, default "[]", example "[\"mlx5_*\"]", since "0.1.0",
        "Devices or ports that the rest of this table is about, with the wildcards * and ?. Empty: all.";
    RDMA_EXCLUDE = "health.rdma.exclude": rdma::NAMES, default "[]", example "[\"mlx5_4\", \"mlx5_5/2\"]", since "0.1.0",
        "Devices or ports that it is not about, such as those for storage.";
    PFC = "health.rdma.pfc": PRIORITIES, example "[3]", since "0.1.0",
        "The priorities of a RoCE port that have priority flow control; all others must have none. Not set: not compared.";
    TRUST = "health.rdma.trust": Kind::Choice(&["dscp", "pcp"]), example "\"dscp\"", since "0.1.0",
        "What decides about the priority of a RoCE packet: dscp or pcp. Not set: not compared.";
    ECN = "health.rdma.ecn": PRIORITIES, example "[3]", since "0.1.0",
        "The priorities of a RoCE port that have DCQCN, at notification and reaction point. Not set: not compared.";
    MTU = "health.rdma.mtu": Kind::Integer { what: "a number of bytes", from: 68, to: 65_535 }, example "9000", since "0.1.0",
        "The MTU of a RoCE port's network interface, in bytes. Not set: not compared.";
    FEC = "health.rdma.fec": Kind::Choice(&["off", "rs", "baser", "llrs"]), example "\"rs\"", since "0.1.0",
        "The forward error correction of a RoCE port: off, rs, baser or llrs. Not set: not compared.";
    RATE = "health.rdma.rate": Kind::OneOrMore(&Kind::Integer {
            what: "a number of gigabits per second", from: 1, to: 10_000,
        }), example "400", since "0.1.0",
        "The rate of a port's link, in gigabits per second, or an array of those that are allowed. Not set: not compared.";
    FIRMWARE = "health.rdma.firmware": Kind::List { what: "an array of firmware versions", of: &Kind::Text {
            what: "a firmware version such as \"28.43.1014\"",
            fits: |text| plain(text, 64, b"._-/ ()"),
        }, empty: true }, default "[]", example "[\"28.43.1014\"]", since "0.1.0",
        "The firmware versions that an RDMA adapter may have. Empty: any.";
    TIER = "metrics.tier": Kind::Choice(&["core", "detail", "debug"]), default "\"core\"", since "0.1.0",
        "Which metrics /metrics serves by default: core, detail or debug. A request may ask for another.";
    INCLUDE = "metrics.include": METRICS, default "[]", since "0.1.0",
        "Metrics that are served although their tier is higher, by name.";
    EXCLUDE = "metrics.exclude": METRICS, default "[]", since "0.1.0",
        "Metrics that are never served, by name. Health checks still read them.";
    NODE_NAMED = "slurm.node_name": NODE_NAME, example "\"gpu017\"", since "0.1.0",
        "Which slurmd of this host is meant, where several run.";
    SCONTROL = "slurm.scontrol": Kind::Path, example "\"/usr/bin/scontrol\"", since "0.1.0",
        "Path of scontrol. Not set: found automatically.";
    CONF = "slurm.conf": Kind::Path, example "\"/etc/slurm/slurm.conf\"", since "0.1.0",
        "Path of slurm.conf. Not set: the running slurmd's own.";
    TIMEOUT = "slurm.timeout": Kind::Duration { zero: false }, default "\"10s\"", since "0.1.0",
        "How long one scontrol may take.";
    POLL = "slurm.poll": Kind::Duration { zero: true }, default "\"5m\"", since "0.1.0",
        "How often the own node is read while nothing is wrong. 0: only when needed.";
    WATCH = "slurm.watch": Kind::Duration { zero: false }, default "\"30s\"", since "0.1.0",
        "How often it is read while a drain of ours stands or an act is withheld.";
    UNDRAIN = "slurm.undrain": Kind::Boolean, default "true", since "0.1.0",
        "Lift our own drain when its incident is cleared.";
}
