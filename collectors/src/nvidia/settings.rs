//! `[nvidia]`.

use crate::settings::Kind;
use crate::{Error, Settings};

crate::keys! {
    pub(super) KEYS;
    LIBRARY = "nvidia.library": Kind::Text {
            what: "the name or path of a library",
            fits: |text| !text.is_empty() && !text.contains('\0'),
        }, default "\"libnvidia-ml.so.1\"", since "0.1.0",
        "The driver's library, by name or path.";
    GPM = "nvidia.gpm": Kind::Boolean, default "true", since "0.1.0",
        "Read utilization of the units of a GPU (GPM), on Hopper and newer.";
    PROCESSES = "nvidia.processes": Kind::Boolean, default "false", since "0.1.0",
        "Serve one series for each process on a GPU. Processes are always read, to find the job that uses it.";
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct NvidiaSettings {
    /// The library, by name or path.
    pub(super) library: String,
    /// Whether the site named it.
    pub(super) named: bool,
    pub(super) gpm: bool,
    pub(super) processes: bool,
}

impl NvidiaSettings {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            library: settings.get(&LIBRARY)?,
            named: settings.is_set(&LIBRARY),
            gpm: settings.get(&GPM)?,
            processes: settings.get(&PROCESSES)?,
        })
    }
}
