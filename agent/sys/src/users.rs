//! Which ids the processes run with: a passwd entry where there is one, else numbers that need none.

use std::io;
use std::os::fd::AsFd;

use collectors::Domain;
use collectors::domain::{DOMAINS, Helper, helpers};
use collectors::sys::root;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The daemon's passwd entry.
pub const DAEMON_USER: &str = "nodewarden";
/// The daemon's uid and gid where there is no such entry.
pub const DAEMON_UID: u32 = collectors::domain::DAEMON_UID;

/// The file with the names.
pub const PASSWD: &str = "/etc/passwd";
/// Sites with local accounts have large ones.
const MAX_PASSWD: u64 = 4 << 20;

/// The daemon's ids.
pub fn daemon() -> Ids {
    fixed(DAEMON_USER, DAEMON_UID)
}

/// A worker's ids.
pub fn worker(domain: &Domain) -> Ids {
    fixed(domain.user, domain.uid)
}

/// A helper's ids.
pub fn helper(helper: &Helper) -> Ids {
    fixed(helper.user, helper.uid)
}

/// A sentence for each other user in /etc/passwd with the uid of one of nodewarden's processes. Users of a directory server are
/// not seen.
pub fn taken() -> Vec<String> {
    let workers = DOMAINS.iter().map(|domain| (domain.user, worker(domain).uid));
    let helpers = helpers().map(|one| (one.user, helper(one).uid));
    let mut own = vec![(DAEMON_USER, daemon().uid)];
    own.extend(workers.chain(helpers));
    taken_in(&passwd().unwrap_or_default(), &own)
}

fn taken_in(passwd: &str, own: &[(&str, u32)]) -> Vec<String> {
    let others = entries(passwd).filter(|(name, uid)| {
        own.iter().any(|(_, own)| own == uid) && own.iter().all(|(user, _)| user != name)
    });
    let sentence = |(name, uid): (&str, u32)| {
        format!(
            "/etc/passwd: user {name:?} has uid {uid}, which a process of nodewarden uses, and can control that process; create the \
             users nodewarden and nodewarden-* with other numbers"
        )
    };
    others.map(sentence).collect()
}

fn fixed(user: &str, id: u32) -> Ids {
    lookup(user).unwrap_or(Ids { uid: id, gid: id })
}

fn lookup(name: &str) -> Option<Ids> {
    find(&passwd()?, name)
}

/// The text of [`PASSWD`]. The file alone, not the name service: LDAP behind it may hang, and the parent must not.
pub fn passwd() -> Option<String> {
    let bytes = root::read_bytes(PASSWD.as_ref(), MAX_PASSWD).ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names and uids in that text.
pub fn entries(passwd: &str) -> impl Iterator<Item = (&str, u32)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|n| !n.is_empty() && !n.starts_with('#'))?;
        Some((name, fields.nth(1)?.parse().ok()?))
    })
}

fn find(passwd: &str, name: &str) -> Option<Ids> {
    let mut fields = passwd
        .lines()
        .find(|l| l.split(':').next() == Some(name))?
        .split(':')
        .skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    // An entry that would mean root is a mistake, not a wish.
    (uid != 0 && gid != 0).then_some(Ids { uid, gid })
}

/// The user at the other end of a unix socket (SO_PEERCRED).
///
/// # Errors
/// Of getsockopt(2).
pub fn peer_uid(socket: &impl AsFd) -> io::Result<u32> {
    let peer = nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::PeerCredentials)?;
    Ok(peer.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_with_one_of_the_uids_is_found() {
        let own = [("nodewarden", 60800), ("nodewarden-host", 60801)];
        let passwd = "root:x:0:0::/root:/bin/sh\nalice:x:60800:100::/home/alice:/bin/sh\nnodewarden-host:x:60801:60801::/:\n\
                      bob:x:60802:100::/:\nshort:x\nbad:x:a:1::/:\n#carol:x:60800:100::/home/carol:/bin/sh\n";
        let found = taken_in(passwd, &own);
        assert!(
            found.len() == 1 && found[0].starts_with("/etc/passwd: user \"alice\" has uid 60800, "),
            "{found:?}"
        );
        assert!(taken_in("", &own).is_empty());
    }

    #[test]
    fn only_a_whole_entry_of_that_very_name_counts() {
        let passwd = "root:x:0:0::/root:/bin/sh\nnodewarden-host:x:7:8::/:\nnodewarden:x:5:6::/:\nbad:x:a:1::/:\nzero:x:0:1:::\n";
        assert_eq!(find(passwd, "nodewarden"), Some(Ids { uid: 5, gid: 6 }));
        assert_eq!(find(passwd, "nodewarden-host"), Some(Ids { uid: 7, gid: 8 }));
        for name in ["node", "bad", "zero", "root", ""] {
            assert_eq!(find(passwd, name), None, "{name}");
        }
    }
}
