use std::fs;

use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::Env;
use crate::netlink::message::Request;
use crate::netlink::{Protocol, dcb, ethtool as genl};
use crate::sys::netlink;

fn kernel() -> Box<dyn Ethtool> {
    asker(None, &DescriptorBudget::new(8))
}

#[test]
fn the_kernel_says_no_of_an_interface_that_is_not_there_or_has_no_name() {
    for netdev in ["nw-absent", "", "a-name-that-is-too-long-for-one"] {
        assert_eq!(kernel().count(netdev), Err(Errno::ENODEV), "{netdev:?}");
    }
}

#[test]
fn an_interface_without_statistics_says_so() {
    let asked = kernel().count("lo");
    assert_eq!(asked, Err(Errno::EOPNOTSUPP));
}

#[test]
fn no_descriptor_is_taken_beyond_the_budget() {
    let mut none = asker(None, &DescriptorBudget::new(0));
    assert_eq!(none.count("lo"), Err(Errno::EMFILE));
}

/// The interfaces of this machine that have statistics: on most a veth or a virtual adapter.
#[test]
fn three_calls_agree_on_a_live_interface() {
    let mut kernel = kernel();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for netdev in fs::read_dir("/sys/class/net").unwrap() {
        let netdev = netdev.unwrap().file_name().into_string().unwrap();
        let Ok(count) = kernel.count(&netdev) else {
            continue;
        };
        kernel.names(&netdev, count, &mut names).unwrap();
        kernel.values(&netdev, count, &mut values).unwrap();
        assert_eq!(names.len(), usize::try_from(count).unwrap(), "{netdev}");
        assert_eq!(values.len(), names.len(), "{netdev}");
        assert!(names.iter().all(|n| n[0] != 0), "{netdev}");
    }
}

#[test]
fn what_ethtool_prints_is_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("root/ethtool");
    fs::create_dir_all(&folder).unwrap();
    let text = "NIC statistics:\n     rx_packets: 7\n     [0]: rx_ucast: 18446744073709551615\n";
    fs::write(folder.join("eth0"), text).unwrap();
    let env = Env::recorded(dir.path());
    check_recording(&env).unwrap();
    check_recording(&Env::default()).unwrap();

    let mut recorded = asker(Some(&env.sysroot), &DescriptorBudget::new(0));
    let (mut names, mut values) = (Vec::new(), Vec::new());
    assert_eq!(recorded.count("eth0"), Ok(2));
    recorded.names("eth0", 2, &mut names).unwrap();
    recorded.values("eth0", 2, &mut values).unwrap();
    assert!(names[0].starts_with(b"rx_packets\0") && names[1].starts_with(b"[0]: rx_ucast\0"));
    assert_eq!(values, [7, u64::MAX]);
    assert_eq!(recorded.count("eth1"), Err(Errno::EOPNOTSUPP));

    for bad in [
        "rx_packets 7",
        "rx_packets: -7",
        ": 7",
        "a_name_that_is_much_too_long_for_it: 7",
    ] {
        fs::write(folder.join("eth0"), bad).unwrap();
        let error = check_recording(&env).unwrap_err().to_string();
        assert!(error.contains("eth0:1: found"), "{error}");
        assert_eq!(recorded.count("eth0"), Err(Errno::EIO));
    }
}

#[test]
fn what_the_kernel_says_to_have_written_is_read_and_no_more() {
    let mut pages = begun(&[GET_STATISTICS, 2], 24).unwrap();
    pages.as_mut_slice()[8..16].copy_from_slice(&5_u64.to_ne_bytes());
    let buffer = &pages.as_slice()[..32];
    let read = |count| {
        items::<8>(buffer, STATISTICS_HEAD, count)
            .map(u64::from_ne_bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(read(0), Vec::<u64>::new());
    assert_eq!(read(2), [5, 0]);
    assert_eq!(read(u32::MAX), [5, 0, 0], "never beyond the buffer");
    assert_eq!((word(buffer, 4), word(buffer, 400)), (2, 0));
}

/// DCB of `lo`, over the socket that everybody may open.
#[test]
fn an_interface_without_dcb_says_so() {
    let mut route = netlink::asker(None, Protocol::Route, &DescriptorBudget::new(8));
    let refused = route.ask(&mut dcb::ieee("lo"), &mut |_| Ok(()));
    assert_eq!(refused, Err(Errno::EOPNOTSUPP.into()));
}

/// A veth pair in a network namespace of this thread's own. `None`: that takes root, or a kernel that has them.
fn veth() -> Option<&'static str> {
    unshare(CloneFlags::CLONE_NEWNET).ok()?;
    // RTM_NEWLINK with struct ifinfomsg, IFLA_IFNAME, and the kind in IFLA_LINKINFO.
    let kind = Request::one(0).with_text(1, "veth");
    let mut link = Request::one(16)
        .with_fixed(&[0; 16])
        .with_text(3, "nw0")
        .with_nest(18, &kind)
        .creating();
    let mut route = netlink::asker(None, Protocol::Route, &DescriptorBudget::new(8));
    route.ask(&mut link, &mut |_| Ok(())).ok()?;
    Some("nw0")
}

#[test]
fn a_live_veth_has_statistics_and_neither_dcb_nor_pause_nor_fec() {
    let own = std::thread::spawn(|| {
        let Some(netdev) = veth() else { return };
        let (mut kernel, mut names, mut values) = (kernel(), Vec::new(), Vec::new());
        let count = kernel.count(netdev).unwrap();
        kernel.names(netdev, count, &mut names).unwrap();
        kernel.values(netdev, count, &mut values).unwrap();
        assert!(
            names[0].starts_with(b"peer_ifindex\0") && values[0] > 0,
            "{names:?}"
        );
        assert_eq!(names.len(), values.len());

        let unsupported = Err(Errno::EOPNOTSUPP.into());
        let mut route = netlink::asker(None, Protocol::Route, &DescriptorBudget::new(8));
        assert_eq!(route.ask(&mut dcb::ieee(netdev), &mut |_| Ok(())), unsupported);

        let mut generic = netlink::asker(None, Protocol::Generic, &DescriptorBudget::new(8));
        let mut family = None;
        let answer = generic.ask(&mut genl::family(), &mut |payload| {
            family = Some(genl::family_id(payload)?);
            Ok(())
        });
        if answer == Err(Errno::ENOENT.into()) {
            // Before Linux 5.6.
            return;
        }
        let family = family.unwrap();
        assert_eq!(
            generic.ask(
                &mut genl::EthtoolQuery::Pause.of(family, netdev, true),
                &mut |_| Ok(())
            ),
            unsupported
        );
        assert_eq!(
            generic.ask(
                &mut genl::EthtoolQuery::Fec.of(family, netdev, true),
                &mut |_| Ok(())
            ),
            unsupported
        );
        let mut told = 0;
        let answer = generic.ask(
            &mut genl::EthtoolQuery::LinkState.of(family, netdev, true),
            &mut |payload| {
                told += 1;
                assert_eq!(genl::down_count(payload, netdev)?, None);
                Ok(())
            },
        );
        // Kernels before 6.1 do not know the flag for its statistics.
        assert!(told == 1 || answer.is_err(), "{answer:?}");
        assert_eq!(
            generic.ask(
                &mut genl::EthtoolQuery::Pause.of(family, "nw-absent", true),
                &mut |_| Ok(())
            ),
            Err(Errno::ENODEV.into())
        );
    });
    own.join().unwrap();
}
