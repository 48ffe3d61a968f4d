//! From `listen` to listeners: existing addresses are bound at once, missing ones later. Only the daemon's start and
//! the thread `listen` run this code: listing interfaces may block in the kernel, and the server must not.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use super::bind::{BindError, announce, bind_one};
use super::server::Doors;
use crate::config::Listen;
use sys::interfaces::{self, Local};

/// The first and the longest wait.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Most addresses bound for networks and interfaces together. kube-proxy in IPVS mode and balancers give a node
/// thousands, and each would hold a descriptor.
const MOST: usize = 64;

/// The entries of `listen` and their listeners.
#[derive(Debug)]
pub struct ListenPlan {
    entries: Vec<Listen>,
    list: fn() -> io::Result<Vec<Local>>,
    /// For the log.
    scheme: &'static str,
    /// Addresses of sockets that the service manager has opened.
    served: Vec<SocketAddr>,
    /// Addresses as requested and as bound (the kernel may have chosen the port).
    bound: Vec<(SocketAddr, SocketAddr)>,
    /// The last log line about missing addresses.
    said: Option<String>,
}

/// The changes of one look.
#[derive(Debug, Default)]
pub(super) struct AddressChanges {
    pub(super) opened: Vec<TcpListener>,
    /// Addresses that no interface has any more.
    pub(super) closed: Vec<SocketAddr>,
}

impl ListenPlan {
    /// Nothing is bound yet.
    pub fn new(entries: &[Listen]) -> Self {
        Self {
            entries: entries.to_vec(),
            list: interfaces::addresses,
            scheme: "http",
            served: Vec::new(),
            bound: Vec::new(),
            said: None,
        }
    }

    /// Addresses of these sockets are not bound again.
    #[must_use]
    pub fn beside(mut self, sockets: &[TcpListener]) -> Self {
        self.served = sockets.iter().filter_map(|s| s.local_addr().ok()).collect();
        self
    }

    /// Addresses are announced with this scheme.
    #[must_use]
    pub fn with_scheme(mut self, scheme: &'static str) -> Self {
        self.scheme = scheme;
        self
    }

    /// Binds existing addresses. With `strict`, an existing address that cannot be bound, because it is in use or the
    /// port is privileged, is an error, whichever form of entry it came from.
    ///
    /// # Errors
    /// The first such address.
    pub fn first(&mut self, strict: bool) -> Result<Vec<TcpListener>, BindError> {
        Ok(self.look(strict)?.opened)
    }

    /// Whether addresses may still appear: interfaces and networks may always get another one.
    pub fn goes_on(&self) -> bool {
        self.said.is_some() || self.entries.iter().any(|e| !matches!(e, Listen::Address(_)))
    }

    /// Binds missing addresses when they appear, as long as the server runs.
    pub fn keep(mut self, doors: &Doors) {
        let [first, longest] = WAITS;
        let mut wait = first;
        while self.goes_on() && !doors.is_closed() {
            thread::sleep(wait);
            let said = self.said.clone();
            let Ok(changes) = self.look(false) else { continue };
            let is_new = self.said != said || !changes.opened.is_empty() || !changes.closed.is_empty();
            wait = if is_new { first } else { (wait * 2).min(longest) };
            changes.closed.into_iter().for_each(|a| doors.close(a));
            changes.opened.into_iter().for_each(|l| doors.open(l));
        }
    }

