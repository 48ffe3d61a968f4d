//! The table of keys. Reading, checking, the example file and the suggestions are all made from it.

use toml::de::DeValue;

use super::rdma;
use super::value::{Fits, Item, any_duration, boolean, list, misfit, path, positive, text};
use super::{Config, duration, listen};
use health::Mode;

/// One key.
pub(super) struct Key {
    /// Its dotted path.
    pub(super) path: &'static str,
    /// What it is for, in lines of the example file.
    pub(super) help: &'static str,
    /// What the example file shows where there is no default.
    pub(super) example: &'static str,
    /// Takes the value over.
    pub(super) set: fn(&mut Config, &Item<'_>) -> Fits<()>,
    /// The value as TOML; `None` where the default is that there is none.
    pub(super) show: fn(&Config) -> Option<String>,
}

const MODES: &str = "\"observe\", \"comment\" or \"drain\"";
const TIERS: &str = "\"core\", \"detail\" or \"debug\"";
const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

/// The keys whose values are checked against the table of metrics.
pub(super) const METRIC_LISTS: [&str; 2] = ["metrics.include", "metrics.exclude"];

/// The key whose values are checked against the list of checks.
pub(super) const CHECKS: &str = "health.checks";

fn mode(item: &Item<'_>) -> Fits<Mode> {
    text(item, MODES, |s| match s {
        "observe" => Some(Mode::Observe),
        "comment" => Some(Mode::Comment),
        "drain" => Some(Mode::Drain),
        _ => None,
    })
}

/// `major.minor` or `major.minor.patch`.
fn version(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('.').collect();
    let number = |p: &&str| (1..=5).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
    let good = (2..=3).contains(&parts.len()) && parts.iter().all(number);
    good.then(|| text.to_owned())
}

/// A user name as useradd(8) takes it, or a uid.
fn user(text: &str) -> Option<String> {
    let good = (1..=64).contains(&text.len())
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-@$\\".contains(&b));
    good.then(|| text.to_owned())
}

/// A word as Slurm takes it for a node's name.
fn node_name(text: &str) -> Option<String> {
    let good = (1..=255).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        && !text.starts_with('-');
    good.then(|| text.to_owned())
}

fn metric_list(item: &Item<'_>) -> Fits<Vec<String>> {
    list(item, "an array of metric names", "a metric name", |s| {
        Some(s.to_owned())
    })
}

fn checks(config: &mut Config, item: &Item<'_>) -> Fits<()> {
    let DeValue::Table(table) = item.get_ref() else {
        return misfit(item, "a table of check = mode");
    };
    let mut bad = Vec::new();
    for (id, value) in table {
        match mode(value) {
            Ok(mode) => {
                config.health.checks.insert(id.get_ref().to_string(), mode);
            }
            Err(faults) => bad.extend(faults),
        }
    }
    if bad.is_empty() { Ok(()) } else { Err(bad) }
}

/// A TOML string.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(super) fn quoted<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|i| quote(&i.to_string())).collect();
    format!("[{}]", items.join(", "))
}

fn time(value: std::time::Duration) -> Option<String> {
    Some(quote(&duration::show(value)))
}

