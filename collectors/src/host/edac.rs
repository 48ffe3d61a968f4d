//! Memory errors as EDAC counts them: per memory controller, and per DIMM (or rank) if the controller's driver
//! reports it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::attribute::{self, OpenFile, OpenFiles};
use super::metrics::{
    EDAC_CONTROLLER_INFO, EDAC_CORRECTED, EDAC_DIMM_CORRECTED, EDAC_DIMM_INFO, EDAC_DIMM_SIZE,
    EDAC_DIMM_UNCORRECTED, EDAC_SINCE_RESET, EDAC_UNATTRIBUTED_CORRECTED, EDAC_UNATTRIBUTED_UNCORRECTED,
    EDAC_UNCORRECTED,
};
use super::slow::Slow;
use crate::sys::root;
use crate::{Block, Device, Env, Error, Metric, Subject, SubjectKind};

const MIB: u64 = 1024 * 1024;

/// One memory controller with its DIMMs.
pub(super) struct Controller {
    subject: Subject,
    folder: PathBuf,
    inode: Option<u64>,
    files: OpenFiles,
    counters: Vec<Counter>,
    name: Slow<String>,
    dimms: Vec<Dimm>,
}

/// A counter and its file.
type Counter = (&'static Metric, OpenFile);

/// One DIMM, or one rank if the controller's driver distinguishes ranks.
struct Dimm {
    /// The name of its folder: unique within the controller, which the label set by administrators is not.
    name: String,
    folder: PathBuf,
    counters: Vec<Counter>,
    label: Slow<String>,
    size: Slow<u64>,
}

/// The folder of EDAC's memory controllers, which are added and removed with their driver.
pub(super) struct Controllers {
    base: PathBuf,
    files: OpenFiles,
    /// The result of the last successful scan; `None` before it.
    found: Option<Vec<ControllerEntry>>,
}

/// The identity of a controller.
#[derive(PartialEq, Eq)]
struct ControllerEntry {
    /// Another inode means another controller with an old name.
    controller: root::Entry,
    /// Sorted. The kernel adds DIMMs after the controller.
    dimms: Vec<String>,
}

impl Controllers {
    pub(super) fn new(env: &Env, files: &OpenFiles) -> Self {
        Self {
            base: env.path("/sys/devices/system/edac/mc"),
            files: files.clone(),
            found: None,
        }
    }

    /// The memory controllers that EDAC knows: none without a loaded EDAC driver.
    pub(super) fn scan(&mut self) -> Result<Vec<Controller>, Error> {
        let listed = self.list()?;
        let controllers = listed
            .iter()
            .map(|ControllerEntry { controller, dimms }| {
                let mut found = Controller {
                    subject: Subject::new(SubjectKind::MemoryController, controller.name.clone()),
                    folder: self.base.join(&controller.name),
                    inode: Some(controller.inode),
                    files: self.files.clone(),
                    counters: Vec::new(),
                    name: Slow::new(),
                    dimms: Vec::new(),
                };
                found.reset(dimms);
                found
            })
            .collect();
        self.found = Some(listed);
        Ok(controllers)
    }

    /// Whether a scan has succeeded yet.
    pub(super) const fn is_known(&self) -> bool {
        self.found.is_some()
    }

    /// Whether another scan would find a difference. Lists one small folder, and one for each controller.
    pub(super) fn changed(&self) -> bool {
        // If a folder cannot be listed now, its last content is kept.
        self.list().is_ok_and(|now| self.found.as_ref() != Some(&now))
    }

    /// By number.
    fn list(&self) -> Result<Vec<ControllerEntry>, Error> {
        let entries = root::entries(&self.base)?.unwrap_or_default();
        in_order(entries, |e| &e.name, &["mc"])
            .into_iter()
            .map(|controller| {
                let dimms = dimms(&self.base.join(&controller.name))?;
                Ok(ControllerEntry { controller, dimms })
            })
            .collect()
    }
}

/// The names of a controller's DIMMs or ranks, by number.
fn dimms(controller: &Path) -> Result<Vec<String>, Error> {
    let names = root::list(controller)?.unwrap_or_default();
    Ok(in_order(names, |n| n, &["dimm", "rank"]))
}

/// Entries whose name is one of `words` and a number, ordered by that number.
fn in_order<T: Ord>(all: Vec<T>, name: impl Fn(&T) -> &str, words: &[&str]) -> Vec<T> {
    let mut found: Vec<(u64, T)> = all
        .into_iter()
        .filter_map(|one| {
            let number = words
                .iter()
                .find_map(|w| attribute::count(name(&one).strip_prefix(w)?))?;
            Some((number, one))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, one)| one).collect()
}

fn counters(files: &OpenFiles, folder: &Path, all: &[(&'static Metric, &str)]) -> Vec<Counter> {
    let counter = |(metric, file): &(&'static Metric, &str)| (*metric, files.file(folder.join(file)));
    all.iter().map(counter).collect()
}

impl Controller {
    /// Forgets what was read of the controller that had this name before.
    fn reset(&mut self, dimms: &[String]) {
        let (files, folder) = (&self.files, &self.folder);
        self.counters = counters(
            files,
            folder,
            &[
                (&EDAC_UNCORRECTED, "ue_count"),
                (&EDAC_CORRECTED, "ce_count"),
                (&EDAC_UNATTRIBUTED_UNCORRECTED, "ue_noinfo_count"),
                (&EDAC_UNATTRIBUTED_CORRECTED, "ce_noinfo_count"),
                (&EDAC_SINCE_RESET, "seconds_since_reset"),
            ],
        );
        self.name = Slow::new();
        self.dimms = dimms.iter().map(|name| Dimm::new(files, folder, name)).collect();
    }
}

impl Device for Controller {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let now = Instant::now();
        let inode = root::inode(&self.folder)?;
        if inode != self.inode {
            // Its driver was reloaded, perhaps with other DIMMs.
            self.reset(&dimms(&self.folder)?);
            self.inode = inode;
        }
        let controller = self.subject.name.as_str();
        for (metric, file) in &mut self.counters {
            out.maybe_u64(metric, &[controller], file.number());
        }
        let folder = &self.folder;
        if let Some(name) = self.name.get(now, || attribute::label(&folder.join("mc_name"))) {
            out.info(&EDAC_CONTROLLER_INFO, &[controller, name]);
        }
        for dimm in &mut self.dimms {
            dimm.read(controller, now, out);
        }
        Ok(())
    }
}

impl Dimm {
    fn new(files: &OpenFiles, controller: &Path, name: &str) -> Self {
        let folder = controller.join(name);
        let all = [
            (&EDAC_DIMM_UNCORRECTED, "dimm_ue_count"),
            (&EDAC_DIMM_CORRECTED, "dimm_ce_count"),
        ];
        Self {
            counters: counters(files, &folder, &all),
            folder,
            name: name.to_owned(),
            label: Slow::new(),
            size: Slow::new(),
        }
    }

    fn read(&mut self, controller: &str, now: Instant, out: &mut Block) {
        let (name, folder) = (self.name.as_str(), &self.folder);
        for (metric, file) in &mut self.counters {
            out.maybe_u64(metric, &[controller, name], file.number());
        }
        // ras-mc-ctl may name the slots after this program started.
        if let Some(label) = self
            .label
            .get(now, || attribute::label(&folder.join("dimm_label")))
        {
            out.info(&EDAC_DIMM_INFO, &[controller, name, label]);
        }
        let size = self
            .size
            .get(now, || attribute::number(&folder.join("size"))?.checked_mul(MIB));
        out.maybe_u64(&EDAC_DIMM_SIZE, &[controller, name], size.copied());
    }
}
