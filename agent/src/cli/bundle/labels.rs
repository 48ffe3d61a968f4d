//! What a bundle shows of each label. A label that has no row is left out, and so is a metric without a row in nodewarden's tables.

use collectors::gpfs::health as gpfs;

use super::names::{self, Names};
use crate::own;

/// How the value of a label is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// As it is, where it has the form of a driver's or nodewarden's own words.
    Word,
    /// As it is, where it is one of these.
    OneOf(&'static [&'static str]),
    /// As it is, where it is a number.
    Number,
    /// A GPU: its UUID as a pseudonym, its PCI address as it is.
    Gpu,
    /// A PCI address as it is.
    Pci,
    /// The name of an RDMA device or NVMe controller where a driver made it, else a pseudonym.
    Device,
    /// The id of a check, a pseudonym for one of the site.
    Check,
    /// The id of an incident.
    Incident,
    /// By the label `subject_kind`.
    Subject,
    /// A pseudonym of this kind.
    Pseudonym(&'static str),
    /// The label is left out.
    Dropped,
}

use Treatment::{Check, Device, Dropped, Gpu, Incident, Number, OneOf, Pci, Pseudonym, Subject, Word};

/// Every label, by name.
#[rustfmt::skip]
pub(super) static LABELS: &[(&str, Treatment)] = &[
    ("account", Pseudonym("account")), ("act", Word), ("address", Pseudonym("address")), ("architecture", Word),
    ("array_job", Pseudonym("job")), ("array_task", Dropped), ("aspect", Word), ("block", Word), ("board_id", Word),
    ("boot_id", Pseudonym("boot")), ("bucket", Word), ("by", Word), ("call", Word), ("check", Check), ("class", Word),
    ("client", Pseudonym("client")), ("clique", Number), ("clock", Word), ("cluster_uuid", Pseudonym("cluster")),
    ("code", Word), ("collector", Word), ("command", Word), ("component", Word), ("compute", Word), ("controller", Word),
    ("counter", Word), ("device", Device), ("device_id", Number), ("dimm", Word), ("dimm_label", Pseudonym("dimm")),
    ("direction", Word), ("distance", Word), ("driver", Word), ("dscp", Number), ("ecc", Word), ("engine", Word),
    ("entity", Pseudonym("entity")), ("entity_type", Word), ("errors", Word), ("event", Word), ("evidence", Word),
    ("family", Word), ("feature", Word), ("firmware", Word), ("firmware_version", Word), ("folder", Dropped), ("fs", Pseudonym("filesystem")),
    ("fstype", Word), ("function", Word), ("gpfs_cluster", Pseudonym("cluster")), ("gpu", Gpu), ("gpu_instance", Word),
    ("hca_type", Word), ("het_job", Pseudonym("job")), ("image", Word), ("in_flight", Word), ("incident", Incident),
    ("index", Number), ("jobid", Pseudonym("job")), ("kind", Word), ("lane", Number), ("latency", Word), ("le", Number), ("level", Number),
    ("link", Number), ("link_layer", Word), ("location", Word), ("memory", Word), ("message", Word), ("method", Word),
    ("minor", Number), ("mode", Word), ("model", Word), ("mountpoint", Pseudonym("mount")), ("name", Word),
    ("netdev", Pseudonym("interface")), ("nid", Pseudonym("interface")), ("node", Pseudonym("node")),
    ("node_guid", Pseudonym("guid")), ("numa_node", Number), ("nvswitch", Gpu), ("oem", Word), ("op", Word),
    ("opcode", Word), ("operation", Word), ("page", Word), ("pages", Word), ("parent", Pci), ("part", Word),
    ("partition", Pseudonym("partition")), ("pci", Pci), ("pid", Pseudonym("process")), ("pipe", Word), ("point", Word),
    ("policy", Word), ("pool", Pseudonym("pool")), ("port", Number), ("power", Word), ("priority", Word),
    ("process", Word), ("profile", Word), ("reason", Word), ("release", Word), ("remote_kind", Word), ("remote_pci", Pci),
    ("resource", Word), ("result", Word), ("revision", Word), ("scope", Word), ("sensor", Word),
    ("serial", Pseudonym("serial")), ("server", Pseudonym("server")), ("severity", Word), ("size", Word), ("source", Word),
    ("spares", Word), ("state", Word), ("status", Word), ("subject", Subject), ("subject_kind", Word), ("sxid", Number),
    ("target", Pseudonym("target")), ("target_type", Word), ("transport", Word), ("trust", Word), ("user", Pseudonym("user")),
    ("uuid", Pseudonym("instance")), ("vbios", Word), ("vendor", Word), ("vendor_id", Number), ("verdict", Word),
    ("version", Word), ("waiter", Word), ("warning", Word), ("wchan", Word), ("worker", Word), ("xcc", Number), ("xid", Number),
];

