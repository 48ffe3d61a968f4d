//! Who a uid is. /etc/passwd is read as text: NSS could ask a directory server and block.

use collectors::sys::root;

/// The file with the names.
pub(crate) const PASSWD: &str = "/etc/passwd";
const MAX: u64 = 4 << 20;

/// The name of a uid, where /etc/passwd has one.
pub(crate) fn name(uid: u32) -> Option<String> {
    find(&read()?, uid)
}

fn read() -> Option<String> {
    let bytes = root::read_bytes(PASSWD.as_ref(), MAX).ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names and uids.
fn all(passwd: &str) -> impl Iterator<Item = (&str, u32)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|n| !n.is_empty() && !n.starts_with('#'))?;
        Some((name, fields.nth(1)?.parse().ok()?))
    })
}

fn find(passwd: &str, uid: u32) -> Option<String> {
    let mut all = all(passwd).filter(|(_, found)| *found == uid);
    all.next().map(|(name, _)| name.to_owned())
}

/// The operators by name that /etc/passwd lacks: [`listed`] never finds them.
pub(crate) fn unknown(operators: &[String]) -> Vec<&String> {
    let passwd = read().unwrap_or_default();
    let is_known = |o: &str| o.parse::<u32>().is_ok() || all(&passwd).any(|(name, _)| name == o);
    operators.iter().filter(|o| !is_known(o)).collect()
}

/// Whether a user is one of the operators, by name or by uid.
pub(super) fn listed(uid: u32, name: Option<&str>, operators: &[String]) -> bool {
    operators
        .iter()
        .any(|o| Some(o.as_str()) == name || o.parse() == Ok(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_uids() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\n#x:x:7:7\nana:x:1000:1000::/home/ana:/bin/sh\n";
        assert_eq!(find(passwd, 1000).as_deref(), Some("ana"));
        assert_eq!(find(passwd, 7), None);
        assert_eq!(find(passwd, 1), None);
        let operators = ["ana".to_owned(), "1001".to_owned()];
        assert!(listed(1000, Some("ana"), &operators));
        assert!(listed(1001, None, &operators));
        assert!(!listed(1002, Some("bob"), &operators));
        assert!(!listed(1002, None, &operators));
    }
}
