//! Follows the file of `web_config_file` and the files that it names, on a thread of its own: a mount may hang. Content for the
//! daemon was read twice, a second apart: a renewed certificate and its key are two files, and a file may be half written.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::web::{self, WebConfig};
use sys::poll::Waker;

/// Interval of reading the files.
const LOOK: Duration = Duration::from_secs(5);

/// Two equal readings this far apart count.
const SETTLE: Duration = Duration::from_secs(1);

/// The web configuration in force, and the thread that follows its file.
pub(super) struct WebFile {
    path: Option<PathBuf>,
    good: Option<WebConfig>,
    /// The file has changed and cannot be used.
    is_stale: bool,
    /// Reports of earlier orders are void.
    number: u64,
    /// Started with the first file.
    orders: Option<Sender<Order>>,
    to_main: Sender<Report>,
    reports: Receiver<Report>,
    waker: Waker,
}

struct Order {
    number: u64,
    path: Option<PathBuf>,
    /// The one in force.
    good: Option<WebConfig>,
}

struct Report {
    number: u64,
    found: Result<WebConfig, String>,
}

impl WebFile {
    /// With what the start has read.
    pub(super) fn new(path: Option<PathBuf>, good: Option<WebConfig>, waker: Waker) -> Self {
        let (to_main, reports) = channel();
        let mut file = Self {
            path: None,
            good: None,
            is_stale: false,
            number: 0,
            orders: None,
            to_main,
            reports,
            waker,
        };
        file.configure(path, good);
        file
    }

    /// What the daemon serves.
    pub(super) fn in_force(&self) -> Option<&WebConfig> {
        self.good.as_ref()
    }

    /// Whether the file has changed and is not in force.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Takes what a reload has read. Returns whether the daemon does not have it yet.
    pub(super) fn configure(&mut self, path: Option<PathBuf>, good: Option<WebConfig>) -> bool {
        let is_new = good != self.good || self.is_stale;
        (self.path, self.good, self.is_stale) = (path, good, false);
        self.number += 1;
        if self.orders.is_none() && self.path.is_some() {
            self.orders = start(self.to_main.clone(), self.waker.clone());
        }
        if let Some(orders) = &self.orders {
            let (number, path, good) = (self.number, self.path.clone(), self.good.clone());
            // A thread that could not be started was reported; a reload still reads the file.
            sys::ignore(orders.send(Order { number, path, good }));
        }
        is_new
    }

    /// Takes what the thread has found. Returns whether the daemon has to know.
    pub(super) fn heard(&mut self) -> bool {
        let mut is_news = false;
        while let Ok(report) = self.reports.try_recv() {
            if report.number != self.number {
                continue;
            }
            is_news = true;
            self.is_stale = report.found.is_err();
            match report.found {
                Ok(web) => self.good = Some(web),
                Err(e) => {
                    tracing::error!("web configuration rejected, the last good one stays in force:\n{e}")
                }
            }
        }
        is_news
    }

    /// The daemon has missed a packet: the files are read and sent again.
    pub(super) fn repeat(&mut self) {
        if let (Some(orders), Some(path)) = (&self.orders, self.path.clone()) {
            let (number, path) = (self.number, Some(path));
            sys::ignore(orders.send(Order {
                number,
                path,
                good: None,
            }));
        }
    }
}

fn start(to: Sender<Report>, waker: Waker) -> Option<Sender<Order>> {
    let (orders, received) = channel();
    let follow = move || {
        follow(&received, LOOK, SETTLE, |report| {
            // The parent lives longer than its threads.
            sys::ignore(to.send(report));
            waker.wake();
        });
    };
    match thread::Builder::new().name("web".to_owned()).spawn(follow) {
        Ok(_) => Some(orders),
        Err(e) => {
            tracing::error!(error = %e, "cannot start a thread to follow web_config_file");
            None
        }
    }
}

fn follow(orders: &Receiver<Order>, look: Duration, settle: Duration, report: impl Fn(Report)) {
    let Ok(mut order) = orders.recv() else { return };
    let mut reported = order.good.take().map(Ok);
    let (mut seen, mut wait) = (reported.clone(), look);
    loop {
        let next = match &order.path {
            Some(_) => orders.recv_timeout(wait),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(next) => {
                order = next;
                reported = order.good.take().map(Ok);
                (seen, wait) = (reported.clone(), look);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(path) = &order.path else { continue };
        let found = Some(web::read(path));
        wait = if found == seen { look } else { settle };
        if found == seen && seen != reported {
            reported = seen.clone();
            if let Some(found) = seen.clone() {
                let (number, found) = (order.number, checked(path, found));
                report(Report { number, found });
            }
        }
        seen = found;
    }
}

fn checked(path: &Path, found: Result<WebConfig, String>) -> Result<WebConfig, String> {
    found.and_then(|web| web::check(path, &web).map(|()| web))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests write the file")]
mod tests {
    use std::fs;

    use super::*;

    const HASH: &str = "$2y$04$......................KxkSFIN7vRNVfWlJFHkPYJSlWl.4pTa";

    struct Followed {
        path: PathBuf,
        orders: Sender<Order>,
        reports: Receiver<Report>,
        _dir: tempfile::TempDir,
    }

    impl Followed {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (orders, received) = channel();
            let (to, reports) = channel();
            let wait = Duration::from_millis(20);
            thread::spawn(move || follow(&received, wait, wait, |r| sys::ignore(to.send(r))));
            let path = dir.path().join("web.yml");
            Self {
                path,
                orders,
                reports,
                _dir: dir,
            }
        }

        fn users(&self, names: &[&str]) {
            let rows: Vec<String> = names.iter().map(|name| format!("  {name}: {HASH}\n")).collect();
            fs::write(&self.path, format!("basic_auth_users:\n{}", rows.concat())).unwrap();
        }

        fn order(&self, number: u64) {
            let order = Order {
                number,
                path: Some(self.path.clone()),
                good: web::read(&self.path).ok(),
            };
            self.orders.send(order).unwrap();
        }

        fn next(&self) -> Report {
            self.reports.recv_timeout(Duration::from_secs(60)).unwrap()
        }
    }

    #[test]
    fn each_change_is_reported_once_good_or_bad() {
        let file = Followed::new();
        file.users(&["a"]);
        file.order(7);
        assert!(file.reports.recv_timeout(Duration::from_millis(200)).is_err());
        file.users(&["a", "b"]);
        let report = file.next();
        assert_eq!(report.number, 7);
        assert_eq!(report.found.unwrap().users.len(), 2);
        fs::write(&file.path, "basic_auth_user:\n").unwrap();
        let error = file.next().found.unwrap_err();
        assert!(
            error.contains("web.yml:1:1: unknown key basic_auth_user"),
            "{error}"
        );
        assert!(file.reports.recv_timeout(Duration::from_millis(200)).is_err());
        fs::remove_file(&file.path).unwrap();
        assert!(file.next().found.unwrap_err().contains("no such file"));
        file.users(&["a", "b"]);
        assert!(file.next().found.is_ok(), "the end of a fault is news");
    }

    #[test]
    fn reports_of_an_earlier_order_are_void() {
        let mut file = WebFile::new(None, None, Waker::new().unwrap());
        let report = |number| Report {
            number,
            found: Ok(WebConfig::default()),
        };
        file.to_main.send(report(0)).unwrap();
        assert!(!file.heard() && file.in_force().is_none());
        file.to_main.send(report(1)).unwrap();
        assert!(file.heard() && file.in_force().is_some());
        assert!(file.configure(None, None), "the file is no longer named");
        assert!(file.in_force().is_none() && !file.is_stale());
    }
}
