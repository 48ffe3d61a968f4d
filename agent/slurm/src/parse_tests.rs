use std::path::PathBuf;

use model::scheduler::Author;
use proptest::prelude::*;

use super::super::state::{Base, Flag};
use super::*;

fn fixtures(below: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(below)
}

#[allow(clippy::disallowed_methods, reason = "tests read fixtures")]
fn captured(below: &str) -> Node {
    let text = std::fs::read_to_string(fixtures(below)).unwrap();
    show_node(&text, "n0", &TimeZone::UTC).unwrap()
}

#[test]
fn every_version() {
    for (version, slurmd, gres) in [
        ("20.11.4", 1_795_230_816, "gpu:h100:8"),
        ("22.05.8", 1_795_231_041, "gpu:h100:8,shard:h100:32"),
        ("24.11.5", 1_795_230_874, "gpu:h100:8,shard:h100:32"),
        ("26.05.5", 1_795_230_929, "gpu:h100:8,shard:h100:32"),
    ] {
        let node = captured(&format!("scontrol/{version}/show-node.txt"));
        assert_eq!(node.name, "n0");
        assert_eq!(node.hostname, "host1");
        assert_eq!((node.base, node.flags.len()), (Base::Mixed, 0));
        assert_eq!(node.unknown_words, Vec::<String>::new());
        assert_eq!(
            (node.reason, node.comment, node.extra),
            (None, None, None),
            "{version}"
        );
        assert_eq!(node.gres, gres);
        let boot = node.boot_time.unwrap();
        assert!(
            (1_795_225_270..1_795_225_280).contains(&boot),
            "{version}: {boot}"
        );
        assert_eq!(node.slurmd_start_time, Some(slurmd), "{version}");
    }
}

/// What a lift leaves on 24.11: a drain over it is one without a reason.
#[test]
fn none_is_no_reason() {
    let shown = |reason: &str| {
        let head = "NodeName=n0\n   NodeAddr=a NodeHostName=h\n   State=IDLE+DRAIN A=1\n";
        let text = format!("{head}   Reason={reason} [root@2026-11-21T03:17:21]\n\n");
        show_node(&text, "n0", &TimeZone::UTC).unwrap()
    };
    assert_eq!(shown("none").reason, None);
    assert_eq!(crate::texts::author(&shown("none")), Author::None);
    assert_eq!(
        crate::texts::author(&shown("none : Not responding")),
        Author::None
    );
    assert_eq!(crate::texts::author(&shown("none of us")), Author::Foreign);
}

#[test]
fn a_drained_node() {
    let node = captured("scontrol/22.05.8/show-node-drained.txt");
    assert_eq!(node.base, Base::Idle);
    assert!(node.has(Flag::Drain));
    let reason = node.reason.unwrap();
    assert_eq!(
        reason.text,
        "nodewarden:xid.79 gpu3 off the bus act=reboot id=abcdefg2"
    );
    assert_eq!(reason.user, "root");
    assert!(reason.at.is_some());
}

#[test]
fn free_texts_forge_nothing() {
    let node = captured("scontrol/22.05.8/show-node-texts.txt");
    assert_eq!(node.base, Base::Idle);
    assert!(node.has(Flag::Drain));
    let reason = node.reason.unwrap();
    assert_eq!(
        reason.text,
        "first line State=IDLE [x]\n   State=IDLE\nNodeName=other third"
    );
    assert_eq!(node.comment.as_deref(), Some("hello"));
    assert_eq!(node.extra.as_deref(), Some("forged\nn9"));
}

#[test]
fn errors_name_line_found_and_expected() {
    let two = "NodeName=n0 Arch=x\n   State=IDLE\n\nNodeName=n1 Arch=x\n";
    let error = show_node(two, "n0", &TimeZone::UTC).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scontrol show node, line 4: found \"NodeName=n1 Arch=x\", expected NodeName=n0 and no other node"
    );
    let error = show_node("Node n0 not found\n", "n0", &TimeZone::UTC).unwrap_err();
    assert_eq!((error.line, error.found.as_str()), (2, "Node n0 not found"));
    let short = "NodeName=n0\n   State=IDLE\n";
    assert_eq!(show_node(short, "n0", &TimeZone::UTC).unwrap_err().line, 3);
    let time = "NodeName=n0\n   NodeAddr=a NodeHostName=b\n   State=IDLE\n   BootTime=soon\n";
    let error = show_node(time, "n0", &TimeZone::UTC).unwrap_err();
    assert_eq!((error.line, error.found.as_str()), (4, "soon"));
}

#[test]
fn times_that_slurm_does_not_know() {
    let text = "NodeName=n0\n   NodeAddr=a NodeHostName=b\n   State=IDLE\n   BootTime=None SlurmdStartTime=Unknown\n";
    let node = show_node(text, "n0", &TimeZone::UTC).unwrap();
    assert_eq!((node.boot_time, node.slurmd_start_time), (None, None));
}

#[test]
fn local_times() {
    let text = "NodeName=n0\n   NodeAddr=a NodeHostName=b\n   State=IDLE\n   BootTime=1970-01-01T02:00:00\n";
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    assert_eq!(show_node(text, "n0", &zone).unwrap().boot_time, Some(0));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read fixtures")]
fn corpus() {
    let mut files = 0;
    for entry in std::fs::read_dir(fixtures("fuzz/scontrol_show_node")).unwrap() {
        fuzz(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 5);
}

proptest! {
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz(&data);
    }

    #[test]
    fn any_lines(lines in prop::collection::vec(
        prop::sample::select(vec![
            "NodeName=n0 A=b", "NodeName=n1", "   NodeAddr=a NodeHostName=h", "   State=IDLE+DRAIN X=1", "   State=",
            "   BootTime=None SlurmdStartTime=2026-11-21T03:17:21", "   Reason=x [root@2026-11-21T03:17:21]",
            "   Reason=[", "          more", "   Comment=(null)", "   Extra=", "", "   ", "   Gres=(null)",
        ]), 0..14))
    {
        fuzz(lines.join("\n").as_bytes());
    }

    /// Whatever a person writes into the reason, state and name stay what they are.
    #[test]
    fn any_reason(text in "[ -~]{0,60}") {
        let shown = format!(
            "NodeName=n0\n   NodeAddr=a NodeHostName=h\n   State=IDLE+DRAIN A=1\n   Reason={text} [root@2026-11-21T03:17:21]\n\n"
        );
        let node = show_node(&shown, "n0", &TimeZone::UTC).unwrap();
        prop_assert!(node.has(Flag::Drain));
        prop_assert_eq!(node.reason.map(|r| r.text).unwrap_or_default(), match text.trim() { "(null)" | "none" => "", other => other });
    }
}
