//! One local drive: its SMART log, on the thread of its device, because a drive may not answer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::controller::{self, Controller};
use super::smart::{self, SmartLog};
use crate::sys::helper::{self, Client, Question};
use crate::sys::{nvme, root};
use crate::{Block, Device, Env, Error, Subject, SubjectKind, domain};

/// Time between two commands to one drive. The next reading after it sends one.
const EVERY: Duration = Duration::from_mins(5);
/// How long a drive may take. A healthy one answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two questions about a command that is away.
const AGAIN: Duration = Duration::from_millis(100);

/// Where logs come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogSource {
    /// The drives, by a helper.
    Helper(&'static Client),
    /// A recording.
    Recorded,
    /// nodewarden was started without root, or the drive has just come and the parent is about to restart the worker.
    NoHelper,
    /// The tree is not the running kernel's.
    OtherTree,
    /// The site wants none.
    Off,
}

impl LogSource {
    pub(super) fn new(env: &Env, is_wanted: bool) -> Self {
        match (is_wanted, env.is_live(), helper::of(&domain::NVME)) {
            (false, ..) => Self::Off,
            (true, false, _) => Self::Recorded,
            (true, true, _) if env.sysroot != Path::new("/") => Self::OtherTree,
            (true, true, Some(client)) => Self::Helper(client),
            (true, true, None) => Self::NoHelper,
        }
    }
}

/// What outlasts a scan: a new list of controllers sends no command.
pub(super) type SharedLog = Arc<Mutex<Option<Asked>>>;

/// The last answer of a drive.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    at: Instant,
    answer: Result<Answer, Errno>,
}

#[derive(Clone, Debug)]
enum Answer {
    /// The log's bytes.
    Log(Vec<u8>),
    /// Temperatures of hwmon.
    Temperatures(Option<i32>, [Option<i32>; 8]),
    /// The drive does not know the command, as some virtual ones. It is not asked again.
    NoLog,
}

impl Asked {
    /// Whether it still stands. A failed command says nothing of the next one.
    fn lasts(&self, now: Instant, turn: Turn) -> bool {
        match self.answer {
            Ok(Answer::NoLog) => true,
            Ok(_) => now < turn.next(self.at),
            Err(_) => false,
        }
    }
}

/// When a drive is asked. Those of a node are spread evenly over [`EVERY`], except right after a start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    first: Instant,
}

impl Turn {
    /// The turn of the drive at that place of the list.
    pub(super) fn new(started: Instant, place: usize, drives: usize) -> Self {
        let share = place as f64 / drives.max(1) as f64;
        Self {
            first: started + EVERY.mul_f64(share),
        }
    }

    /// The first time after `at`.
    fn next(self, at: Instant) -> Instant {
        let Some(since) = at.checked_duration_since(self.first) else {
            return self.first;
        };
        let turns = since.as_secs() / EVERY.as_secs() + 1;
        self.first + Duration::from_secs(EVERY.as_secs() * turns)
    }
}

/// The device.
pub(super) struct Drive {
    env: Env,
    subject: Subject,
    name: String,
    pci: String,
    folder: PathBuf,
    turn: Turn,
    source: LogSource,
    asked: SharedLog,
}

