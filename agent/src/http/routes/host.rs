//! Whose name a request on loopback was sent to. A browser sends the name of the page's own address, also after that name was
//! made to resolve to 127.0.0.1 (DNS rebinding); such a page must not read this node.

use std::net::IpAddr;

use hyper::Request;
use hyper::header::HOST;

/// The answer to a name that is not ours.
pub(super) const MISDIRECTED: &str = "misdirected request: on a loopback address the Host header must be an IP address, \
                                      localhost or the name of this node (against DNS rebinding)\n";

/// Whether each name of the request is ours. Without any name it was no browser.
pub(super) fn is_own<B>(request: &Request<B>) -> bool {
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
        .all(|name| name.is_ok_and(|name| fits(name, own_name)))
}

fn own_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

/// An address cannot be rebound; `localhost` and the own name belong to this node.
fn fits(text: &str, own: impl FnOnce() -> Option<String>) -> bool {
    let Some(host) = without_port(text) else {
        return false;
    };
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    if inner.unwrap_or(host).parse::<IpAddr>().is_ok() {
        return true;
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
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
        let fits = |text: &str| fits(text, || Some("gpu017.example.org".to_owned()));
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
}
