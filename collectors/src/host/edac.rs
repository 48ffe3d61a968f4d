//! Memory errors as EDAC counts them: per memory controller, and per DIMM (or rank) where the controller can tell.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::attribute;
use super::metrics::{
    EDAC_CONTROLLER_INFO, EDAC_CORRECTED, EDAC_DIMM_CORRECTED, EDAC_DIMM_INFO, EDAC_DIMM_SIZE,
    EDAC_DIMM_UNCORRECTED, EDAC_SINCE_RESET, EDAC_UNATTRIBUTED_CORRECTED, EDAC_UNATTRIBUTED_UNCORRECTED,
    EDAC_UNCORRECTED,
};
use super::slow::Slow;
use crate::sys::root;
use crate::{Block, Device, Env, Error, Subject, SubjectKind};

const MIB: u64 = 1024 * 1024;

/// One memory controller with its DIMMs.
pub(super) struct Controller {
    subject: Subject,
    folder: PathBuf,
    inode: Option<u64>,
    name: Slow<String>,
    dimms: Vec<Dimm>,
}

/// One DIMM, or one rank where the controller's driver tells ranks apart.
struct Dimm {
    /// The name of its folder: unique within the controller, which the label that people give is not.
    name: String,
    folder: PathBuf,
    label: Slow<String>,
    size: Slow<u64>,
}

/// The folder of EDAC's memory controllers, which come and go with their driver.
pub(super) struct Controllers {
    base: PathBuf,
    /// What the last scan found, with inodes: another inode is another controller under an old name.
    found: Vec<root::Entry>,
}

impl Controllers {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            base: env.path("/sys/devices/system/edac/mc"),
            found: Vec::new(),
        }
    }

    /// The memory controllers that EDAC knows: none where no EDAC driver is loaded.
    pub(super) fn scan(&mut self) -> Result<Vec<Controller>, Error> {
        self.found = self.entries()?;
        let names = self.found.iter().map(|e| e.name.clone()).collect();
        let controllers = in_order(names, &["mc"]).into_iter().map(|name| {
            let folder = self.base.join(&name);
            Controller {
                dimms: dimms(&folder),
                inode: self.found.iter().find(|e| e.name == name).map(|e| e.inode),
                subject: Subject::new(SubjectKind::MemoryController, name),
                folder,
                name: Slow::new(),
            }
        });
        Ok(controllers.collect())
    }

    /// Whether another scan would find something else: one listing of a small folder.
    pub(super) fn changed(&self) -> bool {
        // A folder that cannot be listed now is no reason to forget what is in it.
        self.entries().is_ok_and(|now| now != self.found)
    }

    fn entries(&self) -> Result<Vec<root::Entry>, Error> {
        let mut entries = root::entries(&self.base)?.unwrap_or_default();
        entries.retain(|e| e.name.strip_prefix("mc").and_then(attribute::count).is_some());
        Ok(entries)
    }
}

fn dimms(controller: &Path) -> Vec<Dimm> {
    let names = numbered(controller, &["dimm", "rank"]).unwrap_or_else(|error| {
        tracing::warn!(%error, "DIMMs cannot be listed");
        Vec::new()
    });
    names
        .into_iter()
        .map(|name| Dimm {
            folder: controller.join(&name),
            name,
            label: Slow::new(),
            size: Slow::new(),
        })
        .collect()
}

/// The names in a folder that are one of `words` and a number, ordered by that number. No folder, no names.
fn numbered(folder: &Path, words: &[&str]) -> Result<Vec<String>, Error> {
    Ok(in_order(root::list(folder)?.unwrap_or_default(), words))
}

/// Those of the names that are one of `words` and a number, ordered by that number.
fn in_order(names: Vec<String>, words: &[&str]) -> Vec<String> {
    let mut found: Vec<(u64, String)> = names
        .into_iter()
        .filter_map(|name| {
            let number = words
                .iter()
                .find_map(|w| attribute::count(name.strip_prefix(w)?))?;
            Some((number, name))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

impl Device for Controller {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let now = Instant::now();
        let inode = root::inode(&self.folder)?;
        if inode != self.inode {
            // Its driver was loaded again, perhaps with other DIMMs.
            self.dimms = dimms(&self.folder);
            self.name = Slow::new();
            self.inode = inode;
        }
        let controller = self.subject.name.as_str();
        for (metric, file) in [
            (&EDAC_UNCORRECTED, "ue_count"),
            (&EDAC_CORRECTED, "ce_count"),
            (&EDAC_UNATTRIBUTED_UNCORRECTED, "ue_noinfo_count"),
            (&EDAC_UNATTRIBUTED_CORRECTED, "ce_noinfo_count"),
            (&EDAC_SINCE_RESET, "seconds_since_reset"),
        ] {
            out.maybe_u64(metric, &[controller], attribute::number(&self.folder.join(file)));
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
    fn read(&mut self, controller: &str, now: Instant, out: &mut Block) {
        let (name, folder) = (self.name.as_str(), &self.folder);
        for (metric, file) in [
            (&EDAC_DIMM_UNCORRECTED, "dimm_ue_count"),
            (&EDAC_DIMM_CORRECTED, "dimm_ce_count"),
        ] {
            out.maybe_u64(metric, &[controller, name], attribute::number(&folder.join(file)));
        }
        // ras-mc-ctl may name the slots after this program has started.
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