impl Drive {
    pub(super) fn new(
        env: &Env,
        controller: &Controller,
        pci: &str,
        source: LogSource,
        turn: Turn,
        asked: SharedLog,
    ) -> Self {
        let name = controller.entry.name.clone();
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Disk, name.as_str()),
            folder: controller.folder(env),
            turn,
            name,
            pci: pci.to_owned(),
            source,
            asked,
        }
    }

    /// The last answer, from the drive if it is due.
    fn answer(&self, now: Instant) -> Result<Answer, Errno> {
        let known = self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A recording changes with its steps.
        let lasts = |asked: &Asked| self.env.is_live() && asked.lasts(now, self.turn);
        if let Some(asked) = known.filter(lasts) {
            return asked.answer;
        }
        // Not under the lock: it may never return.
        let answer = self.ask();
        let asked = Asked {
            at: now,
            answer: answer.clone(),
        };
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        answer
    }

    fn ask(&self) -> Result<Answer, Errno> {
        match self.source {
            LogSource::Helper(client) => {
                let controller = nvme::Controller {
                    number: controller::number(&self.name).ok_or(Errno::ENOENT)?,
                    device: self.device_number()?,
                };
                match patiently(|| client.ask(Question::SmartLog(controller), None)) {
                    Err(Errno::EOPNOTSUPP) => Ok(Answer::NoLog),
                    log => log.map(Answer::Log),
                }
            }
            LogSource::Recorded => {
                let path = self.env.path(&format!("/smart-log/{}", self.name));
                let recorded = root::read_bytes(&path, root::MAX_FILE).map_err(|_| Errno::EIO)?;
                recorded.map(Answer::Log).ok_or(Errno::ENODATA)
            }
            LogSource::NoHelper | LogSource::OtherTree | LogSource::Off => Ok(self.sensors()),
        }
    }

    /// As the kernel lists it: the file in /dev must be this device.
    fn device_number(&self) -> Result<(u32, u32), Errno> {
        let text = root::read_text(&self.folder.join("dev")).map_err(|_| Errno::EIO)?;
        // The controller has gone.
        let text = text.ok_or(Errno::ENXIO)?;
        let (major, minor) = text.split_once(':').ok_or(Errno::EIO)?;
        let parse = |number: &str| number.parse().map_err(|_| Errno::EIO);
        Ok((parse(major)?, parse(minor)?))
    }

    /// A read of hwmon is the same command, which the driver sends: any user may cause it.
    fn sensors(&self) -> Answer {
        let folder = hwmon(&self.folder);
        let read = |number: usize| {
            let path = folder.as_ref()?.join(format!("temp{number}_input"));
            let text = root::read_text(&path).ok().flatten()?;
            celsius(text.parse().ok()?)
        };
        Answer::Temperatures(read(1), std::array::from_fn(|sensor| read(sensor + 2)))
    }

    /// Why there is no log, if the site wants one.
    fn missing(&self) -> Option<Error> {
        let what = format!("SMART log of {}", self.name);
        match self.source {
            LogSource::NoHelper => Some(Error::Denied {
                what,
                missing: "helper `nvme` (CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH)",
            }),
            LogSource::OtherTree => Some(Error::NotRecorded("SMART log")),
            LogSource::Helper(_) | LogSource::Recorded | LogSource::Off => None,
        }
    }

    fn error(&self, errno: Errno) -> Error {
        let state = |text: &str, reason| Error::State {
            what: format!("SMART log of {}: {text}", self.name),
            reason,
        };
        match errno {
            Errno::ETIMEDOUT => state("the drive did not answer in 2 s", "timeout"),
            Errno::EAGAIN => state("the controller is not live", "not_live"),
            Errno::EREMOTEIO => state("the drive rejects the command", "rejected"),
            Errno::EXDEV => state("the device file is another device", "other_device"),
            Errno::ENODATA => Error::NotRecorded("SMART log"),
            Errno::EACCES | Errno::EPERM => Error::Denied {
                what: format!("/dev/{}", self.name),
                missing: "CAP_SYS_ADMIN or CAP_DAC_READ_SEARCH",
            },
            Errno::ENOENT if matches!(root::inode(&self.folder), Ok(Some(_))) => Error::Denied {
                what: format!("/dev/{}", self.name),
                missing: "the device file, as in a container without the host's /dev",
            },
            // A drive that was removed since the list was read.
            Errno::ENOENT | Errno::ENXIO => Error::io(&self.device(), Errno::ENODEV.into()),
            errno => Error::io(&self.device(), errno.into()),
        }
    }

    fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

impl Device for Drive {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let labels = [self.name.as_str(), self.pci.as_str()];
        match self.answer(Instant::now()).map_err(|errno| self.error(errno))? {
            Answer::Log(bytes) => {
                if let Some(log) = SmartLog::parse(&self.name, &bytes)? {
                    log.show(labels, out);
                }
            }
            Answer::Temperatures(composite, sensors) => {
                smart::temperatures(labels, composite, &sensors, out);
            }
            Answer::NoLog => {}
        }
        if let Some(error) = self.missing() {
            out.incomplete(&error);
        }
        Ok(())
    }
}

/// Asks again until the drive has answered, or has not for [`PATIENCE`]. In between the helper is free for other drives.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let began = Instant::now();
    loop {
        match ask() {
            Err(Errno::EINPROGRESS) if began.elapsed() < PATIENCE => std::thread::sleep(AGAIN),
            Err(Errno::EINPROGRESS) => return Err(Errno::ETIMEDOUT),
            answer => return answer,
        }
    }
}

/// The folder of the drive's sensors: below the controller, before Linux 5.10 below its PCI function.
fn hwmon(folder: &Path) -> Option<PathBuf> {
    let in_device = folder.join("device/hwmon");
    let found = |folder: &Path| {
        let names = root::list(folder).ok().flatten()?;
        let name = names.into_iter().find(|name| name.starts_with("hwmon"))?;
        Some(folder.join(name))
    };
    // Some kernels put a folder `hwmon` between.
    let own = found(folder).filter(|path| !path.ends_with("hwmon"));
    own.or_else(|| found(&folder.join("hwmon")))
        .or_else(|| found(&in_device))
}

