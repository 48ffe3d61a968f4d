//! Bounded waits: for the daemon, for the configuration's files, and for the drivers behind the recording.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use collectors::rdma::recording::{self, Recorded};
use collectors::{Env, Settings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sys::fork;

use super::names::Names;
use super::pack::{Absent, Entry};
use crate::cli::client::{self, Unreachable};
use crate::http::control::{self, Reply, Request};
use crate::screen;

/// The wait for one answer of the daemon, and for the files of the configuration.
const WAIT: Duration = Duration::from_secs(5);
/// The same for people.
const NO_ANSWER: Absent = "the daemon did not answer within 5 s";
/// The wait for all files of the recording.
const RECORDING: Duration = Duration::from_secs(10);
/// The wait for the devices of the recording, which are read side by side.
const DEVICES: Duration = Duration::from_secs(5);
/// The same for people.
const LATE: Absent = "the device did not answer within 5 s";

/// The result of a function that may block, if it comes in time. A thread that blocks ends with the process.
pub(super) fn within<T: Send + 'static>(
    wait: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (to, from) = mpsc::channel();
    let thread = thread::Builder::new().name("bundle".to_owned());
    let spawned = thread.spawn(move || sys::ignore(to.send(work())));
    spawned.ok()?;
    from.recv_timeout(wait).ok()
}

/// The daemon's answer to a request.
pub(super) fn daemon<T>(
    run_dir: &Path,
    request: Request,
    take: impl FnOnce(Reply) -> Option<T>,
) -> Result<T, Absent> {
    let dir = run_dir.to_owned();
    let reply = within(WAIT, move || client::ask_within(&dir, &request, WAIT)).ok_or(NO_ANSWER)?;
    match reply.map_err(|error| absent(&error))? {
        Reply::Refused(text) => Err(refused(&text)),
        reply => take(reply).ok_or("the daemon has another version"),
    }
}

/// The daemon's reason in words of this program: its own text may name a user.
fn refused(text: &str) -> Absent {
    let known = [
        (
            control::NOT_PERMITTED,
            "permission denied: run as root or as a user of health.operators",
        ),
        (
            control::TOO_MANY,
            "the daemon has too many connections of users without rights: try again, or run as root",
        ),
        (
            control::INVALID,
            "the daemon does not know the request: it has another version",
        ),
        (control::NOT_UTF8, "the daemon's page is not UTF-8"),
    ];
    let found = known.iter().find(|(begin, _)| text.starts_with(begin));
    found.map_or(
        "the daemon refused it for a reason that this version does not know",
        |(_, why)| *why,
    )
}

fn absent(error: &Unreachable) -> Absent {
    match error.kind() {
        Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            "no daemon runs with this run directory"
        }
        Some(io::ErrorKind::PermissionDenied) => "permission denied: run as root",
        Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => NO_ANSWER,
        Some(io::ErrorKind::UnexpectedEof) => "the daemon closed the connection",
        Some(io::ErrorKind::InvalidData) | None => "the daemon has another version",
        Some(_) => "the daemon's socket failed",
    }
}

/// The configuration and where it is from: the file and options of the daemon's last start. The files may have changed since.
pub(super) fn configuration(run_dir: &Path) -> Result<(Settings, &'static str), Absent> {
    let run_dir = run_dir.to_owned();
    let read = within(WAIT, move || -> Result<_, Absent> {
        let last = crate::config::Origin::of_last_start(&run_dir)?;
        let from = match last {
            Some(_) => "file and options of the daemon's last start",
            None => "default file: no daemon has started with this run directory since boot",
        };
        let (file, sets) = last.unwrap_or_default();
        let read = crate::config::read(file.as_deref(), &sets)
            .map_err(|_| "the configuration has an error: see `nodewarden config check`")?;
        Ok((read.settings, from))
    });
    read.unwrap_or(Err("the configuration's files could not be read within 5 s"))
}

/// What the child reads.
#[derive(Serialize, Deserialize)]
struct Order {
    sysroot: PathBuf,
    settings: Settings,
}

/// What it sends, one a line.
#[derive(Serialize, Deserialize)]
enum Sent {
    Device(Recorded),
    Failed,
    End,
}

/// The recording, read by a child process: one that is stuck in a driver is left behind.
pub(super) fn recording(
    sysroot: &Path,
    settings: &Result<Settings, Absent>,
    names: &mut Names,
) -> Result<Vec<(String, Entry)>, Absent> {
    let settings = settings
        .as_ref()
        .map_err(|_| "the configuration could not be read, so the excluded devices are unknown")?;
    let order = Order {
        sysroot: sysroot.to_owned(),
        settings: settings.clone(),
    };
    let devices = devices(&order)
        .map_err(|_| "the process that reads the devices failed or did not answer within 10 s")?;
    if devices.is_empty() {
        return Err("no RDMA device, or all are excluded");
    }
    Ok(entries(devices, names))
}

