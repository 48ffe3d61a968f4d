//! Who a uid is, by /etc/passwd alone.

pub(crate) use sys::users::PASSWD;
use sys::users::{entries, passwd};

/// The name of a uid, where /etc/passwd has one.
pub(crate) fn name(uid: u32) -> Option<String> {
    find(&passwd()?, uid)
}

fn find(passwd: &str, uid: u32) -> Option<String> {
    let mut all = entries(passwd).filter(|(_, found)| *found == uid);
    all.next().map(|(name, _)| name.to_owned())
}

/// The operators by name that /etc/passwd lacks: [`listed`] never finds them.
pub(crate) fn unknown(operators: &[String]) -> Vec<&String> {
    let passwd = passwd().unwrap_or_default();
    let is_known = |o: &str| o.parse::<u32>().is_ok() || entries(&passwd).any(|(name, _)| name == o);
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
