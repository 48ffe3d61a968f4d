//! mmfsd that stops, sends half a reply, and dies.

use std::fs;
use std::time::Instant;

use testkit::mmfsd::{Answer, Mmfsd};

use crate::common::{LONG, Node};

/// The folder of GPFS in which the socket is.
const MMFS: &str = "/var/mmfs";

const LINE: &str = "_mmpmon::gfis_ _n_ 10.1.0.7 _nn_ gpu07 _rc_ 0 _t_ 1 _tu_ 2 _cl_ store.example _fs_ scratch _d_ 48 \
                    _br_ 4096 _bw_ 512 _c_ 3 _r_ 2 _w_ 1 _oc_ 9 _cc_ 8 _rdc_ 7 _wc_ 6 _dir_ 5 _iu_ 4 _irc_ 3 _idc_ 2 _icc_ 1 \
                    _bc_ 4096 _sch_ 5 _scm_ 6";

fn answers() -> Answer {
    Answer::Whole(LINE.to_owned())
}

fn read_bytes(node: &Node) -> Option<f64> {
    node.metric("gpfs_read_bytes_total", &[("fs", "scratch")])
}

fn is_up(node: &Node) -> Option<f64> {
    node.metric("nodewarden_collector_up", &[("collector", "gpfs")])
}

fn daemon_up(node: &Node) -> Option<f64> {
    node.metric("gpfs_daemon_up", &[])
}

#[test]
fn an_mmfsd_that_stops_dies_or_sends_half_a_reply_costs_only_its_own_values() {
    let mut node = Node::new();
    let folder = node.path("root/var/mmfs/mmpmon");
    fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("mmpmonSocket");
    let mmfsd = Mmfsd::start(&socket, answers()).unwrap();
    // The helper asks this machine's mmfsd, wherever the files are: the daemon's mounts have the stand-in there.
    fs::create_dir_all(MMFS).unwrap();
    let stand_in = node.path("root/var/mmfs");
    node.shell = Some(format!(
        "exec unshare --mount bash -c 'mount --bind {} {MMFS} && exec \"$0\" \"$@\"' \"$0\" \"$@\"",
        stand_in.display()
    ));
    node.start();
    node.until("GPFS is read", |n| read_bytes(n) == Some(4096.0));
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let worker = node.worker_pid("gpfs");

    // It stops: nothing of it is shown as current, the pages come, and no request piles up.
    mmfsd.set(Answer::Nothing);
    node.until("the reading has failed", |n| is_up(n) == Some(0.0));
    let start = Instant::now();
    for _ in 0..20 {
        assert!(node.metric("nodewarden_collector_up", &[("collector", "host")]) == Some(1.0));
        assert_eq!(node.cli(&["check"]).0, Some(0));
    }
    assert!(start.elapsed() < LONG, "20 scrapes took {:?}", start.elapsed());
    let (_, status, _) = node.cli(&["status"]);
    assert!(status.contains("timeout"), "{status}");

    // Half a reply is an error and no value.
    mmfsd.set(Answer::Part(format!(
        "_response_ begin mmpmon gfis\n{}",
        &LINE[..60]
    )));
    node.until("half a reply is an error", |n| {
        n.cli(&["status"]).1.contains("parse") && is_up(n) == Some(0.0)
    });
    assert_eq!(daemon_up(&node), None);

    // It answers again.
    mmfsd.set(answers());
    node.until("GPFS is read again", |n| {
        read_bytes(n) == Some(4096.0) && is_up(n) == Some(1.0)
    });

    // It dies.
    drop(mmfsd);
    node.until("mmfsd is down", |n| daemon_up(n) == Some(0.0));
    assert_eq!(read_bytes(&node), None);

    // It is started again.
    let mmfsd = Mmfsd::start(&socket, answers()).unwrap();
    node.until("mmfsd is back", |n| {
        daemon_up(n) == Some(1.0) && read_bytes(n) == Some(4096.0)
    });
    assert_eq!(
        node.worker_pid("gpfs"),
        worker,
        "the worker has lived through all of it"
    );
    drop(mmfsd);
    drop(node);
    // Where GPFS is installed it is not empty, and stays.
    let _removed = fs::remove_dir(MMFS);
}