fn entries(devices: Vec<Recorded>, names: &mut Names) -> Vec<(String, Entry)> {
    let (mut entries, mut absent) = (BTreeMap::new(), Vec::new());
    for device in devices {
        let port = match device {
            Recorded::Port(port) => port,
            Recorded::Late(device) => {
                let device = names.rdma(&device);
                screen::note(&format!("recording of {device} ... absent: {LATE}"));
                absent.push(json!({ "device": device, "absent": LATE }));
                continue;
            }
        };
        let device = names.rdma(&port.device);
        let folder = format!("recording/root/sys/class/infiniband/{device}");
        for (path, text) in port.files {
            entries.insert(
                format!("{folder}/{path}"),
                Entry::File(format!("{text}\n").into_bytes()),
            );
        }
        if !port.pci.is_empty() {
            let pci = names.pci(&port.pci).text();
            let target = format!("../../../bus/pci/devices/{pci}");
            entries.insert(format!("{folder}/device"), Entry::Link(target));
            let function = format!("recording/root/sys/bus/pci/devices/{pci}");
            if !port.driver.is_empty() {
                let target = format!("../../drivers/{}", port.driver);
                entries.insert(format!("{function}/driver"), Entry::Link(target));
            }
        }
    }
    if !absent.is_empty() {
        let text = format!("{:#}\n", Value::from(absent));
        entries.insert("recording/absent.json".to_owned(), Entry::File(text.into_bytes()));
    }
    entries.into_iter().collect()
}

fn devices(order: &Order) -> io::Result<Vec<Recorded>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    fork::start_self(&["bundle-reader"], theirs.as_fd(), &[])?;
    drop(theirs);
    let until = Instant::now() + RECORDING;
    ours.set_write_timeout(Some(RECORDING))?;
    ours.write_all(format!("{}\n", serde_json::to_string(order)?).as_bytes())?;
    let mut reader = BufReader::new(ours);
    let mut devices = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        reader.get_ref().set_read_timeout(Some(left))?;
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match serde_json::from_str(&line)? {
            Sent::Device(device) => devices.push(device),
            Sent::Failed => return Err(io::ErrorKind::Other.into()),
            Sent::End => return Ok(devices),
        }
    }
}

/// The child: reads the devices and sends their files.
pub(in crate::cli) fn reader() -> anyhow::Result<ExitCode> {
    // A device may never answer: who reads the bundle from a pipe then still sees its end.
    sys::silence()?;
    let socket = sys::stdin_socket()?;
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line)?;
    let Order { sysroot, settings } = serde_json::from_str(&line)?;
    let send = |sent: &Sent| -> anyhow::Result<()> {
        let mut line = serde_json::to_string(sent)?;
        line.push('\n');
        Ok((&socket).write_all(line.as_bytes())?)
    };
    let read = recording::record(&Env::with_sysroot(sysroot), &settings, DEVICES, |device| {
        // Without a reader the next one fails too.
        sys::ignore(send(&Sent::Device(device)));
    });
    send(if read.is_ok() { &Sent::End } else { &Sent::Failed })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use collectors::rdma::recording::PortRecording;

    use super::*;

    #[test]
    fn a_device_that_is_late_is_absent_with_a_reason_and_the_others_are_recorded() {
        let port = PortRecording {
            device: "mlx5_0".to_owned(),
            pci: String::new(),
            driver: String::new(),
            files: vec![("fw_ver".to_owned(), "28.43.1014".to_owned())],
        };
        let late = Recorded::Late("canary_1".to_owned());
        let entries = entries(vec![late, Recorded::Port(port)], &mut Names::in_turn());
        let paths: Vec<&str> = entries.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "recording/absent.json",
                "recording/root/sys/class/infiniband/mlx5_0/fw_ver"
            ]
        );
        let Entry::File(text) = &entries[0].1 else {
            panic!("a file")
        };
        let absent: Value = serde_json::from_slice(text).unwrap();
        let reason = "the device did not answer within 5 s";
        assert_eq!(absent, json!([{ "device": "rdma-1", "absent": reason }]));
    }

    /// Each of them was "run as root".
    #[test]
    fn a_refusal_has_the_daemons_reason_and_none_of_its_text() {
        for (text, part) in [
            (
                "permission denied: uid 4711 is neither root nor in health.operators",
                "run as root",
            ),
            (
                "too many connections of users without the right to give orders; try again",
                "too many connections",
            ),
            (
                "invalid request: unknown variant `readings`, expected `canary`",
                "another version",
            ),
            ("the page is not UTF-8", "not UTF-8"),
            ("canary 4711", "does not know"),
        ] {
            let why = refused(text);
            assert!(why.contains(part), "{text}: {why}");
            assert!(!why.contains("canary") && !why.contains("4711"), "{why}");
        }
        assert!(!refused("invalid request: canary").contains("root"));
    }
}
