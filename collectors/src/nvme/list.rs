//! The list of controllers as a device of its own: files of sysfs that send no command to a drive.

use super::metrics::{INFO, OMITTED, STATE};
use super::{controller, label};
use crate::{Block, Device, Env, Error, Subject};

/// The words of `nvme_sysfs_show_state()` (drivers/nvme/host/sysfs.c).
const STATES: [&str; 7] = [
    "new",
    "live",
    "resetting",
    "connecting",
    "deleting",
    "deleting (no IO)",
    "dead",
];

/// The device.
pub(super) struct List {
    env: Env,
    subject: Subject,
    /// Local drives above the limit.
    omitted: usize,
}

impl List {
    pub(super) fn new(env: &Env, omitted: usize) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::node(),
            omitted,
        }
    }
}

impl Device for List {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        out.u64(&OMITTED, &[], self.omitted as u64);
        for found in controller::all(&self.env)? {
            let folder = found.folder(&self.env);
            let [device, pci] = found.labels();
            let [model, firmware, serial] =
                ["model", "firmware_rev", "serial"].map(|file| label(&folder.join(file)));
            let transport = found.transport.as_str();
            out.info(&INFO, &[device, pci, &model, &firmware, &serial, transport]);
            let state = label(&folder.join("state"));
            // Linux before 4.20 has no such file.
            if !state.is_empty() {
                let word = STATES.iter().find(|word| **word == state);
                out.u64(&STATE, &[device, pci, word.copied().unwrap_or("unknown")], 1);
            }
        }
        Ok(())
    }
}
