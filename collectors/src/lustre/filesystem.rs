//! One filesystem: its mounts, summed. Most clients have one mount of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::files::{self, LustreFiles, Place};
use super::metrics as m;
use super::mount::Mount;
use super::name::{self, TargetKind};
use super::push::{Push, TargetRoom};
use super::sources::VERSION;
use super::sums::Sums;
use crate::text::printable;
use crate::{Block, Device, Env, Error, Subject, SubjectKind};

/// One filesystem. A new list of devices has a new object with the same state, so that counters go on.
pub(super) struct FilesystemDevice {
    subject: Subject,
    mount_point: String,
    env: Env,
    state: Arc<Mutex<FilesystemState>>,
    room: TargetRoom,
}

/// What readings of a filesystem leave for the next one.
#[derive(Debug)]
pub(super) struct FilesystemState {
    fs: String,
    files: LustreFiles,
    mounts: BTreeMap<String, Mount>,
    sums: Sums,
}

impl FilesystemState {
    pub(super) fn new(env: &Env, fs: &str, with_targets: bool) -> Self {
        let sums = Sums {
            targets: with_targets.then(BTreeMap::new),
            ..Sums::default()
        };
        Self {
            fs: fs.to_owned(),
            files: LustreFiles::new(env),
            mounts: BTreeMap::new(),
            sums,
        }
    }

    /// Forgets mounts that are gone, and adds new ones.
    fn list(&mut self, env: &Env) -> Result<(), Error> {
        let devices = files::devices(env, "llite")?;
        let found = devices.iter().filter_map(|device| name::mount(device));
        let ours: Vec<&str> = found.filter(|(fs, _)| *fs == self.fs).map(|(_, id)| id).collect();
        self.mounts
            .retain(|instance, _| ours.contains(&instance.as_str()));
        for instance in ours {
            let new = || Mount::new(&self.fs, instance);
            self.mounts.entry(instance.to_owned()).or_insert_with(new);
        }
        Ok(())
    }
}

impl FilesystemDevice {
    pub(super) fn new(
        env: &Env,
        fs: &str,
        mount_point: &str,
        state: Arc<Mutex<FilesystemState>>,
        room: TargetRoom,
    ) -> Self {
        Self {
            subject: Subject::new(SubjectKind::Filesystem, fs),
            mount_point: mount_point.to_owned(),
            env: env.clone(),
            state,
            room,
        }
    }
}

impl Device for FilesystemDevice {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.list(&self.env)?;
        let FilesystemState {
            fs,
            files,
            mounts,
            sums,
        } = &mut *state;
        if mounts.is_empty() {
            return Ok(());
        }
        files.begin();
        let version = files.read(&VERSION, Place::ROOT, version).unwrap_or_default();
        let [mdc, osc] = TargetKind::ALL.map(|kind| files::devices(&self.env, kind.subsystem()));
        let (mdc, osc) = (mdc?, osc?);
        for mount in mounts.values_mut() {
            mount.read(files, sums, [&mdc, &osc]);
        }
        // Of several instances, which one is mounted there is unknown: others may be in other mount namespaces.
        let point = if mounts.len() == 1 { &self.mount_point } else { "" };
        for instance in mounts.keys() {
            out.info(&m::CLIENT_INFO, &[fs, instance, point, &version]);
        }
        let mut push = Push {
            fs,
            sums,
            mounts,
            out,
        };
        push.operations();
        push.cache();
        push.targets();
        push.requests();
        push.space();
        push.each_target(self.room);
        files.push(fs, out);
        Ok(())
    }
}

/// `lustre: 2.10.1` and lines about the build, or `2.15.4`.
pub(super) fn version(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let version = line.strip_prefix("lustre:").unwrap_or(line).trim();
    (!version.is_empty()).then(|| printable(version.as_bytes(), 64))
}