    /// Binds new addresses, and closes those that no interface has any more.
    fn look(&mut self, strict: bool) -> Result<AddressChanges, BindError> {
        let mut changes = AddressChanges::default();
        let mut missing = Vec::new();
        let fixed = |e: &Listen| matches!(e, Listen::Address(_));
        let mut local = if self.entries.iter().all(fixed) {
            Some(Vec::new())
        } else {
            (self.list)()
                .inspect_err(|e| missing.push(format!("cannot list interfaces: {e}")))
                .ok()
        };
        // Balancers put their addresses on the loopback: the limit must not leave out the node's own.
        if let Some(local) = &mut local {
            local.sort_by_key(|l| l.interface == "lo");
        }
        let mut wanted: Vec<SocketAddr> = Vec::new();
        for entry in &self.entries {
            let found = resolve(entry, local.as_deref().unwrap_or_default());
            if found.is_empty() && local.is_some() {
                missing.push(nothing(entry));
            }
            wanted.extend(found);
        }
        // Two entries may name the same address.
        let mut seen = HashSet::new();
        wanted.retain(|a| seen.insert(*a));
        let wildcards = wanted.iter().chain(&self.served);
        let wildcards: Vec<SocketAddr> = wildcards.filter(|a| a.ip().is_unspecified()).copied().collect();
        wanted.retain(|a| !self.served.contains(a) && !wildcards.iter().any(|s| covers(*s, *a)));
        // Those that are bound first: the limit closes none of them.
        wanted.sort_by_key(|a| !self.bound.iter().any(|(asked, _)| asked == a));
        let mut found = 0;
        wanted.retain(|a| {
            let is_fixed = self.entries.contains(&Listen::Address(*a));
            found += usize::from(!is_fixed);
            is_fixed || found <= MOST
        });
        if found > MOST {
            missing.push(format!(
                "networks and interfaces have more than {MOST} addresses, only {MOST} of them are bound: name a \
                 smaller network or single addresses"
            ));
        }
        if local.is_some() {
            self.bound.retain(|(asked, actual)| {
                let stays = wanted.contains(asked);
                if !stays {
                    tracing::info!("no interface has {actual} any more: stopped listening on it");
                    changes.closed.push(*actual);
                }
                stays
            });
        }
        // An IPv6 wildcard first: it serves IPv4 too.
        wanted.sort_by_key(|a| !(a.is_ipv6() && a.ip().is_unspecified()));
        for address in wanted {
            if self.bound.iter().any(|(asked, _)| *asked == address) {
                continue;
            }
            match bind_one(&address) {
                Ok(listener) => {
                    announce(&listener, address, self.scheme);
                    self.bound
                        .push((address, listener.local_addr().unwrap_or(address)));
                    changes.opened.push(listener);
                }
                Err(e) if e.is_in_use() && self.serves_both(address) => {}
                Err(e) if strict && !e.is_not_there() => return Err(e),
                Err(e) => missing.push(e.to_string()),
            }
        }
        self.say(&missing);
        Ok(changes)
    }

    /// Whether this is the IPv4 wildcard of a port whose IPv6 wildcard is served.
    fn serves_both(&self, address: SocketAddr) -> bool {
        let is_wildcard = |a: &SocketAddr| a.ip().is_unspecified() && a.port() == address.port();
        let mut all = self
            .served
            .iter()
            .chain(self.bound.iter().map(|(asked, _)| asked));
        address.is_ipv4() && is_wildcard(&address) && all.any(|a| a.is_ipv6() && is_wildcard(a))
    }

    /// Logs a line when it changes, not at each attempt.
    fn say(&mut self, missing: &[String]) {
        let now = (!missing.is_empty()).then(|| missing.join("; "));
        if now == self.said {
            return;
        }
        match &now {
            Some(text) => tracing::warn!("listen: {text}; retrying"),
            None => tracing::info!("listen: all addresses are bound"),
        }
        self.said = now;
    }
}

/// Why an entry has no address. Names of hosts look like those of interfaces.
fn nothing(entry: &Listen) -> String {
    match entry {
        Listen::Interface(name, _) => {
            format!("{entry}: no interface {name} with an address; host names are not resolved")
        }
        _ => format!("{entry}: no such local address"),
    }
}

/// The reason for each interface and network that has no address on this node now.
///
/// # Errors
/// When interfaces cannot be listed.
pub fn without_address(entries: &[Listen]) -> io::Result<Vec<String>> {
    let local = interfaces::addresses()?;
    let empty = entries.iter().filter(|entry| resolve(entry, &local).is_empty());
    Ok(empty.map(nothing).collect())
}

