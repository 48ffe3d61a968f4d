//! A node that loses its state directory with each boot: the copy of the drain's record in its Extra.

use std::fs;

use testkit::slurm::SlurmOptions;

use crate::cluster::Cluster;

/// Drained for a fault that another boot repairs, with this Extra of the site.
fn drained(site: &str) -> Cluster {
    let mut c = Cluster::with(SlurmOptions::default());
    // The new boot's log must have had no event for this time.
    c.set("health.settle=\"1s\"");
    c.boot_id = Some("11111111-1111-1111-1111-111111111111".to_owned());
    set_extra(&c, site);
    c.start();
    c.xid(3, 119);
    c.wait_drained();
    c.wait_drain_state("drained");
    c
}

fn set_extra(c: &Cluster, text: &str) {
    let node = format!("NodeName={}", c.name);
    let done = c
        .slurm
        .scontrol(&["update", &node, &format!("Extra={text}")])
        .unwrap();
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn extra(c: &Cluster) -> String {
    let shown = c
        .slurm
        .command("sinfo", &["-h", "-a", "-n", &c.name, "-O", "Extra:0"])
        .unwrap();
    shown.stdout.trim().to_owned()
}

/// Another boot, with nothing kept.
fn boots_without_a_disk(c: &mut Cluster) {
    c.reboot("22222222-2222-2222-2222-222222222222");
    fs::remove_dir_all(c.state_dir()).unwrap();
    c.start();
    c.until("recognised", |n| n.drain_state() == "drained");
}

#[test]
fn a_node_without_a_disk_is_lifted_after_the_boot_that_repairs_it() {
    for (site, kept) in [("", "(null)"), ("{\"rack\": 7.50}", "{\"rack\":7.50,")] {
        let mut c = drained(site);
        c.until("copied", |_| extra(&c).contains("\"reboot\":true"));
        assert!(extra(&c).starts_with(kept) || site.is_empty(), "{}", extra(&c));
        boots_without_a_disk(&mut c);
        c.wait_undrained();
        c.until("no incident", |n| n.open_incidents().is_empty());
        let left = extra(&c);
        assert!(left.starts_with(kept) || site.is_empty(), "{left}");
        assert!(
            left.contains("\"nodewarden\":{\"drain\":null,\"lifts\":["),
            "{left}"
        );
    }
}

#[test]
fn a_text_of_the_site_in_extra_stays_and_the_drain_waits_for_a_person() {
    let mut c = drained("rack=7");
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    boots_without_a_disk(&mut c);
    c.settle();
    c.wait_looks(4);
    assert!(c.is_drained());
    assert_eq!((extra(&c).as_str(), c.updates()), ("rack=7", 1));
    assert_eq!(c.view()["drain"]["recorded"], false);
    c.clear(&id, "test");
    c.wait_undrained();
    assert_eq!(extra(&c), "rack=7");
}
