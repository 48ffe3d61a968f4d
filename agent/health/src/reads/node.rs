//! The node as one machine, from the host collector's series: its memory, CPUs, modules and mounts.

use std::collections::BTreeMap;
use std::path::Path;

use collectors::Metric;
use collectors::host::metrics::{CPUS_ONLINE, MEMORY_TOTAL, MODULES_INFO, MOUNT_INFO, MOUNTS};

use model::snapshot::{Sample, Snapshot};

/// The machine in one snapshot. `None`: not read.
#[derive(Debug, Default)]
pub(crate) struct Node<'a> {
    pub(crate) memory: Option<Sample<'a>>,
    pub(crate) cpus: Option<Sample<'a>>,
    /// All loaded modules.
    modules: Option<Sample<'a>>,
    /// The number of mounts. `None`: the table was not read to its end.
    pub(crate) mounts: Option<Sample<'a>>,
    /// The mounts, by mount point.
    points: BTreeMap<&'a str, Sample<'a>>,
}

impl<'a> Node<'a> {
    /// Reads a snapshot.
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let mut node = Self::default();
        for sample in snapshot.samples_of("host") {
            let is = |metric: &'static Metric| sample.metric == metric;
            let field = match () {
                () if is(&MEMORY_TOTAL) => &mut node.memory,
                () if is(&CPUS_ONLINE) => &mut node.cpus,
                () if is(&MODULES_INFO) => &mut node.modules,
                () if is(&MOUNTS) => &mut node.mounts,
                () if is(&MOUNT_INFO) => {
                    let point = sample.label("mount_point").unwrap_or_default();
                    node.points.insert(point, sample);
                    continue;
                }
                () => continue,
            };
            *field = Some(sample);
        }
        node
    }

    /// The names of the loaded modules, and their series. `None`: not read.
    pub(crate) fn modules(&self) -> Option<(Vec<&'a str>, &Sample<'a>)> {
        let sample = self.modules.as_ref()?;
        let names = sample.label("modules")?;
        Some((names.split(',').filter(|name| !name.is_empty()).collect(), sample))
    }

    /// The mounts: mount point, filesystem type, and the mounted folder.
    pub(crate) fn mounted(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let label = |sample: &Sample<'a>, name| sample.label(name).unwrap_or_default();
        let points = self.points.iter();
        points.map(move |(point, sample)| (*point, label(sample, "fs_type"), label(sample, "root")))
    }

    /// The filesystem type of the next mount above a path.
    pub(crate) fn type_above(&self, path: &str) -> Option<&'a str> {
        let mut folders = Path::new(path).ancestors().skip(1);
        let above = folders.find_map(|folder| self.points.get(folder.to_str()?))?;
        above.label("fs_type")
    }

    /// The series of one mount.
    pub(crate) fn mount(&self, point: &str) -> Option<&Sample<'a>> {
        self.points.get(point)
    }
}
