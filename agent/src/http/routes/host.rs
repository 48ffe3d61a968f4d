//! Whose name a request on loopback was sent to. A browser sends the name of the page's own address, also after that name was
//! made to resolve to 127.0.0.1 (DNS rebinding); such a page must not read this node.

use std::net::IpAddr;

use collectors::sys::root;
use hyper::Request;
use hyper::header::HOST;

/// The answer to a name that is not ours.
pub(super) const MISDIRECTED: &str = "misdirected request: on a loopback address the Host header must be an IP address, \
                                      localhost or the name of this node (against DNS rebinding)\n";

const HOSTS: &str = "/etc/hosts";
const MAX_HOSTS: u64 = 1 << 20;

/// The names that /etc/hosts gives to loopback addresses: the node's full name where its host name is short. On this node
/// they mean no other address. Read as text: a resolver could ask a name server and block.
pub(super) struct LoopbackNames(Vec<String>);

impl LoopbackNames {
    pub(super) fn read() -> Self {
        let bytes = root::read_bytes(HOSTS.as_ref(), MAX_HOSTS).ok().flatten();
        Self::of(&String::from_utf8_lossy(&bytes.unwrap_or_default()))
    }

    fn of(hosts: &str) -> Self {
        let names = hosts.lines().flat_map(|line| {
            let mut fields = line.split('#').next().unwrap_or_default().split_whitespace();
            let address = fields.next().and_then(|field| field.parse::<IpAddr>().ok());
            fields.filter(move |_| address.is_some_and(|a| a.is_loopback()))
        });
        Self(names.map(str::to_owned).collect())
    }

    fn has(&self, host: &str) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Whether each name of the request is ours. Without any name it was no browser.
pub(super) fn is_own<B>(request: &Request<B>, names: &LoopbackNames) -> bool {
    // `GET nonsense` parses as an authority, too.
    let absolute = request
        .uri()
        .authority()
        .filter(|_| request.uri().scheme().is_some());
    let target = absolute.map(|a| Ok(a.as_str()));
    let headers = request.headers().get_all(HOST).iter().map(|value| value.to_str());
    target
        .into_iter()
        .chain(headers)
        .all(|name| name.is_ok_and(|name| fits(name, own_name, names)))
}

fn own_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

/// An address cannot be rebound; `localhost` and the own name belong to this node.
fn fits(text: &str, own: impl FnOnce() -> Option<String>, names: &LoopbackNames) -> bool {
    let Some(host) = without_port(text) else {
        return false;
    };
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    if inner.unwrap_or(host).parse::<IpAddr>().is_ok() {
        return true;
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || names.has(host)
        || own().is_some_and(|own| {
            let short = own.split('.').next().unwrap_or_default();
            !short.is_empty() && (host.eq_ignore_ascii_case(&own) || host.eq_ignore_ascii_case(short))
        })
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`. `None`: of no such form.
fn without_port(text: &str) -> Option<&str> {
    let end = match text.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at_checked(end)?;
    let is_port = |p: &str| p.len() <= 5 && p.bytes().all(|b| b.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        let none = LoopbackNames(Vec::new());
        let fits = |text: &str| fits(text, || Some("gpu017.example.org".to_owned()), &none);
        for own in [
            "localhost",
            "LocalHost:19190",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:19190",
            "[::1]",
            "[::1]:19190",
            "10.1.2.3:80",
            "gpu017",
            "GPU017:1",
            "gpu017.example.org:19190",
        ] {
            assert!(fits(own), "{own}");
        }
        for foreign in [
            "",
            ":19190",
            "evil.example",
            "127.0.0.1.evil.example",
            "gpu017.evil.example",
            "localhost.evil.example",
            "[::1",
            "[::1]x",
            "localhost:80:80",
            "localhost:x",
            "user@localhost",
        ] {
            assert!(!fits(foreign), "{foreign}");
        }
    }

    #[test]
    fn names_of_loopback_addresses_in_the_file_of_hosts_are_ours() {
        let names = LoopbackNames::of(
            "127.0.0.1 localhost\n127.0.1.1\tgpu017.example.org gpu017 # not.this\n::1 ip6-localhost\n\
             10.1.2.3 storage.example.org\n# 127.0.0.1 off.example.org\nbroken line\n\n127.0.0.2\n",
        );
        let fits = |text: &str| fits(text, || Some("gpu017".to_owned()), &names);
        for own in [
            "gpu017.example.org:19190",
            "GPU017.example.org.",
            "ip6-localhost",
            "gpu017",
        ] {
            assert!(fits(own), "{own}");
        }
        for foreign in [
            "storage.example.org",
            "off.example.org",
            "not.this",
            "line",
            "example.org",
            "",
        ] {
            assert!(!fits(foreign), "{foreign}");
        }
    }
}