/// Labels of single metrics, which hold something else there.
#[rustfmt::skip]
static SPECIAL: &[(&str, &str, Treatment)] = &[
    // A server and path, or a block device.
    ("mount_info", "source", Pseudonym("source")),
    // Of the output of commands, whose events a site may name.
    ("gpfs_component_event", "component", Pseudonym("component")), ("gpfs_component_event", "entity_type", Pseudonym("type")),
    ("gpfs_component_event", "event", Pseudonym("event")), ("gpfs_component_event", "severity", OneOf(&gpfs::SEVERITIES)),
    ("gpfs_component_has_status", "component", Pseudonym("component")),
    ("gpfs_component_has_status", "entity_type", Pseudonym("type")),
    ("gpfs_component_status", "component", Pseudonym("component")), ("gpfs_component_status", "entity_type", Pseudonym("type")),
    ("gpfs_waiters_by_thread", "waiter", Pseudonym("thread")),
    // The name of a file, of a driver that nodewarden does not know.
    ("rdma_hw_counter_total", "counter", Pseudonym("counter")),
];

/// How a label of a metric is shown.
pub(super) fn treatment(metric: &str, label: &str) -> Option<Treatment> {
    let special = SPECIAL.iter().find(|(m, l, _)| (*m, *l) == (metric, label));
    let general = || LABELS.iter().find(|(name, _)| *name == label).map(|(_, t)| *t);
    special.map(|(_, _, t)| *t).or_else(general)
}

/// The shown value; `None`: the label is left out. `others`: the labels of the same series.
pub(super) fn show(
    (metric, label): (&str, &str),
    value: &str,
    others: &[(String, String)],
    names: &mut Names,
) -> Option<String> {
    Some(match treatment(metric, label)? {
        Word => names::word(value),
        OneOf(words) => names::one_of(value, words),
        Number => names::number(value),
        Gpu => names.gpu(value),
        Pci => names.pci(value).text(),
        Device => names.device(value),
        Check => names.check(value),
        Incident => names::incident(value),
        Subject => {
            let kind = others.iter().find(|(name, _)| name == "subject_kind");
            names.subject(kind.map_or("", |(_, kind)| kind), value)
        }
        Pseudonym(kind) => names.of(kind, value),
        Dropped => return None,
    })
}

/// In the manifest: the labels by what is shown of them.
pub(super) fn described() -> serde_json::Value {
    let of = |wanted: &dyn Fn(Treatment) -> bool| -> Vec<&str> {
        let rows = LABELS.iter().filter(|(_, treatment)| wanted(*treatment));
        rows.map(|(name, _)| *name).collect()
    };
    serde_json::json!({
        "pseudonym": of(&|t| matches!(t, Pseudonym(_) | Subject | Gpu)),
        "dropped": of(&|t| t == Dropped),
        "pseudonym where the form is not that of hardware": of(&|t| matches!(t, Device | Pci | Check)),
        "withheld where the form is not that of a word or number": of(&|t| matches!(t, Word | Number | Incident)),
        "pseudonym in one metric": SPECIAL
            .iter()
            .filter(|(_, _, t)| matches!(t, Pseudonym(_)))
            .map(|(metric, label, _)| format!("{metric}: {label}"))
            .collect::<Vec<String>>(),
    })
}

/// Whether a metric is served and so may be in a bundle: histograms by the name of the family.
pub(super) fn metric(name: &str) -> Option<&'static collectors::Metric> {
    own::all_metrics().find(|m| m.name == name && m.tier <= collectors::Tier::Detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_of_a_served_metric_has_a_row() {
        for metric in own::all_metrics().filter(|m| m.tier <= collectors::Tier::Detail) {
            for label in metric.labels {
                assert!(
                    treatment(metric.name, label).is_some(),
                    "{}: {label}: decide in LABELS what a bundle shows of it",
                    metric.name
                );
            }
        }
    }

    /// A name needs no character that words lack.
    #[test]
    fn only_labels_of_words_show_a_name_without_a_sign() {
        let mut names = Names::default();
        for metric in own::all_metrics().filter(|m| m.tier <= collectors::Tier::Detail) {
            for label in metric.labels.iter().copied() {
                if treatment(metric.name, label) == Some(Word) {
                    continue;
                }
                for name in ["canary", "canary-2.site", "4711canary"] {
                    for kind in ["job", "mount", "worker", "disk", "rdma_port", "canary"] {
                        let others = [("subject_kind".to_owned(), kind.to_owned())];
                        let shown = show((metric.name, label), name, &others, &mut names);
                        let is_kept = shown.as_ref().is_some_and(|shown| shown.contains("canary"));
                        assert!(!is_kept, "{} {label} {kind}: {shown:?}", metric.name);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_sorted_and_unique() {
        let names: Vec<&str> = LABELS.iter().map(|(name, _)| *name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn labels_that_name_users_and_places_are_pseudonyms() {
        for label in [
            "user",
            "account",
            "jobid",
            "partition",
            "mountpoint",
            "fs",
            "node",
            "netdev",
            "serial",
            "uuid",
        ] {
            assert!(matches!(treatment("x", label), Some(Pseudonym(_))), "{label}");
        }
        assert_eq!(
            treatment("rdma_hw_counter_total", "counter"),
            Some(Pseudonym("counter"))
        );
        assert_eq!(treatment("x", "path"), None);
    }

    #[test]
    fn a_severity_of_gpfs_is_one_of_its_words() {
        let mut names = Names::default();
        for (value, shown) in [("TIP", "TIP"), ("", ""), ("10.22.51.57", names::WITHHELD)] {
            let of = ("gpfs_component_event", "severity");
            assert_eq!(show(of, value, &[], &mut names).as_deref(), Some(shown));
        }
    }
}