/// The current addresses of an entry.
fn resolve(entry: &Listen, local: &[Local]) -> Vec<SocketAddr> {
    let with_port = |port: u16| {
        move |l: &Local| {
            let mut address = l.address;
            address.set_port(port);
            address
        }
    };
    match entry {
        Listen::Address(address) => vec![*address],
        Listen::Interface(name, port) => {
            let own = local.iter().filter(|l| l.interface == *name);
            own.map(with_port(*port)).collect()
        }
        Listen::Network(network, port) => {
            let inside = local.iter().filter(|l| network.contains(l.address.ip()));
            inside.map(with_port(*port)).collect()
        }
    }
}

/// Whether listening on `all` includes listening on `one`. Ports chosen by the kernel are never the same.
fn covers(all: SocketAddr, one: SocketAddr) -> bool {
    all.ip().is_unspecified()
        && !one.ip().is_unspecified()
        && all.port() == one.port()
        && one.port() != 0
        && (all.is_ipv6() || one.is_ipv4())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use testkit::ports::Port;

    use super::*;

    fn local(interface: &str, address: &str) -> Local {
        Local {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
        }
    }

    fn resolved(entry: &str, all: &[Local]) -> Vec<String> {
        let found = resolve(&entry.parse().unwrap(), all);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn entries_become_addresses() {
        let all = [
            local("lo", "127.0.0.1:0"),
            local("ib0", "10.20.3.4:0"),
            local("ib0", "[fd00::4]:0"),
            local("ib0", "[fe80::4%7]:0"),
            local("ib1", "10.21.3.4:0"),
        ];
        assert_eq!(
            resolved("ib0:1", &all),
            ["10.20.3.4:1", "[fd00::4]:1", "[fe80::4%7]:1"]
        );
        assert_eq!(resolved("10.20.0.0/15:2", &all), ["10.20.3.4:2", "10.21.3.4:2"]);
        assert_eq!(resolved("[fd00::]/8:3", &all), ["[fd00::4]:3"]);
        assert_eq!(resolved("1.2.3.4:5", &[]), ["1.2.3.4:5"]);
        assert!(resolved("ib2:1", &all).is_empty());
    }

    #[test]
    fn a_wildcard_covers_the_others() {
        let covers = |a: &str, b: &str| covers(a.parse().unwrap(), b.parse().unwrap());
        assert!(covers("0.0.0.0:1", "10.0.0.1:1") && covers("[::]:1", "10.0.0.1:1"));
        assert!(covers("[::]:1", "[fd00::1]:1"));
        assert!(!covers("0.0.0.0:1", "[fd00::1]:1") && !covers("0.0.0.0:1", "10.0.0.1:2"));
        assert!(!covers("0.0.0.0:0", "10.0.0.1:0") && !covers("10.0.0.1:1", "10.0.0.1:1"));
    }

    #[test]
    fn an_interface_that_comes_and_goes() {
        fn nothing() -> io::Result<Vec<Local>> {
            Ok(Vec::new())
        }
        fn there() -> io::Result<Vec<Local>> {
            Ok(vec![local("ib0", "127.0.0.1:0")])
        }
        fn broken() -> io::Result<Vec<Local>> {
            Err(io::ErrorKind::OutOfMemory.into())
        }
        // Both entries stand for the same address.
        let mut plan = ListenPlan::new(&["ib0:0".parse().unwrap(), "127.0.0.0/8:0".parse().unwrap()]);
        plan.list = nothing;
        assert!(plan.first(true).unwrap().is_empty());
        assert_eq!(
            plan.said.as_deref(),
            Some(
                "ib0:0: no interface ib0 with an address; host names are not resolved; 127.0.0.0/8:0: no such local \
                 address"
            )
        );
        plan.list = there;
        let changes = plan.look(true).unwrap();
        assert_eq!((changes.opened.len(), changes.closed.len()), (1, 0));
        assert!(plan.said.is_none() && plan.goes_on());
        assert!(plan.look(true).unwrap().opened.is_empty());
        plan.list = broken;
        let kept = plan.look(true).unwrap();
        assert!(
            kept.opened.is_empty() && kept.closed.is_empty(),
            "nothing is known: nothing changes"
        );
        plan.list = nothing;
        let gone = plan.look(true).unwrap();
        assert_eq!(gone.closed, [changes.opened[0].local_addr().unwrap()]);
    }

    #[test]
    fn a_network_of_many_addresses_is_bound_up_to_a_limit() {
        fn addresses(hosts: std::ops::Range<u16>) -> Vec<Local> {
            let of = |host: u16| local("lo", &format!("127.7.{}.{}:0", host >> 8, host & 0xff));
            hosts.map(of).collect()
        }
        fn few() -> io::Result<Vec<Local>> {
            Ok(addresses(1000..1002))
        }
        fn many() -> io::Result<Vec<Local>> {
            Ok(addresses(1..1502))
        }
        let mut plan = ListenPlan::new(&["127.0.0.0/8:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()]);
        plan.list = few;
        assert_eq!(plan.first(true).unwrap().len(), 3);
        assert!(plan.said.is_none());
        plan.list = many;
        let changes = plan.look(true).unwrap();
        assert_eq!((changes.opened.len(), changes.closed.len()), (MOST - 2, 0));
        assert!(plan.said.as_ref().unwrap().contains("only 64 of them are bound"));
        let again = plan.look(true).unwrap();
        assert_eq!((again.opened.len(), again.closed.len()), (0, 0));
        plan.list = few;
        assert_eq!(plan.look(true).unwrap().closed.len(), MOST - 2);
        assert!(plan.said.is_none());
    }

    #[test]
    fn what_another_program_holds_is_an_error_only_at_the_first_start() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let entries = [address.parse().unwrap(), "192.0.2.1:0".parse().unwrap()];
        let error = ListenPlan::new(&entries).first(true).unwrap_err();
        assert_eq!(error.address, address);
        let mut plan = ListenPlan::new(&entries);
        assert!(plan.first(false).unwrap().is_empty());
        assert!(plan.goes_on());
        drop(taken);
        assert_eq!(plan.look(false).unwrap().opened.len(), 1);
        assert!(plan.said.unwrap().contains("192.0.2.1:0"));
    }

    #[test]
    fn both_wildcards_of_a_port_are_served_in_either_order() {
        for order in [["0.0.0.0", "[::]"], ["[::]", "0.0.0.0"]] {
            let port = Port::reserve().unwrap();
            let entries = order.map(|host| format!("{host}:{}", port.number()).parse().unwrap());
            let mut plan = ListenPlan::new(&entries);
            let opened = plan.first(true).unwrap();
            assert!(!opened.is_empty() && !plan.goes_on());
            for host in ["127.0.0.1", "[::1]"] {
                TcpStream::connect(format!("{host}:{}", port.number())).unwrap();
            }
            assert!(plan.look(true).unwrap().opened.is_empty());
        }
        // Beside a socket of the service manager.
        let passed = TcpListener::bind("[::]:0").unwrap();
        let port = passed.local_addr().unwrap().port();
        let mut plan = ListenPlan::new(&[format!("0.0.0.0:{port}").parse().unwrap()])
            .beside(std::slice::from_ref(&passed));
        plan.first(true).unwrap();
        assert!(!plan.goes_on());
        drop(passed);
    }

    #[test]
    fn an_address_that_a_passed_socket_serves_is_not_bound_again() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap();
        let entries = [address.to_string(), "127.0.0.1:0".to_owned()].map(|e| e.parse().unwrap());
        let mut plan = ListenPlan::new(&entries).beside(&[passed]);
        let opened = plan.first(true).unwrap();
        assert_eq!(opened.len(), 1);
        assert_ne!(opened[0].local_addr().unwrap(), address);
        assert!(!plan.goes_on());
    }

    #[test]
    fn plain_addresses_that_are_bound_need_no_thread() {
        let mut plan = ListenPlan::new(&["127.0.0.1:0".parse().unwrap()]);
        assert_eq!(plan.first(true).unwrap().len(), 1);
        assert!(!plan.goes_on());
    }
}
