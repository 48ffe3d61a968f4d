//! Notifications: the site's command gets an entry of the audit trail. A thread runs one at a time. A runner that is
//! absent and a command that fails or hangs delay nothing else.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use health::audit::Entry;
use sys::poll::Waker;

use crate::audit::Line;
use crate::config::Notify;
use crate::own::NotificationCounts;
use crate::parent::slurm::here;
use crate::runner::{Client, NO_RUNNER, Reply};

/// Limit of notifications in [`PERIOD`], whatever the daemon sends.
const MOST: usize = 10;
const PERIOD: Duration = Duration::from_secs(3600);

/// Limit of notifications that wait for an earlier one.
const WAITING: usize = 16;

/// One run of the command.
#[derive(Debug)]
struct Notice {
    client: Client,
    notify: Notify,
    line: Line,
}

impl Notice {
    fn run(&self) -> Result<(), String> {
        let Notify { command, limit } = &self.notify;
        match self.client.call(command, &self.line, *limit) {
            Ok(Reply::Ended { code: 0, .. }) => Ok(()),
            Ok(Reply::Ended { code, .. }) => Err(format!("exit code {code}, expected 0")),
            Ok(Reply::Failed(why) | Reply::TimedOut(why) | Reply::Refused(why)) => Err(why),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Sends notifications, at most [`MOST`] in [`PERIOD`]. It outlives the daemon: a restarted one gets no new limit.
#[derive(Debug)]
pub struct Notifier {
    /// The times of the last ones.
    sent: VecDeque<Instant>,
    /// Suppressed since the last one.
    suppressed: u64,
    counts: NotificationCounts,
    changed: bool,
    thread: Option<SyncSender<Notice>>,
    /// Whether each run succeeded.
    done: Receiver<bool>,
    to_done: Sender<bool>,
    waker: Waker,
    /// The name of the node in Slurm, once a read has proven it.
    node: Option<String>,
}

impl Notifier {
    /// None is sent yet; the waker wakes the parent after each.
    pub fn new(waker: Waker) -> Self {
        let (to_done, done) = channel();
        Self {
            sent: VecDeque::new(),
            suppressed: 0,
            counts: NotificationCounts::default(),
            changed: false,
            thread: None,
            done,
            to_done,
            waker,
            node: None,
        }
    }

    /// Slurm's name of this node.
    pub fn name_node(&mut self, name: &str) {
        if self.node.as_deref() != Some(name) {
            self.node = Some(name.to_owned());
        }
    }

    /// Slurm's name of this node, once known.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Sends an entry, unless the limit is reached. Returns whether it was in the limit.
    pub fn send(&mut self, entry: &Entry, notify: &Notify, client: Option<Client>) -> bool {
        self.changed = true;
        if !self.is_allowed(Instant::now()) {
            self.suppressed = self.suppressed.saturating_add(1);
            self.counts.suppressed = self.counts.suppressed.saturating_add(1);
            return false;
        }
        let line = Line {
            suppressed: std::mem::take(&mut self.suppressed),
            node: self.node.clone(),
            host: Some(here::hostname()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..Line::of(entry)
        };
        let notify = notify.clone();
        let sent = match (client, self.thread()) {
            (None, _) => Err(NO_RUNNER),
            (_, None) => Err("cannot start a thread"),
            (Some(client), Some(thread)) => {
                let notice = Notice { client, notify, line };
                thread
                    .try_send(notice)
                    .map_err(|_| "earlier ones have not returned")
            }
        };
        if let Err(why) = sent {
            tracing::warn!("notification failed: {why}");
            self.counts.failed = self.counts.failed.saturating_add(1);
        }
        true
    }

    /// The counts, if they have changed since the last call.
    pub fn changes(&mut self) -> Option<NotificationCounts> {
        while let Ok(is_ok) = self.done.try_recv() {
            let count = if is_ok {
                &mut self.counts.ok
            } else {
                &mut self.counts.failed
            };
            *count = count.saturating_add(1);
            self.changed = true;
        }
        std::mem::take(&mut self.changed).then_some(self.counts)
    }

    /// The counts.
    pub const fn counts(&self) -> NotificationCounts {
        self.counts
    }

    fn is_allowed(&mut self, now: Instant) -> bool {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= PERIOD;
        while self.sent.front().is_some_and(is_old) {
            self.sent.pop_front();
        }
        let is_allowed = self.sent.len() < MOST;
        if is_allowed {
            self.sent.push_back(now);
        }
        is_allowed
    }

    fn thread(&mut self) -> Option<&SyncSender<Notice>> {
        if self.thread.is_none() {
            let (to, notices) = sync_channel::<Notice>(WAITING);
            let (done, waker) = (self.to_done.clone(), self.waker.clone());
            let run = move || {
                for notice in notices {
                    let result = notice.run();
                    if let Err(why) = &result {
                        tracing::warn!("notification failed: commands.{}: {why}", notice.notify.command);
                    }
                    sys::ignore(done.send(result.is_ok()));
                    waker.wake();
                }
            };
            match thread::Builder::new().name("notify".to_owned()).spawn(run) {
                Ok(_) => self.thread = Some(to),
                Err(error) => tracing::error!(%error, "cannot start a thread for notifications"),
            }
        }
        self.thread.as_ref()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "tests stand in for the runner")]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use health::audit::Kind;
    use serde_json::Value;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn notify() -> Notify {
        Notify {
            command: "pager".to_owned(),
            limit: LONG,
        }
    }

    fn notifier() -> Notifier {
        Notifier::new(Waker::new().unwrap())
    }

    /// A runner that gives these replies in turn. It returns the requests.
    fn runner(socket: &Path, replies: &'static [&str]) -> thread::JoinHandle<Vec<Value>> {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            let serve = |reply: &&str| {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                writeln!(stream.get_mut(), "{reply}").unwrap();
                serde_json::from_str(&line).unwrap()
            };
            replies.iter().map(serve).collect()
        })
    }