/// Every key, in the order of the example file.
pub(super) static KEYS: &[Key] = &[
    Key {
        path: "listen",
        help: "Where pages are served: addresses (\"127.0.0.1:19190\", \"[::]:19190\"), interfaces (\"ib0:19190\": all its\n\
               addresses) and networks (\"10.20.0.0/16:19190\", \"[fd00::]/8:19190\": every local address inside). What is\n\
               not there yet is waited for; what another program holds ends the start. Port 0 picks a free one.",
        example: "",
        set: |c, v| {
            c.listen = list(v, "an array of addresses", listen::EXPECTED, |s| s.parse().ok())?;
            if c.listen.is_empty() {
                return misfit(v, "at least one address");
            }
            Ok(())
        },
        show: |c| Some(quoted(&c.listen)),
    },
    Key {
        path: "log.level",
        help: "error, warn, info, debug or trace.",
        example: "",
        set: |c, v| {
            let expected = "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
            c.log_level = text(v, expected, |s| LEVELS.contains(&s).then(|| s.to_owned()))?;
            Ok(())
        },
        show: |c| Some(quote(&c.log_level)),
    },
    Key {
        path: "health.mode",
        help: "The most that any check may do: observe (count what it would have done), comment (write it into\n\
               the node's Comment) or drain (drain the node).",
        example: "",
        set: |c, v| mode(v).map(|m| c.health.mode = m),
        show: |c| Some(quote(c.health.mode.word())),
    },
    Key {
        path: CHECKS,
        help: "The mode of single checks, never above health.mode.",
        example: "{ xid = \"observe\" }",
        set: checks,
        show: |_| None,
    },
    Key {
        path: "health.baseline",
        help: "Only checks that this version had may drain; those that a later version brought observe.",
        example: "\"0.1\"",
        set: |c, v| {
            c.health.baseline = Some(text(v, "a version such as \"0.1\" or \"0.1.0\"", version)?);
            Ok(())
        },
        show: |c| c.health.baseline.as_deref().map(quote),
    },
    Key {
        path: "health.settle",
        help: "Findings on one subject within this time are one incident. It never delays a drain.",
        example: "",
        set: |c, v| positive(v).map(|d| c.health.settle = d),
        show: |c| time(c.health.settle),
    },
    Key {
        path: "health.gpu_addresses",
        help: "PCI addresses of the GPUs that must be there. Empty: none is missed by address.",
        example: "",
        set: |c, v| {
            let each = "a PCI address such as \"0000:3b:00.0\"";
            c.health.gpu_addresses = list(
                v,
                "an array of PCI addresses",
                each,
                collectors::PciAddress::parse,
            )?;
            Ok(())
        },
        show: |c| Some(quoted(&c.health.gpu_addresses)),
    },
    Key {
        path: "health.xids",
        help: "A file whose rows replace single rows of the built-in table of Xids.",
        example: "\"/etc/nodewarden/xids.toml\"",
        set: |c, v| path(v).map(|p| c.health.xids = Some(p)),
        show: |c| c.health.xids.as_ref().map(|p| quote(&p.to_string_lossy())),
    },
    Key {
        path: "health.operators",
        help: "Users besides root who may acknowledge and clear incidents and release drivers: names or uids.",
        example: "",
        set: |c, v| {
            let each = "a user name or uid";
            c.health.operators = list(v, "an array of user names", each, user)?;
            Ok(())
        },
        show: |c| Some(quoted(&c.health.operators)),
    },
    rdma::ADDRESSES,
    rdma::PORTS,
    rdma::EXCLUDE,
    rdma::PFC,
    rdma::TRUST,
    rdma::ECN,
    rdma::MTU,
    rdma::FEC,
    rdma::RATE,
    rdma::FIRMWARE,
    Key {
        path: "metrics.tier",
        help: "Which metrics /metrics serves by default: core, detail or debug. A request may ask for another.",
        example: "",
        set: |c, v| text(v, TIERS, exposition::tier).map(|t| c.metrics.tier = t),
        show: |c| Some(quote(exposition::tier_word(c.metrics.tier))),
    },
    Key {
        path: "metrics.include",
        help: "Metrics that are served although their tier is higher, by name.",
        example: "",
        set: |c, v| metric_list(v).map(|names| c.metrics.include = names),
        show: |c| Some(quoted(&c.metrics.include)),
    },
    Key {
        path: "metrics.exclude",
        help: "Metrics that are never served, by name. Health checks still read them.",
        example: "",
        set: |c, v| metric_list(v).map(|names| c.metrics.exclude = names),
        show: |c| Some(quoted(&c.metrics.exclude)),
    },
    Key {
        path: "slurm.node_name",
        help: "Which slurmd of this host is meant, where several run.",
        example: "\"gpu017\"",
        set: |c, v| {
            c.slurm.node_name = Some(text(v, "a Slurm node name", node_name)?);
            Ok(())
        },
        show: |c| c.slurm.node_name.as_deref().map(quote),
    },
    Key {
        path: "slurm.scontrol",
        help: "Path of scontrol, where it is not found by itself.",
        example: "\"/usr/bin/scontrol\"",
        set: |c, v| path(v).map(|p| c.slurm.scontrol = Some(p)),
        show: |c| c.slurm.scontrol.as_ref().map(|p| quote(&p.to_string_lossy())),
    },
    Key {
        path: "slurm.conf",
        help: "Path of slurm.conf, where it is not the running slurmd's own.",
        example: "\"/etc/slurm/slurm.conf\"",
        set: |c, v| path(v).map(|p| c.slurm.conf = Some(p)),
        show: |c| c.slurm.conf.as_ref().map(|p| quote(&p.to_string_lossy())),
    },
    Key {
        path: "slurm.timeout",
        help: "How long one scontrol may take.",
        example: "",
        set: |c, v| {
            c.slurm.timeout = positive(v)?;
            c.health.scheduler.timeout = c.slurm.timeout;
            Ok(())
        },
        show: |c| time(c.slurm.timeout),
    },
    Key {
        path: "slurm.poll",
        help: "How often the own node is read while nothing is wrong. 0: only when needed.",
        example: "",
        set: |c, v| any_duration(v).map(|d| c.health.scheduler.poll = d),
        show: |c| time(c.health.scheduler.poll),
    },
    Key {
        path: "slurm.watch",
        help: "How often it is read while a drain of ours stands or an act is withheld.",
        example: "",
        set: |c, v| positive(v).map(|d| c.health.scheduler.watch = d),
        show: |c| time(c.health.scheduler.watch),
    },
    Key {
        path: "slurm.undrain",
        help: "Lift our own drain when its incident is cleared.",
        example: "",
        set: |c, v| boolean(v).map(|b| c.health.scheduler.undrain = b),
        show: |c| Some(c.health.scheduler.undrain.to_string()),
    },
];
