//! The SMART / Health Information log of an NVMe controller, by ioctl(2) on /dev/nvmeN (`NVME_IOCTL_ADMIN_CMD`,
//! include/uapi/linux/nvme_ioctl.h). The kernel permits this command to CAP_SYS_ADMIN alone (drivers/nvme/host/ioctl.c,
//! `nvme_cmd_allowed`), and the device belongs to root.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat, major, minor};

use super::patience::OneAway;

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

/// How long a helper waits for one controller. A healthy one answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    /// N of /dev/nvmeN.
    pub(crate) number: u32,
    /// Its device number, major and minor, in sysfs: a file in /dev may be another device.
    pub(crate) device: (u32, u32),
}

/// Asks controllers, with at most one command away in each. A controller that does not answer keeps one thread until its
/// driver has ended the command; the others go on.
#[derive(Debug, Default)]
pub(crate) struct Controllers(BTreeMap<u32, OneAway>);

impl Controllers {
    /// The log of /dev/nvmeN.
    ///
    /// # Errors
    /// `ETIMEDOUT` if the controller does not answer in 2 s, or has not answered an earlier command; else as [`smart_log`].
    pub(crate) fn smart_log(&mut self, controller: Controller) -> Result<Vec<u8>, Errno> {
        self.ask(controller.number, move || smart_log(controller))
    }

    fn ask<T: Send + 'static>(
        &mut self,
        controller: u32,
        question: impl FnOnce() -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        self.0.retain(|_, calls| calls.is_away());
        let calls = self.0.entry(controller).or_default();
        calls
            .ask_within(PATIENCE, question)
            .unwrap_or(Err(Errno::ETIMEDOUT))
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

    #[test]
    fn a_controller_that_does_not_answer_delays_no_other_and_is_not_asked_again() {
        let mut controllers = Controllers::default();
        let (release, held) = channel::<()>();
        let late = controllers.ask(0, move || {
            let _released = held.recv();
            Ok(())
        });
        assert_eq!(late, Err(Errno::ETIMEDOUT));
        assert_eq!(controllers.ask(1, || Ok(1)), Ok(1));
        let again = controllers.ask(0, || -> Result<(), Errno> {
            unreachable!("one command at a time")
        });
        assert_eq!(again, Err(Errno::ETIMEDOUT));
        // Those that have answered are forgotten: a worker may send any number.
        assert_eq!(controllers.0.keys().collect::<Vec<_>>(), [&0]);
        release.send(()).unwrap();
        let answers = || controllers.ask(0, || Ok(2)) == Ok(2);
        testkit::wait::until_true("it answers again", testkit::wait::PATIENCE, answers).unwrap();
    }
}
