//! Plays a recording in real time, so that a program that reads it sees a running node.
//!
//! The steps of a case are applied in order. Files that every step contains are interpolated: their whole numbers
//! increase between two steps, and after the last step at the rate of the last two. Every other file changes at its
//! step. Lines of the kernel log appear at their time stamps; the log is then a FIFO, which a reader follows like
//! /dev/kmsg.
//!
//! `clock.toml` in the case sets the speed: `step_seconds`, and `kernel_log_begins`, the time stamp in microseconds at
//! which the play begins. Without the latter the whole log is present from the start.
//!
//! `recorded_at` is the Unix time of the recording's start. Start times that hooks have recorded for jobs are moved by
//! the time from then to the start of the play.
//!
//! A case with `nvml.toml` also has NVIDIA's library, which advances by one step a second. `gpu_lost` and
//! `gpu_lost_at_step` set the GPU that it loses, and the step of the case; `gpus_idle` and `gpus_idle_at_step` those
//! whose work ends. The configuration beside the case names the library.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde::Deserialize;

use crate::nvml::FakeNvml;
use crate::tree::{self, Entry};

/// Largest pipe without privileges (/proc/sys/fs/pipe-max-size). It holds the log until the reader starts.
const PIPE: i32 = 1 << 20;

/// Default duration of a step in seconds.
const STEP: u64 = 10;

/// Time since boot at which a log begins that a recording does not have.
const UPTIME: Duration = Duration::from_secs(86_400);

/// Folder of the job files that hooks write.
const HOOKS: &str = "run/nodewarden/jobs/";

/// A recording being played.
#[derive(Debug)]
pub struct Play {
    case: PathBuf,
    root: PathBuf,
    step: Duration,
    steps: Vec<Step>,
    /// Number of steps applied.
    laid: usize,
    /// Texts of each interpolated file, at the start and after each step, by path.
    moving: BTreeMap<String, Vec<String>>,
    log: Option<Log>,
    driver: Option<Driver>,
}

/// NVIDIA's library of a case.
#[derive(Debug)]
pub struct Driver {
    library: FakeNvml,
    /// Seconds that it was advanced.
    at: u64,
    /// The changes that are still to come.
    clock: Clock,
}

impl Driver {
    /// Installs the library in a folder beside an unpacked case. `None`: the case has none.
    ///
    /// # Errors
    /// A file of the case that cannot be read, or a file that cannot be written.
    pub fn open(case: &Path, to: &Path) -> Result<Option<Self>> {
        let scenario = case.join("nvml.toml");
        if !scenario.is_file() {
            return Ok(None);
        }
        let folder = to.join("driver");
        fs::create_dir_all(&folder)?;
        let library = FakeNvml::install(&folder, &scenario)?;
        let clock = Clock::read(&case.join("clock.toml"))?;
        Ok(Some(Self {
            library,
            at: 0,
            clock,
        }))
    }

    /// The collector's table of the configuration.
    pub fn settings(&self) -> String {
        format!("library = {:?}\n", self.library.library())
    }

