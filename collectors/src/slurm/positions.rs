//! Positions in gres.conf, turned into devices. A wrong device would be worse than none: in doubt, the result is
//! unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::caps;
use super::gres::{self, Position};
use super::slurmd;
use crate::device_files::{self, DeviceFiles};
use crate::sys::root;
use crate::{Env, Error};

/// Paths of gres.conf: Slurm's default, and the one written by a slurmd that gets its configuration from the
/// controller.
const PLACES: [&str; 2] = ["/etc/slurm/gres.conf", "/run/slurm/conf/gres.conf"];
/// Maximum size of gres.conf, in bytes.
const LONGEST: u64 = 1 << 20;
/// How often slurmd is looked for.
const PERIOD: Duration = Duration::from_secs(10);
/// Accuracy of comparing the start of a process with the change of a file, in seconds.
const ROUGH: f64 = 0.2;
/// How long after its start a slurmd without configuration files may get them from the controller, in seconds.
const FETCHED: f64 = 60.0;

/// The origin of positions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PositionContext<'a> {
    /// The name of this node, if known.
    pub(super) node: Option<&'a str>,
    /// The slurm.conf of the slurmd that assigned them, if reported.
    pub(super) conf: Option<&'a str>,
    /// When they were assigned, as Unix time.
    pub(super) at: Option<f64>,
}

/// gres.conf, and the errors already logged.
#[derive(Debug)]
pub(super) struct Positions {
    env: Env,
    configured: Option<String>,
    /// The content of each file, and its first time of change, as Unix time.
    known: BTreeMap<String, (String, f64)>,
    /// When slurmd was looked for, for which node, and when it started.
    slurmd: Option<(Instant, Option<String>, Option<f64>)>,
    logged: BTreeSet<String>,
}

impl Positions {
    pub(super) fn new(env: &Env, configured: Option<String>) -> Self {
        Self {
            env: env.clone(),
            configured,
            known: BTreeMap::new(),
            slurmd: None,
            logged: BTreeSet::new(),
        }
    }

    /// The devices at these positions. `None`: unknown, which is logged once.
    pub(super) fn devices(&mut self, positions: &[usize], about: PositionContext<'_>) -> Option<Vec<String>> {
        match self.find(positions, about) {
            Ok(devices) => Some(devices),
            Err(error) => {
                self.tell(&error);
                None
            }
        }
    }

    /// Logs an error once.
    pub(super) fn tell(&mut self, error: &Error) {
        const MOST: usize = 64;
        let error = error.to_string();
        if self.logged.len() < MOST && self.logged.insert(error.clone()) {
            tracing::warn!(error, "the positions of GPUs in gres.conf are unusable");
        }
    }

    fn find(&mut self, positions: &[usize], about: PositionContext<'_>) -> Result<Vec<String>, Error> {
        let file = self.file(about.conf)?;
        let mut texts = String::new();
        let mut changed = 0.0_f64;
        let mut read = |path: &str| -> Result<String, Error> {
            let at = self.env.path(path);
            let text = root::read_text_within(&at, LONGEST)?;
            let text = text.ok_or_else(|| Error::parse(path, "no file", "a gres.conf"))?;
            if self.env.is_live() {
                changed = changed.max(root::changed(&at)?.unwrap_or(f64::MAX));
            }
            texts.push_str(&text);
            texts.push('\0');
            Ok(text)
        };
        let text = read(&file)?;
        let mut included = |by: &str, name: &str| {
            let path = beside(by, name);
            read(&path).map(|text| (path, text))
        };
        let all = gres::positions(&file, &text, about.node, &mut included)?;
        let since = match self.known.get(&file) {
            Some((known, since)) if *known == texts => *since,
            _ => changed,
        };
        self.known.insert(file.clone(), (texts, since));
        if self.env.is_live() {
            self.check_age(&file, since, about)?;
        }
        // Slurm's own tests use this file to replace the GPUs of a node.
        let fake = beside(&file, "fake_gpus.conf");
        if root::inode(&self.env.path(&fake))?.is_some() {
            return Err(Error::parse(fake, "a file", "no such file"));
        }
        let mut found = Vec::new();
        let last = positions.iter().max().copied().unwrap_or_default();
        for (at, position) in all.iter().enumerate().take(last.saturating_add(1)) {
            // slurmd omits a file that is no device, so that all later ones have another position.
            let numbers = self.numbers(position)?;
            if positions.contains(&at) {
                found.extend(self.names(position, &numbers)?);
            }
        }
        if last >= all.len() {
            let found = format!("position {last}");
            return Err(Error::parse(
                file,
                &found,
                "as many devices as positions are given",
            ));
        }
        Ok(found)
    }

    /// Whether positions refer to the file's current content: the slurmd that assigned them read it since.
    fn check_age(&mut self, file: &str, changed: f64, about: PositionContext<'_>) -> Result<(), Error> {
        let now = Instant::now();
        let node = about.node.map(str::to_owned);
        let known = self
            .slurmd
            .take()
            .filter(|(looked, of, _)| now.saturating_duration_since(*looked) < PERIOD && *of == node);
        let (looked, node, slurmd) =
            known.unwrap_or_else(|| (now, node, slurmd::since(&self.env, about.node)));
        self.slurmd = Some((looked, node, slurmd));
        let patience = if is_fetched(file) { FETCHED } else { ROUGH };
        let found = match (slurmd, about.at) {
            (None, _) => "no running slurmd of this node",
            (Some(slurmd), _) if slurmd + patience < changed => "changed after slurmd started",
            (Some(slurmd), Some(at)) if slurmd <= at + ROUGH && changed > at + 2.0 * ROUGH => {
                "changed after the job began"
            }
            (Some(slurmd), Some(at)) if slurmd <= at + ROUGH => return Ok(()),
            _ => "a slurmd that started after the job",
        };
        Err(Error::parse(
            file,
            found,
            "the file that slurmd read before the job began",
        ))
    }

