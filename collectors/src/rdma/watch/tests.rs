//! The watcher with a scripted kernel and a tree of files.

#![allow(clippy::disallowed_methods, reason = "tests build the trees that they read")]

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use tempfile::TempDir;

use super::*;
use crate::netlink::Garbled;
use crate::netlink::link::tests::link;
use crate::netlink::link::{GONE, NEW};
use crate::netlink::message::{Messages, Request};
use crate::netlink::nldev::tests::device;
use crate::netlink::notice::tests::{netdev_renamed, notice, without_device};
use crate::rdma::SPEC;
use crate::rdma::settings::RdmaSettings;
use crate::sys::netlink::NetlinkError;

const LONG: Duration = Duration::from_secs(60);
const UP: u8 = 6;
const DOWN: u8 = 2;

/// The next message of the kernel.
#[derive(Debug)]
enum Say {
    Rdma(Vec<u8>),
    Links(Vec<u8>),
    Lost,
    Bell,
    Deaf,
}

struct Scripted(Arc<Mutex<Receiver<Say>>>, Arc<AtomicBool>);

impl Drop for Scripted {
    fn drop(&mut self) {
        self.1.store(false, Ordering::Release);
    }
}

impl EventSource for Scripted {
    fn hear(&mut self, _: Duration, take: &mut dyn FnMut(SocketEvent<'_>)) -> Result<(), Errno> {
        match self.0.lock().unwrap().recv_timeout(LONG) {
            Ok(Say::Rdma(bytes)) => take(SocketEvent::Rdma(&bytes)),
            Ok(Say::Links(bytes)) => take(SocketEvent::Links(&bytes)),
            Ok(Say::Lost) => take(SocketEvent::Lost),
            Ok(Say::Bell) => take(SocketEvent::Bell),
            Ok(Say::Deaf) | Err(_) => return Err(Errno::EBADF),
        }
        Ok(())
    }
}

/// Maps indexes to devices.
struct Numbers(Vec<(u32, &'static str)>);

impl NetlinkTransport for Numbers {
    fn ask(
        &mut self,
        _: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        for (index, name) in &self.0 {
            take(&device(*index, name, None))?;
        }
        Ok(())
    }
}

/// A node whose watcher runs.
struct Watched {
    dir: TempDir,
    hub: Arc<Hub>,
    say: Sender<Say>,
    events: Receiver<Event>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    opened: Arc<Mutex<usize>>,
    /// The sockets are open.
    open: Arc<AtomicBool>,
    listens: Arc<AtomicBool>,
}

impl Watched {
    /// With `mlx5_0` (port 1, interface index 7, `ens1`, up) and `mlx5_1` (port 1, without an interface).
    fn start(settings: &str) -> Self {
        Self::numbered(settings, vec![(3, "mlx5_0"), (4, "mlx5_1")])
    }

    fn numbered(settings: &str, numbers: Vec<(u32, &'static str)>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let hub = Hub::new(None);
        let (say, heard) = channel();
        let (to, events) = sync_channel(1024);
        let stop = Arc::new(AtomicBool::new(false));
        let opened = Arc::new(Mutex::new(0));
        let (ears, count) = (Arc::new(Mutex::new(heard)), Arc::clone(&opened));
        let open = Arc::new(AtomicBool::new(false));
        let is_open = Arc::clone(&open);
        let mut watcher = RdmaWatcher {
            hub: Arc::clone(&hub),
            choice: Choice {
                class: dir.path().join("infiniband"),
                table: RdmaSettings::new(&SPEC.settings(settings).unwrap()).unwrap(),
            },
            net: dir.path().join("net"),
            boot: BootId("boot".to_owned()),
            kernel: Box::new(Numbers(numbers)),
            open: Box::new(move || {
                *count.lock().unwrap() += 1;
                is_open.store(true, Ordering::Release);
                Ok(Box::new(Scripted(Arc::clone(&ears), Arc::clone(&is_open))))
            }),
            known: WatchState::default(),
        };
        let listens = Arc::new(AtomicBool::new(false));
        let listening = Arc::clone(&listens);
        let out =
            Events::until(to, Arc::clone(&stop)).heeding(move || listening.store(true, Ordering::Release));
        let mut watched = Self {
            dir,
            hub,
            say,
            events,
            stop,
            thread: None,
            opened,
            open,
            listens,
        };
        for name in ["mlx5_0", "mlx5_1"] {
            watched.lay(name);
        }
        watched.interface("ens1", 7, "up");
        watched.hub.list(
            Instant::now(),
            &[("mlx5_0".to_owned(), 1), ("mlx5_1".to_owned(), 1)],
        );
        watched.hub.has_netdev("mlx5_0", 1, "ens1");
        watched.thread = Some(thread::spawn(move || watcher.run(None, &out)));
        // It has started, and emits no event for existing devices.
        for (operstate, word) in [(DOWN, "link_down"), (UP, "link_up")] {
            watched.say(Say::Links(link(NEW, 7, operstate)));
            assert_eq!(watched.next(), format!("mlx5_0/1 {word}"));
        }
        watched
    }

    fn lay(&self, device: &str) {
        fs::create_dir_all(self.dir.path().join("infiniband").join(device).join("ports/1")).unwrap();
    }

    fn interface(&self, name: &str, index: u32, operstate: &str) {
        let folder = self.dir.path().join("net").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ifindex"), format!("{index}\n")).unwrap();
        fs::write(folder.join("operstate"), format!("{operstate}\n")).unwrap();
    }

    fn say(&self, what: Say) {
        self.say.send(what).unwrap();
    }

    fn notice(&self, what: u8, index: u32, device: &str) {
        self.say(Say::Rdma(notice(what, index, Some(device), None, None)));
    }

    fn of_port(&self, what: u8, device: &str, netdev: &str) {
        self.say(Say::Rdma(notice(what, 3, Some(device), Some(1), Some(netdev))));
    }

    fn list(&self, devices: &[&str]) {
        let ports: Vec<(String, u32)> = devices.iter().map(|d| ((*d).to_owned(), 1)).collect();
        self.hub.list(Instant::now(), &ports);
        self.say(Say::Bell);
    }

    /// The next event as text.
    #[track_caller]
    fn next(&self) -> String {
        let event = self.events.recv_timeout(LONG).expect("an event");
        assert_eq!(
            (event.boot.0.as_str(), event.count, event.history),
            ("boot", 1, false)
        );
        match event.body {
            EventBody::Rdma(RdmaChange { device, port, what }) => {
                assert!(
                    event.text.contains(&device) && event.text.contains(what.word()),
                    "{}",
                    event.text
                );
                format!("{device}/{port} {}", what.word())
            }
            EventBody::Overrun { lost: None } => "lost".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// Lets it process all messages, ends it, and returns the remaining events.
    fn rest(mut self) -> Vec<String> {
        self.say(Say::Deaf);
        self.thread.take().unwrap().join().unwrap().unwrap_err();
        let mut rest = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            rest.push(event.text);
        }
        rest
    }
}

#[test]
fn a_device_that_comes_and_goes_is_reported_once_though_the_list_says_it_too() {
    let node = Watched::start("");
    node.lay("mlx5_2");
    node.notice(0, 5, "mlx5_2");
    assert_eq!(node.next(), "mlx5_2/ device_added");
    assert!(node.hub.take_doubt(), "the list is checked again");
    node.list(&["mlx5_0", "mlx5_1", "mlx5_2"]);
    node.notice(1, 5, "mlx5_2");
    assert_eq!(node.next(), "mlx5_2/ device_removed");
    assert!(node.hub.take_doubt());
    node.list(&["mlx5_0", "mlx5_1"]);
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn a_list_from_before_a_notice_says_nothing_against_it() {
    let node = Watched::start("");
    let before = Instant::now();
    node.notice(1, 4, "mlx5_1");
    assert_eq!(node.next(), "mlx5_1/ device_removed");
    node.hub
        .list(before, &[("mlx5_0".to_owned(), 1), ("mlx5_1".to_owned(), 1)]);
    node.say(Say::Bell);
    assert_eq!(node.rest(), [""; 0]);
}

/// Kernels before 6.12.
#[test]
fn without_notices_the_list_reports() {
    let node = Watched::start("");
    node.list(&["mlx5_0"]);
    assert_eq!(node.next(), "mlx5_1/ device_removed");
    node.list(&["mlx5_0", "mlx5_9"]);
    assert_eq!(node.next(), "mlx5_9/ device_added");
    assert_eq!(node.rest(), [""; 0]);
}

/// As above: the directory entry of a renamed device keeps its inode.
#[test]
fn without_notices_the_list_reports_a_renamed_device_from_another_one() {
    let node = Watched::start("");
    let class = node.dir.path().join("infiniband");
    fs::rename(class.join("mlx5_1"), class.join("storage0")).unwrap();
    node.list(&["mlx5_0", "storage0"]);
    assert_eq!(node.next(), "storage0/ renamed");
    // A new device, while the old one still exists on disk.
    node.lay("mlx5_9");
    node.list(&["mlx5_0", "mlx5_9"]);
    assert_eq!(node.next(), "storage0/ device_removed");
    assert_eq!(node.next(), "mlx5_9/ device_added");
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn a_notice_without_a_name_is_about_the_device_of_that_number() {
    let node = Watched::start("");
    node.say(Say::Rdma(notice(1, 4, None, None, None)));
    assert_eq!(node.next(), "mlx5_1/ device_removed");
    // An unknown index.
    node.say(Say::Rdma(notice(1, 99, None, None, None)));
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn a_link_that_goes_down_and_up_is_reported_once_each() {
    let node = Watched::start("");
    for (operstate, word) in [(DOWN, "link_down"), (UP, "link_up"), (DOWN, "link_down")] {
        // The kernel repeats itself: another address, another queue.
        for _ in 0..3 {
            node.say(Say::Links(link(NEW, 7, operstate)));
        }
        assert_eq!(node.next(), format!("mlx5_0/1 {word}"));
    }
    // An interface of no device.
    node.say(Say::Links(link(NEW, 8, UP)));
    assert!(node.listens.load(Ordering::Acquire));
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn an_interface_that_leaves_takes_its_link_along() {
    let node = Watched::start("");
    node.say(Say::Links(link(GONE, 7, UP)));
    assert_eq!(node.next(), "mlx5_0/1 link_down");
    assert_eq!(node.rest(), [""; 0]);
}

/// Multi-port functions behind one bond.
#[test]
fn each_port_of_an_interface_is_reported() {
    let node = Watched::start("");
    node.hub.has_netdev("mlx5_1", 1, "ens1");
    node.say(Say::Bell);
    node.say(Say::Links(link(NEW, 7, DOWN)));
    assert_eq!(node.next(), "mlx5_0/1 link_down");
    assert_eq!(node.next(), "mlx5_1/1 link_down");
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn a_port_whose_interface_comes_later_is_watched_from_then_on() {
    let node = Watched::start("");
    node.interface("ens2", 9, "down");
    node.of_port(2, "mlx5_0", "ens2");
    assert_eq!(node.next(), "mlx5_0/1 netdev_attached");
    node.hub.has_netdev("mlx5_0", 1, "ens2");
    node.say(Say::Bell);
    node.say(Say::Links(link(NEW, 9, UP)));
    assert_eq!(node.next(), "mlx5_0/1 link_up");
    node.of_port(3, "mlx5_0", "ens2");
    assert_eq!(node.next(), "mlx5_0/1 netdev_detached");
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn a_renamed_device_is_neither_removed_nor_added() {
    let node = Watched::start("");
    node.lay("storage0");
    node.notice(4, 4, "storage0");
    assert_eq!(node.next(), "storage0/ renamed");
    node.list(&["mlx5_0", "storage0"]);
    // Also of an unrelated interface, and twice.
    for (index, name) in [(8, "net1"), (7, "net0"), (7, "net0")] {
        node.say(Say::Rdma(netdev_renamed(index, name)));
    }
    assert_eq!(node.next(), "mlx5_0/1 renamed");
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn nothing_is_reported_of_what_is_left_out() {
    let node = Watched::start("exclude = [\"mlx5_2\", \"mlx5_0/2\"]");
    node.lay("mlx5_2");
    node.notice(0, 5, "mlx5_2");
    node.notice(1, 5, "mlx5_2");
    let other_port = notice(2, 3, Some("mlx5_0"), Some(2), Some("ens1"));
    node.say(Say::Rdma(other_port));
    let of_excluded = notice(2, 5, Some("mlx5_2"), Some(1), Some("ens5"));
    node.say(Say::Rdma(of_excluded));
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn an_interface_of_another_network_namespace_is_no_event_and_nothing_is_lost() {
    let node = Watched::start("");
    node.hub.take_doubt();
    for what in [2, 3] {
        node.say(Say::Rdma(without_device(what)));
    }
    node.say(Say::Links(link(NEW, 7, DOWN)));
    assert_eq!(node.next(), "mlx5_0/1 link_down");
    assert!(node.hub.take_doubt(), "ports are read again");
    assert_eq!(node.rest(), [""; 0]);
}

#[test]
fn what_was_lost_is_said_and_looked_for() {
    for say in [
        Say::Lost,
        // An unreadable message could mean anything.
        Say::Links(vec![1, 2, 3]),
        Say::Rdma(vec![0; 20]),
    ] {
        let node = Watched::start("");
        node.say(Say::Links(link(NEW, 7, UP)));
        node.interface("ens1", 7, "down");
        node.say(say);
        assert_eq!(node.next(), "lost");
        assert_eq!(node.next(), "mlx5_0/1 link_down");
        assert!(node.hub.take_doubt());
        node.list(&["mlx5_0"]);
        assert_eq!(node.next(), "mlx5_1/ device_removed");
        assert_eq!(node.rest(), [""; 0]);
    }
}

#[test]
fn numbers_grow_within_a_boot() {
    let node = Watched::start("");
    for n in 0..20 {
        node.say(Say::Links(link(NEW, 7, if n % 2 == 0 { DOWN } else { UP })));
    }
    let mut last = 0;
    for _ in 0..20 {
        let event = node.events.recv_timeout(LONG).unwrap();
        assert!(event.seq > last);
        last = event.seq;
    }
}

/// Its socket prevents that ib_core is unloaded. Before Linux 6.12 only a list says that no device is left.
#[test]
fn no_socket_is_open_without_a_device_and_the_next_one_is_heard() {
    for by_notice in [true, false] {
        let node = Watched::start("");
        if by_notice {
            node.notice(1, 3, "mlx5_0");
            node.notice(1, 4, "mlx5_1");
        } else {
            node.list(&[]);
        }
        assert_eq!(node.next(), "mlx5_0/ device_removed");
        assert_eq!(node.next(), "mlx5_1/ device_removed");
        let start = Instant::now();
        // The scripted kernel is given back with the sockets.
        while node.open.load(Ordering::Acquire) {
            assert!(start.elapsed() < LONG, "a socket is open, by notice: {by_notice}");
        }
        assert_eq!(node.hub.is_forgotten(), by_notice, "the next check scans");
        node.hub.list(Instant::now(), &[("mlx5_0".to_owned(), 1)]);
        assert_eq!(node.next(), "mlx5_0/ device_added");
        assert_eq!(node.rest(), [""; 0]);
    }
}

/// The list is published while the watcher handles an event, and its bell has not rung yet.
#[test]
fn the_last_device_is_reported_though_the_socket_is_closed_before_the_bell() {
    let node = Watched::start("");
    node.hub.list(Instant::now(), &[]);
    node.say(Say::Links(link(NEW, 7, DOWN)));
    let mut events = vec![node.next(), node.next()];
    // It may close the socket before it hears of the link.
    if events.contains(&"mlx5_0/1 link_down".to_owned()) {
        events.push(node.next());
    }
    assert!(events.ends_with(&[
        "mlx5_0/ device_removed".to_owned(),
        "mlx5_1/ device_removed".to_owned()
    ]));
}

#[test]
fn it_ends_when_its_receiver_is_gone() {
    let mut node = Watched::start("");
    drop(std::mem::replace(&mut node.events, sync_channel(1).1));
    node.say(Say::Links(link(NEW, 7, DOWN)));
    node.thread.take().unwrap().join().unwrap().unwrap();
}

#[test]
fn it_ends_when_it_is_stopped() {
    let mut node = Watched::start("");
    node.stop.store(true, Ordering::Release);
    node.say(Say::Bell);
    node.thread.take().unwrap().join().unwrap().unwrap();
}

#[test]
fn a_socket_that_breaks_is_an_error_and_what_was_known_is_known_at_the_next_run() {
    let mut node = Watched::start("");
    node.say(Say::Deaf);
    let error = node.thread.take().unwrap().join().unwrap().unwrap_err();
    assert_eq!(error.reason(), "io");
    assert_eq!(*node.opened.lock().unwrap(), 1);
}

#[test]
fn the_sockets_have_their_places_before_files_take_the_rest() {
    let budget = kept::DescriptorBudget::new(3);
    let bell = Arc::new(EventWaker::new(&budget).unwrap());
    let open = sockets(&budget, bell);
    assert!(budget.take().is_none(), "no permit is left for files");
    for _ in 0..2 {
        open().map(drop).unwrap();
    }
}

/// The real kernel: the loopback interface of a separate network namespace goes up.
#[test]
fn the_kernel_reports_a_link() {
    let told = thread::spawn(|| {
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err() {
            // Only for root, or in a user namespace.
            return None;
        }
        let budget = kept::DescriptorBudget::new(10);
        let bell = Arc::new(EventWaker::new(&budget).unwrap());
        let mut ears = EventSockets::open(&budget, &bell).unwrap();
        crate::sys::listen::tests::set_up(1);
        let until = Instant::now() + LONG;
        let mut seen = Vec::new();
        while !seen.iter().any(|l: &NetInterface| l.is_up == Some(true)) && Instant::now() < until {
            let heard = ears.hear(LONG, &mut |heard| {
                let SocketEvent::Links(bytes) = heard else { return };
                let messages = Messages::new(bytes).map(Result::unwrap);
                seen.extend(messages.filter_map(|m| NetInterface::parse(m.kind, m.payload).unwrap()));
            });
            heard.unwrap();
        }
        Some(seen)
    });
    if let Some(seen) = told.join().unwrap() {
        assert!(seen.iter().all(|l| l.index == 1), "{seen:?}");
        assert_eq!(seen.last().unwrap().is_up, Some(true));
    }
}
