//! Fuzz targets as plain functions. To add one: a function, its line in [`TARGETS`], and at least one file below
//! `fixtures/fuzz/<name>/`.

use model::scheduler::{IncidentId, Reason};
use nodewarden::config::Listen;

/// A target: takes any bytes, and panics if an invariant does not hold.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub static TARGETS: &[(&str, Target)] = &[
    ("kmsg_record", collectors::fuzz::kmsg_record),
    ("xid_line", collectors::fuzz::xid_line),
    ("rdma_attribute", collectors::fuzz::rdma_attribute),
    ("netlink_messages", collectors::fuzz::netlink_messages),
    ("netlink_recording", collectors::fuzz::netlink_recording),
    ("ethernet_answer", collectors::fuzz::ethernet_answer),
    ("ethtool_statistics", collectors::fuzz::ethtool_statistics),
    ("device_program", collectors::fuzz::device_program),
    ("mmpmon_reply", collectors::fuzz::mmpmon_reply),
    ("mm_output", collectors::fuzz::mm_output),
    ("mountinfo", collectors::fuzz::mountinfo),
    ("mountstats", collectors::fuzz::mountstats),
    ("cgroup_path", collectors::fuzz::cgroup_path),
    ("gres_conf", collectors::fuzz::gres_conf),
    ("lustre_file", collectors::fuzz::lustre_file),
    ("gpu_metrics", collectors::fuzz::gpu_metrics),
    ("amd_text", collectors::fuzz::amd_text),
    ("smart_log", collectors::fuzz::smart_log),
    ("scontrol_show_node", slurm::parse::fuzz),
    ("sinfo", slurm::sinfo::fuzz),
    ("node_extra", slurm::extra::fuzz),
    ("sinfo_partition", slurm::guard::table::fuzz),
    ("reservations", slurm::guard::reservation::fuzz),
    ("reason", reason),
    ("scrape_request", exposition::select::fuzz),
    ("listen", listen),
    ("web_config", nodewarden::web::fuzz),
];

/// A drain reason keeps its format and its end, whatever text a check or a driver adds.
pub fn reason(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let (check, subject, detail) = (part(), part(), part());
    let Some(id) = IncidentId::parse("abcdefg7") else {
        panic!("a valid id was rejected");
    };
    let made = Reason::compose(check, subject, detail, "reset-gpu", &id);
    assert!(Reason::new(made.as_str()).is_some(), "{}", made.as_str());
    assert!(
        made.as_str().ends_with(" act=reset-gpu id=abcdefg7"),
        "{}",
        made.as_str()
    );
}

/// An accepted entry of `listen` parses again to the same value.
pub fn listen(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(entry) = text.parse::<Listen>() {
        assert_eq!(
            entry.to_string().parse::<Listen>().ok().as_ref(),
            Some(&entry),
            "{text:?}"
        );
    }
}