    /// Advances it to a time since the start, after `steps` steps of the case.
    ///
    /// # Errors
    /// When its control file cannot be written.
    pub fn advance(&mut self, at: Duration, steps: usize) -> Result<()> {
        let seconds = at.as_secs().saturating_sub(self.at);
        if seconds > 0 {
            self.library.step(seconds)?;
            self.at += seconds;
        }
        let has_come = |step: Option<usize>| step.is_some_and(|step| steps >= step);
        if has_come(self.clock.gpu_lost_at_step)
            && let Some(gpu) = self.clock.gpu_lost.take()
        {
            self.library.lose(gpu)?;
        }
        if has_come(self.clock.gpus_idle_at_step) {
            for gpu in self.clock.gpus_idle.drain(..) {
                self.library.idle(gpu)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Step {
    /// Its first comment.
    title: Option<String>,
    entries: Vec<(String, Entry)>,
    /// Path of its netlink answers, which may not exist.
    netlink: PathBuf,
}

#[derive(Debug)]
struct Log {
    pipe: File,
    begins: Duration,
    /// Number of the last record written.
    sequence: u64,
    /// Pending records with their time stamps, the latest first.
    waiting: Vec<(Duration, String)>,
}

impl Play {
    /// Unpacks a case into the folder `to`, at its start.
    ///
    /// # Errors
    /// A file of the case that cannot be read, or a file that cannot be written.
    pub fn open(case: &Path, to: &Path) -> Result<Self> {
        tree::unpack(case, to)?;
        let clock = Clock::read(&case.join("clock.toml"))?;
        let mut steps = Vec::new();
        for file in tree::steps(case)? {
            let text = fs::read_to_string(&file)?;
            let title = text.lines().next().and_then(|l| l.strip_prefix("# "));
            steps.push(Step {
                title: title.map(str::to_owned),
                entries: tree::parse(&file.display().to_string(), &text)?,
                netlink: file.with_extension("netlink"),
            });
        }
        let root = case.join("root.tree");
        let start = tree::parse(&root.display().to_string(), &fs::read_to_string(&root)?)?;
        if let Some(recorded) = clock.recorded_at {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let recorded = Duration::from_secs(recorded).as_secs_f64();
            begin_jobs(&to.join("root"), &start, now.as_secs_f64() - recorded)?;
        }
        let log = match clock.kernel_log_begins {
            Some(begins) => Some(Log::open(&to.join("kmsg"), Duration::from_micros(begins))?),
            None => None,
        };
        let driver = Driver::open(case, to)?;
        if let Some(driver) = &driver {
            let file = to.join("health.toml");
            let mut config = File::options().create(true).append(true).open(file)?;
            write!(config, "\n[nvidia]\n{}", driver.settings())?;
        }
        Ok(Self {
            case: to.to_owned(),
            root: to.join("root"),
            step: Duration::from_secs(clock.step_seconds),
            moving: moving(&start, &steps),
            steps,
            laid: 0,
            log,
            driver,
        })
    }

    /// Leaves out every step after the first `steps`, what the GPUs do later, and the kernel log from now on. A node
    /// without a log gets an empty one.
    ///
    /// # Errors
    /// When the log cannot be made.
    pub fn keep(&mut self, steps: usize) -> Result<()> {
        self.steps.truncate(steps);
        for texts in self.moving.values_mut() {
            texts.truncate(steps + 1);
        }
        if let Some(driver) = &mut self.driver {
            driver.clock = Clock::default();
        }
        match &mut self.log {
            Some(log) => log.waiting.clear(),
            None => {
                let file = self.case.join("kmsg");
                if !file.exists() {
                    fs::write(&file, "")?;
                }
                self.log = Some(Log::open(&file, UPTIME)?);
            }
        }
        Ok(())
    }

    /// Replaces a text in a file of the node.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that does not have the text.
    pub fn replace(&self, path: &str, from: &str, to: &str) -> Result<()> {
        let file = self.root.join(path);
        let text = fs::read_to_string(&file).with_context(|| path.to_owned())?;
        ensure!(text.contains(from), "{path}: expected {from:?}");
        tree::put(&file, &Entry::File(text.replace(from, to).into_bytes()))
    }

    /// Appends a line to the kernel log, as an error, at a time since the start.
    ///
    /// # Errors
    /// A node without a log, or a log that cannot be written.
    pub fn log(&mut self, at: Duration, line: &str) -> Result<()> {
        let log = self.log.as_mut().context("the node has no kernel log")?;
        let stamp = (log.begins + at).as_micros();
        let record = format!("3,{},{stamp},-;{line}\n", log.sequence + 1);
        log.write(&record)
    }

    /// Duration of the recording; interpolated files continue after it.
    pub fn length(&self) -> Duration {
        let log = self.log.as_ref().map_or(Duration::ZERO, Log::length);
        log.max(self.step * u32::try_from(self.steps.len()).unwrap_or(u32::MAX))
    }

    /// Advances the node to a time since the start. Returns messages about the changes.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn advance(&mut self, at: Duration) -> Result<Vec<String>> {
        let mut said = Vec::new();
        let position = usize::try_from(at.as_millis() / self.step.as_millis())?;
        while self.laid < position.min(self.steps.len()) {
            let step = &self.steps[self.laid];
            for (path, entry) in &step.entries {
                tree::put(&self.root.join(path), entry).with_context(|| path.clone())?;
            }
            tree::answer(&step.netlink, &self.case)?;
            said.extend(step.title.clone());
            self.laid += 1;
        }
        if !self.steps.is_empty() {
            // After the last step, extrapolate from the last two.
            let from = position.min(self.steps.len() - 1);
            let since = at.saturating_sub(self.step * u32::try_from(from)?);
            for (path, texts) in &self.moving {
                let text = between(&texts[from], &texts[from + 1], since, self.step);
                tree::put(&self.root.join(path), &Entry::File(text.into_bytes()))?;
            }
        }
        if let Some(driver) = &mut self.driver {
            driver.advance(at, self.laid)?;
        }
        if let Some(log) = &mut self.log {
            said.extend(log.advance(at)?);
        }
        Ok(said)
    }
}

/// Moves the start times of jobs by `by` seconds in the files of hooks.
fn begin_jobs(root: &Path, start: &[(String, Entry)], by: f64) -> Result<()> {
    for (path, _) in start.iter().filter(|(path, _)| path.starts_with(HOOKS)) {
        let file = root.join(path);
        let mut record: toml::Table = fs::read_to_string(&file)?.parse()?;
        let Some(began) = record.get("start").and_then(toml::Value::as_float) else {
            bail!("{path}: expected `start = SECONDS`, with a decimal point");
        };
        record.insert("start".to_owned(), (began + by).into());
        tree::put(&file, &Entry::File(record.to_string().into_bytes()))?;
    }
    Ok(())
}

/// The files that every step contains, with their text at the start and after each step.
fn moving(start: &[(String, Entry)], steps: &[Step]) -> BTreeMap<String, Vec<String>> {
    let text = |entries: &[(String, Entry)], path: &str| {
        entries
            .iter()
            .rev()
            .find(|(p, _)| p == path)
            .and_then(|(_, e)| match e {
                Entry::File(bytes) => String::from_utf8(bytes.clone()).ok(),
                _ => None,
            })
    };
    let mut moving = BTreeMap::new();
    for (path, _) in steps.first().map_or(&[][..], |s| &s.entries) {
        let states = std::iter::once(start).chain(steps.iter().map(|s| s.entries.as_slice()));
        if let Some(texts) = states.map(|entries| text(entries, path)).collect() {
            moving.insert(path.clone(), texts);
        }
    }
    moving
}

/// Interpolates between two texts: whole numbers that increase do so in proportion to the time.
fn between(from: &str, to: &str, since: Duration, step: Duration) -> String {
    let words = |text| str::split_inclusive(text, |c: char| c.is_ascii_whitespace());
    // All other parts change at the end of the step.
    let still = if since < step { from } else { to };
    if words(from).count() != words(to).count() {
        return still.to_owned();
    }
    let number = |word: &str| word.trim_end().parse::<u64>().ok();
    let mut out = String::new();
    for ((from, to), still) in words(from).zip(words(to)).zip(words(still)) {
        match (number(from), number(to)) {
            (Some(low), Some(high)) if high > low => {
                let risen = u128::from(high - low) * since.as_millis() / step.as_millis();
                let value = u64::try_from(u128::from(low) + risen).unwrap_or(u64::MAX);
                out.push_str(&value.to_string());
                out.push_str(&to[to.trim_end().len()..]);
            }
            _ => out.push_str(still),
        }
    }
    out
}

impl Log {
    /// Replaces the log by a FIFO and writes the records from before the start to it.
    fn open(path: &Path, begins: Duration) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut waiting = records(&text).with_context(|| path.display().to_string())?;
        waiting.reverse();
        fs::remove_file(path)?;
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Independent of the umask: the reader may be another user.
        fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
        // Also open for reading, so that the FIFO keeps its content without another reader.
        let pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(path)?;
        fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(PIPE)).context("the log's pipe")?;
        let mut log = Self {
            pipe,
            begins,
            sequence: 0,
            waiting,
        };
        log.advance(Duration::ZERO)?;
        Ok(log)
    }

    /// Writes the records up to a time, and returns their messages.
    fn advance(&mut self, at: Duration) -> Result<Vec<String>> {
        let mut said = Vec::new();
        while self
            .waiting
            .last()
            .is_some_and(|(stamp, _)| *stamp <= self.begins + at)
        {
            let Some((_, record)) = self.waiting.pop() else {
                break;
            };
            self.write(&record)?;
            let message = record.lines().next().and_then(|l| l.split_once(';'));
            said.extend(message.map(|(_, text)| format!("kernel: {text}")));
        }
        Ok(said)
    }

    /// Time of its last pending record since the start.
    fn length(&self) -> Duration {
        let last = self.waiting.first();
        last.map_or(Duration::ZERO, |(at, _)| at.saturating_sub(self.begins))
    }

    fn write(&mut self, record: &str) -> Result<()> {
        let number = record.split(',').nth(1).and_then(|n| n.parse().ok());
        self.sequence = number.unwrap_or(self.sequence);
        self.pipe
            .write_all(record.as_bytes())
            .context("the log's reader is too slow: the FIFO is full")
    }
}

/// The records of a log with their time stamps. Lines that begin with a space belong to the record above.
fn records(text: &str) -> Result<Vec<(Duration, String)>> {
    let mut records: Vec<(Duration, String)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if let Some((_, record)) = records.last_mut().filter(|_| line.starts_with(' ')) {
            record.push_str(&format!("{line}\n"));
            continue;
        }
        let stamp = line.split(',').nth(2).and_then(|s| s.parse().ok());
        let Some(stamp) = stamp else {
            bail!("line {number}: {line:?}: expected `priority,sequence,microseconds,flags;text`");
        };
        records.push((Duration::from_micros(stamp), format!("{line}\n")));
    }
    Ok(records)
}

/// The file `clock.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Clock {
    step_seconds: u64,
    /// Microseconds since boot.
    kernel_log_begins: Option<u64>,
    /// Unix time of the recording.
    recorded_at: Option<u64>,
    gpu_lost: Option<u32>,
    gpu_lost_at_step: Option<usize>,
    gpus_idle: Vec<u32>,
    gpus_idle_at_step: Option<usize>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            step_seconds: STEP,
            kernel_log_begins: None,
            recorded_at: None,
            gpu_lost: None,
            gpu_lost_at_step: None,
            gpus_idle: Vec::new(),
            gpus_idle_at_step: None,
        }
    }
}

impl Clock {
    fn read(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Ok(Self::default());
        }
        let context = || path.display().to_string();
        let clock: Self = toml::from_str(&fs::read_to_string(path)?).with_context(context)?;
        let found = clock.step_seconds;
        ensure!(
            (1..=3600).contains(&found),
            "{}: step_seconds: found {found}, expected 1 to 3600",
            path.display()
        );
        Ok(clock)
    }
}

#[cfg(test)]
mod tests;
