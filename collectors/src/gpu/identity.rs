//! The name of a GPU, and its properties that stay the same while the driver has it.

use serde::{Deserialize, Serialize};

use super::metrics as m;
use crate::sys::root;
use crate::{Block, Env};

/// The properties of a GPU, known whether it answers or not. Unknown ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The `gpu` label of its series: `GPU-<id>`, or `pci:<address>` without one, or `index:<number>` without both.
    pub(crate) gpu: String,
    /// In sysfs format.
    pub(crate) pci: String,
    /// Its position among the GPUs of the driver.
    pub(crate) index: String,
    /// The minor number of its device file: of `/dev/nvidia<N>`, or of `/dev/dri/renderD<N>`.
    pub(crate) minor: String,
    pub(crate) name: String,
    pub(crate) serial: String,
    pub(crate) part: String,
    pub(crate) vbios: String,
    pub(crate) driver: String,
    pub(crate) architecture: String,
}

impl Identity {
    /// Pushes all of them. `vendor`: `nvidia` or `amd`.
    pub(crate) fn push_info(&self, vendor: &str, out: &mut Block) {
        let i = self;
        out.info(
            &m::INFO,
            &[
                &i.gpu,
                vendor,
                &i.name,
                &i.pci,
                &i.index,
                &i.minor,
                &i.serial,
                &i.part,
                &i.vbios,
                &i.driver,
                &i.architecture,
            ],
        );
    }
}

/// The node's name, for the pages of other exporters. Empty if it cannot be read.
pub(crate) fn hostname(env: &Env) -> String {
    let name = root::read_text(&env.path("/proc/sys/kernel/hostname"));
    name.ok().flatten().unwrap_or_default()
}

/// The label of a GPU that no driver has named.
pub(crate) fn nameless(pci: &str) -> String {
    format!("pci:{pci}")
}