    /// The path of gres.conf.
    fn file(&self, conf: Option<&str>) -> Result<String, Error> {
        if let Some(configured) = &self.configured {
            return Ok(configured.clone());
        }
        if let Some(conf) = conf {
            return Ok(beside(conf, "gres.conf"));
        }
        let mut found = Vec::new();
        for place in PLACES {
            if let Some(text) = root::read_text_within(&self.env.path(place), LONGEST)? {
                found.push((place, text));
            }
        }
        if let [(place, text), others @ ..] = found.as_slice() {
            // Which of them slurmd uses is unknown.
            if others.iter().any(|(_, other)| other != text) {
                return Err(Error::parse(
                    PLACES.join(", "),
                    "two files that differ",
                    "one, or slurm.jobs.gres_conf",
                ));
            }
            return Ok((*place).to_owned());
        }
        Err(Error::parse(
            PLACES.join(", "),
            "no file",
            "a gres.conf, or slurm.jobs.gres_conf",
        ))
    }

    /// Major and minor number of each file of a position.
    fn numbers(&self, position: &Position) -> Result<Vec<(u32, u32)>, Error> {
        let files = match position {
            Position::One(file) => std::slice::from_ref(file),
            Position::Several(files) => files.as_slice(),
        };
        let numbers = |file: &String| {
            let numbers = device(&self.env, file)?;
            numbers.ok_or_else(|| Error::parse(file.as_str(), "none", "a character device"))
        };
        files.iter().map(numbers).collect()
    }

    /// The kernel's name of a position.
    fn names(&self, position: &Position, numbers: &[(u32, u32)]) -> Result<Vec<String>, Error> {
        let error = |file: &str, expected| {
            let found: Vec<String> = numbers
                .iter()
                .map(|(major, minor)| format!("{major}:{minor}"))
                .collect();
            Error::parse(file, &found.join(", "), expected)
        };
        let gpus: Vec<(&DeviceFiles, u32)> = numbers
            .iter()
            .filter_map(|number| Some((DeviceFiles::of_number(*number)?, number.1)))
            .collect();
        match (position, gpus.as_slice()) {
            (Position::One(_), [(files, gpu)]) => Ok(vec![files.name(gpu)]),
            (Position::One(file), _) => Err(error(file, "a GPU")),
            // Beside them may be the cards of the same GPU.
            (Position::Several(_), [(of, _), ..]) if of.of_partitions && is_all_of(of, numbers) => {
                Ok(gpus.iter().map(|(files, gpu)| files.name(gpu)).collect())
            }
            (Position::Several(files), [(_, gpu)]) => {
                let file = files.first().map(String::as_str).unwrap_or_default();
                let instances = self.instances(*gpu, numbers)?;
                instances.ok_or_else(|| error(file, "a GPU and what gives access to one instance of it"))
            }
            (Position::Several(files), _) => {
                let file = files.first().map(String::as_str).unwrap_or_default();
                Err(error(file, "one GPU and what gives access to one instance of it"))
            }
        }
    }

    /// The compute instances to which the other files beside the GPU's own give access. `None`: none, or the driver
    /// does not list one of them, or lists it for another GPU.
    fn instances(&self, gpu: u32, numbers: &[(u32, u32)]) -> Result<Option<Vec<String>>, Error> {
        let major = caps::major(&self.env)?.and_then(|major| u32::try_from(major).ok());
        let table = caps::instances(&self.env)?;
        let mut found = Vec::new();
        for (of, minor) in numbers.iter().filter(|n| !device_files::NVIDIA.has(**n)) {
            let known = table
                .get(minor)
                .filter(|(owner, ..)| Some(*of) == major && *owner == gpu);
            let Some((_, gi, ci)) = known else {
                return Ok(None);
            };
            found.extend(ci.map(|ci| format!("nvidia{gpu}/{gi}/{ci}")));
        }
        Ok((!found.is_empty()).then_some(found))
    }
}

/// Whether all numbers are of one driver's files.
fn is_all_of(files: &DeviceFiles, numbers: &[(u32, u32)]) -> bool {
    let mut majors = numbers.iter().map(|(major, _)| i32::try_from(*major));
    majors.all(|major| major == Ok(files.major))
}

/// Whether a slurmd wrote the file itself, with what its controller sent.
fn is_fetched(file: &str) -> bool {
    let folder = Path::new(file).parent();
    folder.is_some_and(|folder| folder.ends_with("conf-cache") || folder == Path::new("/run/slurm/conf"))
}

/// A path relative to the folder of another file, unless it is absolute.
fn beside(file: &str, name: &str) -> String {
    let folder = Path::new(file).parent().unwrap_or(Path::new("/"));
    folder.join(name).display().to_string()
}

/// Major and minor number of a device file. A recording has a text instead: `195:3`.
fn device(env: &Env, file: &str) -> Result<Option<(u32, u32)>, Error> {
    let path = env.path(file);
    if env.is_live() {
        return root::device(&path);
    }
    let text = root::read_text(&path)?;
    Ok(text.and_then(|text| {
        let (major, minor) = text.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }))
}

#[cfg(test)]
mod tests;
