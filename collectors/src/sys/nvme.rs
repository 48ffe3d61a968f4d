//! The SMART / Health Information log of an NVMe controller, by ioctl(2) on /dev/nvmeN (`NVME_IOCTL_ADMIN_CMD`,
//! include/uapi/linux/nvme_ioctl.h). The kernel permits this command to CAP_SYS_ADMIN alone (drivers/nvme/host/ioctl.c,
//! `nvme_cmd_allowed`), and the device belongs to root.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat, major, minor};

/// Length of the log, in bytes.
pub(crate) const LENGTH: usize = 512;

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`. The helper's filter permits no other call of the driver.
const ADMIN_COMMAND: u64 = 0xc048_4e41;
/// Admin command Get Log Page.
const GET_LOG_PAGE: u8 = 0x02;
/// SMART / Health Information.
const SMART: u32 = 0x02;
/// The controller as a whole.
const EVERY_NAMESPACE: u32 = u32::MAX;

/// How long the helper waits at each question. A healthy controller answers in milliseconds.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long an answer that came later is kept for the worker, which asks again.
const FRESH: Duration = Duration::from_secs(1);

/// `struct nvme_admin_cmd`.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    length: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// On a boundary of its own length: within one page of memory.
#[repr(C, align(512))]
struct Log([u8; LENGTH]);

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Controller {
    /// N of /dev/nvmeN.
    pub(crate) number: u32,
    /// Its device number, major and minor, in sysfs: a file in /dev may be another device.
    pub(crate) device: (u32, u32),
}

/// Asks controllers, with at most one command away in each. A controller that does not answer keeps one thread until its
/// driver has ended the command.
#[derive(Debug, Default)]
pub(crate) struct Controllers(BTreeMap<Controller, Command>);

type Answer = Result<Vec<u8>, Errno>;

/// A command that is away, or whose answer was not fetched.
#[derive(Debug)]
struct Command {
    /// Each with the time at which it came.
    to_come: Receiver<(Instant, Answer)>,
    answer: Option<(Instant, Answer)>,
}

impl Controllers {
    /// The log of /dev/nvmeN. Waits for a moment only: every drive shares the helper.
    ///
    /// # Errors
    /// `EINPROGRESS` while the controller has not answered: to be asked again. Else as [`smart_log`].
    pub(crate) fn smart_log(&mut self, controller: Controller) -> Answer {
        self.ask(controller, move || smart_log(controller))
    }

    fn ask(&mut self, controller: Controller, question: impl FnOnce() -> Answer + Send + 'static) -> Answer {
        self.0.retain(|_, command| command.is_of_use());
        let mut command = match self.0.remove(&controller) {
            Some(command) => command,
            None => Command::send(question)?,
        };
        if let Some(answer) = command.wait() {
            return answer;
        }
        self.0.insert(controller, command);
        Err(Errno::EINPROGRESS)
    }
}

impl Command {
    fn send(question: impl FnOnce() -> Answer + Send + 'static) -> Result<Self, Errno> {
        let (to, to_come) = sync_channel(1);
        let thread = std::thread::Builder::new().name("nvme-command".to_owned());
        let started = thread.spawn(move || {
            let answer = question();
            drop(to.send((Instant::now(), answer)));
        });
        started.map_err(|_| Errno::ENOMEM)?;
        Ok(Self {
            to_come,
            answer: None,
        })
    }

    /// The answer, if it comes soon.
    fn wait(&mut self) -> Option<Answer> {
        let kept = self.answer.take().map(|(_, answer)| answer);
        kept.or_else(|| match self.to_come.recv_timeout(PATIENCE) {
            Ok((_, answer)) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            // Its thread has panicked.
            Err(RecvTimeoutError::Disconnected) => Some(Err(Errno::EIO)),
        })
    }

    /// Whether it is away, or its answer is news. The next question about a controller is not answered with old values.
    fn is_of_use(&mut self) -> bool {
        if self.answer.is_none() {
            self.answer = match self.to_come.try_recv() {
                Ok(answer) => Some(answer),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            };
        }
        self.answer.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH)
    }
}

/// The raw log of /dev/nvmeN.
///
/// # Errors
/// Of open(2) (`EAGAIN`: the controller is not live) and ioctl(2); `ENOTTY` if it is no character device, `EXDEV` if it has another
/// device number; `EOPNOTSUPP` if the controller has no such log, `EREMOTEIO` if it rejects the command for another reason.
fn smart_log(controller: Controller) -> Result<Vec<u8>, Errno> {
    let path = format!("/dev/nvme{}", controller.number);
    log_of(path.as_ref(), controller.device)
}

fn log_of(path: &Path, expected: (u32, u32)) -> Result<Vec<u8>, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let device = open(path, flags, Mode::empty())?;
    let found = fstat(&device)?;
    if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFCHR {
        return Err(Errno::ENOTTY);
    }
    if (major(found.st_rdev), minor(found.st_rdev)) != (expected.0.into(), expected.1.into()) {
        return Err(Errno::EXDEV);
    }
    let mut log = Log([0; LENGTH]);
    let command = command(log.0.as_mut_ptr().expose_provenance() as u64);
    // A status of the controller, not an error number.
    refusal(submit(device.as_raw_fd(), command)?).map_or_else(|| Ok(log.0.to_vec()), Err)
}

/// What a status of the controller means; `None`: success. The specification's generic statuses invalid opcode and invalid
/// field, and invalid log page, say that there is no such log.
const fn refusal(status: i32) -> Option<Errno> {
    match status & 0x7ff {
        0 => None,
        0x001 | 0x002 | 0x109 => Some(Errno::EOPNOTSUPP),
        _ => Some(Errno::EREMOTEIO),
    }
}

/// The time-out is the driver's own (module parameter `admin_timeout`, 60 s): when an admin command times out, the driver
/// resets the controller, so a shorter one here would reset a drive that is only slow.
fn command(address: u64) -> AdminCommand {
    let words = (LENGTH / size_of::<u32>()) as u32;
    AdminCommand {
        opcode: GET_LOG_PAGE,
        namespace: EVERY_NAMESPACE,
        address,
        length: LENGTH as u32,
        // The number of words is zero-based.
        words_10_15: [(words - 1) << 16 | SMART, 0, 0, 0, 0, 0],
        ..AdminCommand::default()
    }
}

#[allow(unsafe_code, reason = "there is no other way to make this call")]
fn submit(device: i32, mut command: AdminCommand) -> Result<i32, Errno> {
    // SAFETY: the command is a complete `nvme_admin_cmd` and outlives the call, and so does the buffer of `length` bytes that
    // its address names. The kernel writes nothing beyond either.
    let status = unsafe { libc::ioctl(device, ADMIN_COMMAND as _, &raw mut command) };
    Errno::result(status)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_some_statuses_mean_that_there_is_no_log() {
        assert_eq!(refusal(0), None);
        // With the bit "do not retry", as controllers send it.
        for none in [0x001, 0x002, 0x109, 0x4002, 0x4109] {
            assert_eq!(refusal(none), Some(Errno::EOPNOTSUPP), "{none:#x}");
        }
        for other in [0x006, 0x004, 0x371] {
            assert_eq!(refusal(other), Some(Errno::EREMOTEIO), "{other:#x}");
        }
    }

    #[test]
    fn the_command_is_get_log_page_for_512_bytes_and_keeps_the_drivers_time_out() {
        assert_eq!(size_of::<AdminCommand>(), 72);
        assert_eq!(size_of::<Log>(), LENGTH);
        let command = command(0x1000);
        let found = (command.opcode, command.namespace, command.length);
        assert_eq!(found, (2, u32::MAX, 512));
        assert_eq!(command.words_10_15, [0x007f_0002, 0, 0, 0, 0, 0]);
        assert_eq!((command.timeout_ms, command.metadata, command.flags), (0, 0, 0));
        // Size, kind and number in one word, as the kernel's macro composes them.
        let composed = 3 << 30 | 72 << 16 | u64::from(b'N') << 8 | 0x41;
        assert_eq!(ADMIN_COMMAND, composed);
    }

    #[test]
    fn only_a_character_device_is_asked() {
        let asked = |path: &Path| log_of(path, (1, 3));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nvme0");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(asked(&file), Err(Errno::ENOTTY));
        assert_eq!(asked(dir.path()), Err(Errno::ENOTTY));
        let link = dir.path().join("nvme1");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(asked(&link), Err(Errno::ELOOP));
        assert_eq!(asked(&dir.path().join("nvme2")), Err(Errno::ENOENT));
        // A device of another driver does not know the call.
        let null = Path::new("/dev/null");
        assert_eq!(asked(null), Err(Errno::ENOTTY));
        // A file left over from a controller that has gone, or one that someone made, is another device.
        for other in [(1, 5), (2, 3), (u32::MAX, 3)] {
            assert_eq!(log_of(null, other), Err(Errno::EXDEV), "{other:?}");
        }
    }

    const fn controller(number: u32) -> Controller {
        Controller {
            number,
            device: (240, number),
        }
    }

    /// Each took 2 s of the time of all others.
    #[test]
    fn controllers_that_do_not_answer_delay_no_other_and_are_not_asked_again() {
        let mut controllers = Controllers::default();
        let began = Instant::now();
        let stuck = 8;
        let held = (0..stuck).map(|number| {
            let (release, held) = channel::<()>();
            let late = controllers.ask(controller(number), move || {
                let _released = held.recv();
                Ok(vec![1])
            });
            assert_eq!(late, Err(Errno::EINPROGRESS));
            release
        });
        let held: Vec<_> = held.collect();
        assert!(began.elapsed() < Duration::from_secs(2) * stuck);
        let again = controllers.ask(controller(0), || unreachable!("one command at a time"));
        assert_eq!(again, Err(Errno::EINPROGRESS));
        let other = || controllers.ask(controller(100), || Ok(vec![2])) == Ok(vec![2]);
        testkit::wait::until_true("another answers", testkit::wait::PATIENCE, other).unwrap();
        // Those whose answer was fetched are forgotten: a worker may send any number.
        assert_eq!(controllers.0.len(), held.len());
        drop(held);
        let ends = || controllers.ask(controller(0), || Ok(vec![3])).is_ok();
        testkit::wait::until_true("it answers again", testkit::wait::PATIENCE, ends).unwrap();
    }

    #[test]
    fn a_late_answer_is_fetched_while_it_is_news_and_is_no_answer_to_a_later_question() {
        let asked = |ago: Duration| {
            let (to, to_come) = sync_channel(1);
            let at = Instant::now().checked_sub(ago).unwrap();
            to.send((at, Ok(vec![1]))).unwrap();
            let mut controllers = Controllers::default();
            let command = Command {
                to_come,
                answer: None,
            };
            controllers.0.insert(controller(0), command);
            controllers.ask(controller(0), || Err(Errno::ENOENT))
        };
        assert_eq!(asked(Duration::ZERO), Ok(vec![1]));
        let later = asked(FRESH);
        assert!(
            matches!(later, Err(Errno::ENOENT | Errno::EINPROGRESS)),
            "{later:?}"
        );
    }
}
