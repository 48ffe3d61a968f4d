//! The interfaces below a bond. Its own calls give no statistics: each member is a physical port.

use std::path::Path;

use crate::Error;
use crate::sys::root;

/// The members of a bond: `bonding/slaves`, or the `lower_*` links of another interface above others (team). Empty for
/// an interface without any.
///
/// # Errors
/// When the file or the folder exists and cannot be read.
pub(super) fn members(net: &Path, bond: &str) -> Result<Vec<String>, Error> {
    let folder = net.join(bond);
    let mut names: Vec<String> = match root::read_text(&folder.join("bonding/slaves"))? {
        Some(names) => names.split_ascii_whitespace().map(str::to_owned).collect(),
        None => {
            let all = root::list(&folder)?.unwrap_or_default();
            let lower = |name: String| name.strip_prefix("lower_").map(str::to_owned);
            all.into_iter().filter_map(lower).collect()
        }
    };
    // The order of the file changes when a member leaves and returns.
    names.sort_unstable();
    names.dedup();
    // One path component.
    names.retain(|name| !name.is_empty() && !name.contains('/') && name != "." && name != "..");
    Ok(names)
}

/// The link of a member of a bond. `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberLink {
    /// Whether it is up and the bond uses it. Also unknown if it never was up: an unused port of a card is no fault.
    pub(super) is_up: Option<bool>,
    /// Whether it ever was since its interface was created (`carrier_up_count`, net/sched/sch_generic.c): a reboot or a
    /// reload of the driver creates a new one.
    pub(super) had_link: Option<bool>,
}

impl MemberLink {
    pub(super) fn of(net: &Path, member: &str) -> Self {
        let text = |file| root::read_text(&net.join(member).join(file)).ok().flatten();
        match text("operstate").as_deref() {
            None | Some("unknown") => Self::default(),
            Some("up") if is_left_out(&net.join(member)) => Self {
                is_up: Some(false),
                had_link: Some(true),
            },
            Some("up") => Self {
                is_up: Some(true),
                had_link: Some(true),
            },
            Some(_) => {
                let count = text("carrier_up_count").and_then(|text| text.parse::<u64>().ok());
                let had_link = count.map(|count| count > 0);
                Self {
                    is_up: had_link.filter(|had| *had).map(|_| false),
                    had_link,
                }
            }
        }
    }
}

/// `LACP_STATE_SYNCHRONIZATION` of drivers/net/bonding/bond_3ad.c.
const IN_STEP: u64 = 0x8;

/// Whether LACP put a member into another aggregator than the one that the bond uses. Its link stays up, and RoCE uses the other
/// members (`mlx5_infer_tx_affinity_mapping` of lag/lag.c, Linux 6.12). Bonds in other modes show no such numbers. A member that is
/// in step with its partner stands by: two switches without a common LACP system have an aggregator each, on purpose.
fn is_left_out(member: &Path) -> bool {
    let number = |file| root::read_text(&member.join(file)).ok()??.parse::<u64>().ok();
    // 0: the bond uses none at the moment.
    let used = number("master/bonding/ad_aggregator").filter(|id| *id != 0);
    let own = number("bonding_slave/ad_aggregator_id");
    let partner = number("bonding_slave/ad_partner_oper_port_state");
    let is_in_step = partner.is_some_and(|state| state & IN_STEP != 0);
    used.zip(own).is_some_and(|(used, own)| used != own) && !is_in_step
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_member_that_never_had_a_link_is_not_down() {
        let dir = tempfile::tempdir().unwrap();
        let net = dir.path();
        let folder = net.join("eth0");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(MemberLink::of(net, "eth0"), MemberLink::default());
        for (state, links, is_up, had_link) in [
            ("up", "1", Some(true), Some(true)),
            ("down", "1", Some(false), Some(true)),
            ("lowerlayerdown", "7", Some(false), Some(true)),
            ("down", "0", None, Some(false)),
            ("down", "", None, None),
            ("unknown", "1", None, None),
        ] {
            fs::write(folder.join("operstate"), format!("{state}\n")).unwrap();
            fs::write(folder.join("carrier_up_count"), format!("{links}\n")).unwrap();
            let expected = MemberLink { is_up, had_link };
            assert_eq!(MemberLink::of(net, "eth0"), expected, "{state} {links}");
        }
    }

    #[test]
    fn a_member_outside_of_the_aggregator_that_the_bond_uses_is_down() {
        let dir = tempfile::tempdir().unwrap();
        let net = dir.path();
        fs::create_dir_all(net.join("eth0/bonding_slave")).unwrap();
        fs::create_dir_all(net.join("bond0/bonding")).unwrap();
        symlink("../bond0", net.join("eth0/master")).unwrap();
        fs::write(net.join("eth0/operstate"), "up\n").unwrap();
        for (used, own, is_up) in [
            ("1", "1", true),
            ("1", "2", false),
            ("0", "2", true),
            ("1", "N/A", true),
            ("", "N/A", true),
            ("", "2", true),
        ] {
            fs::write(net.join("bond0/bonding/ad_aggregator"), format!("{used}\n")).unwrap();
            fs::write(
                net.join("eth0/bonding_slave/ad_aggregator_id"),
                format!("{own}\n"),
            )
            .unwrap();
            let found = MemberLink::of(net, "eth0");
            assert_eq!(
                (found.is_up, found.had_link),
                (Some(is_up), Some(true)),
                "{used} {own}"
            );
        }
    }

    #[test]
    fn the_file_of_a_bond_or_the_links_of_a_team_name_the_members() {
        let dir = tempfile::tempdir().unwrap();
        let net = dir.path();
        assert_eq!(members(net, "bond0").unwrap(), [""; 0], "no such interface");
        fs::create_dir_all(net.join("bond0/bonding")).unwrap();
        fs::create_dir_all(net.join("team0")).unwrap();
        for name in ["eth1", "eth0"] {
            symlink(format!("../{name}"), net.join(format!("team0/lower_{name}"))).unwrap();
        }
        assert_eq!(members(net, "team0").unwrap(), ["eth0", "eth1"]);
        for (text, found) in [
            ("eth1 eth0\n", &["eth0", "eth1"][..]),
            ("eth1\n", &["eth1"]),
            ("\n", &[]),
            ("../eth0 .. eth2\n", &["eth2"]),
        ] {
            fs::write(net.join("bond0/bonding/slaves"), text).unwrap();
            assert_eq!(members(net, "bond0").unwrap(), found, "{text:?}");
        }
    }
}