    fn wait_for(notifier: &mut Notifier, finished: u64) -> NotificationCounts {
        let look = || {
            let counts = notifier.changes().unwrap_or(notifier.counts());
            Ok((counts.ok + counts.failed == finished).then_some(counts))
        };
        testkit::wait::until("results", LONG, look).unwrap()
    }

    #[test]
    fn the_command_gets_the_line_with_node_host_and_version_and_each_failure_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let replies = &[
            r#"{"ended":{"code":0,"stdout":"","stderr":"","truncated":false}}"#,
            r#"{"ended":{"code":22,"stdout":"","stderr":"","truncated":false}}"#,
            r#"{"failed":"timed out"}"#,
            r#"{"refused":"not in the configuration"}"#,
            "nonsense",
        ];
        let requests = runner(&socket, replies);
        let mut notifier = notifier();
        assert_eq!(notifier.changes(), None);
        notifier.name_node("gpu017");
        for at in 0..5 {
            let client = Some(Client::new(&socket));
            assert!(notifier.send(&Entry::new(Kind::Written, at), &notify(), client));
        }
        let counts = wait_for(&mut notifier, 5);
        assert_eq!((counts.ok, counts.failed, counts.suppressed), (1, 4, 0));
        let requests = requests.join().unwrap();
        assert_eq!(requests.len(), 5);
        let input = &requests[0]["input"];
        assert_eq!(requests[0]["name"], "pager");
        assert_eq!(
            (&input["event"], &input["node"]),
            (&"written".into(), &"gpu017".into())
        );
        assert_eq!(input["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(input["host"], here::hostname());
        assert_eq!(input["suppressed"], Value::Null);
    }

    #[test]
    fn a_runner_that_is_absent_costs_a_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut notifier = notifier();
        let entry = Entry::new(Kind::Written, 0);
        assert!(notifier.send(&entry, &notify(), None));
        assert_eq!(notifier.changes().unwrap().failed, 1);
        let absent = Some(Client::new(&dir.path().join("socket")));
        assert!(notifier.send(&entry, &notify(), absent));
        assert_eq!(wait_for(&mut notifier, 2).failed, 2);
    }

    #[test]
    fn ten_in_any_hour_are_allowed_and_the_next_one_names_the_suppressed() {
        let mut notifier = notifier();
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        let mut allowed = |at| (0..100).filter(|_| notifier.is_allowed(at)).count();
        assert_eq!(allowed(start), 9 + 1);
        assert_eq!(allowed(start + minute * 59), 0);
        assert_eq!(allowed(start + minute * 60), 10);
        assert_eq!(allowed(start + minute * 119), 0);
        // One each 6 min, and a burst: the window moves.
        let mut window = self::notifier();
        let times: Vec<Instant> = (0..1000).map(|n| start + minute * n).collect();
        let sent: Vec<&Instant> = times.iter().filter(|at| window.is_allowed(**at)).collect();
        let most = sent
            .iter()
            .map(|from| {
                let in_hour = |at: &&&Instant| **at >= *from && **at < &(**from + PERIOD);
                sent.iter().filter(in_hour).count()
            })
            .max();
        assert_eq!(most, Some(MOST));
    }

    /// The runner accepts no connection, so that nothing returns.
    #[test]
    fn suppressed_ones_are_counted_and_a_hung_command_holds_up_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut notifier = notifier();
        let mut send = |at| {
            let client = Some(Client::new(&socket));
            notifier.send(&Entry::new(Kind::Written, at), &notify(), client)
        };
        assert_eq!((0..15).filter(|at| send(*at)).count(), MOST);
        let counts = notifier.changes().unwrap();
        assert_eq!((counts.ok, counts.failed, counts.suppressed), (0, 0, 5));
        assert_eq!(notifier.suppressed, 5);
        notifier.sent.clear();
        drop(listener);
        assert!(notifier.send(&Entry::new(Kind::Lifted, 0), &notify(), None));
        assert_eq!(notifier.suppressed, 0);
        assert_eq!(notifier.counts().suppressed, 5);
    }
}