/// From thousandths of a degree. The driver subtracts 273 or 273.15 from whole kelvins.
fn celsius(thousandths: i64) -> Option<i32> {
    let kelvins = thousandths
        .checked_add(273_150)?
        .checked_add(500)?
        .div_euclid(1000);
    smart::celsius(u16::try_from(kelvins).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_of_all_kernels_have_whole_degrees() {
        assert_eq!(celsius(39_000), Some(39));
        assert_eq!(celsius(38_850), Some(39));
        assert_eq!(celsius(-273_150), None, "0 K: no sensor");
        assert_eq!((celsius(i64::MAX), celsius(i64::MIN)), (None, None));
    }

    #[test]
    fn a_failed_command_is_repeated_a_log_lasts_and_an_unknown_command_is_sent_once() {
        let at = Instant::now();
        let lasts = |answer, seconds| {
            Asked { at, answer }.lasts(at + Duration::from_secs(seconds), Turn { first: at })
        };
        let log = || Ok(Answer::Log(Vec::new()));
        assert!(lasts(log(), 299) && !lasts(log(), 300));
        assert!(lasts(Ok(Answer::NoLog), 1_000_000));
        assert!(!lasts(Err(Errno::ETIMEDOUT), 0));
    }

    #[test]
    fn a_drive_that_is_slow_is_asked_again_until_it_answers() {
        let mut answers = vec![Ok(1), Err(Errno::EINPROGRESS), Err(Errno::EINPROGRESS)];
        assert_eq!(patiently(|| answers.pop().unwrap()), Ok(1));
        assert_eq!(patiently(|| Err::<(), _>(Errno::EIO)), Err(Errno::EIO));
        assert_eq!(
            patiently(|| Err::<(), _>(Errno::EINPROGRESS)),
            Err(Errno::ETIMEDOUT)
        );
    }

    fn drive(folder: PathBuf) -> Drive {
        Drive {
            env: Env::default(),
            subject: Subject::new(SubjectKind::Disk, "nvme0"),
            name: "nvme0".to_owned(),
            pci: "0000:01:00.0".to_owned(),
            folder,
            turn: Turn::new(Instant::now(), 0, 1),
            source: LogSource::Off,
            asked: SharedLog::default(),
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test writes its own tree")]
    fn the_device_number_is_the_kernels_and_without_one_no_drive_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let drive = drive(dir.path().to_owned());
        let number = |text: &str| {
            std::fs::write(dir.path().join("dev"), text).unwrap();
            drive.device_number()
        };
        assert_eq!(number("240:3\n"), Ok((240, 3)));
        assert_eq!(number("240\n"), Err(Errno::EIO));
        assert_eq!(number("240:-1\n"), Err(Errno::EIO));
        std::fs::remove_file(dir.path().join("dev")).unwrap();
        assert_eq!(drive.device_number(), Err(Errno::ENXIO));
        assert_eq!(drive.error(Errno::ENXIO).reason(), "gone");
        assert_eq!(drive.error(Errno::EXDEV).reason(), "other_device");
    }

    #[test]
    fn without_a_device_file_a_drive_is_gone_only_if_the_kernel_does_not_list_it() {
        let dir = tempfile::tempdir().unwrap();
        let reason = |folder| drive(folder).error(Errno::ENOENT).reason();
        assert_eq!(reason(dir.path().to_owned()), "denied");
        assert_eq!(reason(dir.path().join("removed")), "gone");
    }

    /// They were read in two of the five minutes.
    #[test]
    fn drives_of_a_node_are_read_evenly_over_5_min_each_every_5_min() {
        let started = Instant::now();
        let turns: Vec<Turn> = (0..16).map(|place| Turn::new(started, place, 16)).collect();
        // The first reading asks all.
        let mut asked = vec![started; turns.len()];
        for minute in 1..=60 {
            let now = started + Duration::from_mins(minute);
            let due = turns
                .iter()
                .zip(&mut asked)
                .filter(|(turn, at)| turn.next(**at) <= now);
            let waited: Vec<Duration> = due.map(|(_, at)| now - std::mem::replace(at, now)).collect();
            assert!((3..=4).contains(&waited.len()), "{minute}: {}", waited.len());
            // Readings of each minute show one log at most 6 times, and checks require 7.
            assert!(
                waited.iter().all(|waited| *waited <= EVERY),
                "{minute}: {waited:?}"
            );
            assert!(
                minute <= 5 || waited.iter().all(|waited| *waited == EVERY),
                "{minute}"
            );
        }
    }
}
