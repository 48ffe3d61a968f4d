//! The slurmd whose node was proven in this boot. Its node may be drained while no slurmd runs; while it runs, slurmctld needs
//! no boot time of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use collectors::sys::root;
use serde::{Deserialize, Serialize};

use super::disk::RecordDisk;
use super::find::{Boot, LocalSlurmd};
use sys::{dirs, files, store};

/// Its name, in the parent's folder of the state directory.
const FILE: &str = "slurmd";

/// The proven slurmd, in memory and in a file that outlives the parent. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SeenSlurmd {
    file: Option<PathBuf>,
    boot: String,
    slurmd: Arc<Mutex<Option<LocalSlurmd>>>,
    disk: RecordDisk,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    boot: String,
    node_name: String,
    conf: Option<PathBuf>,
    exe: Option<PathBuf>,
    /// Earlier records lack it.
    #[serde(default)]
    reported: Boot,
}

impl SeenSlurmd {
    /// Of this boot. What an earlier boot stored is not used. May block with the disk.
    pub fn of(state_dir: &Path) -> Self {
        let boot = root::read_text(Path::new("/proc/sys/kernel/random/boot_id"));
        let boot = boot.ok().flatten().unwrap_or_default().trim().to_owned();
        let file = dirs::own(state_dir).ok().map(|folder| folder.join(FILE));
        let stored = file
            .as_deref()
            .and_then(|file| store::load_own(file).ok().flatten());
        let stored = stored.and_then(|text| serde_json::from_str::<Stored>(&text).ok());
        let slurmd = stored
            .filter(|stored| !boot.is_empty() && stored.boot == boot)
            .map(|stored| LocalSlurmd {
                node_name: stored.node_name,
                conf: stored.conf,
                exe: stored.exe,
                process: None,
                boot: stored.reported,
            });
        Self {
            file,
            boot,
            slurmd: Arc::new(Mutex::new(slurmd)),
            disk: RecordDisk::default(),
        }
    }

    fn slurmd(&self) -> MutexGuard<'_, Option<LocalSlurmd>> {
        self.slurmd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that was proven, without its process; `wanted`: only of this node.
    pub fn get(&self, wanted: Option<&str>) -> Option<LocalSlurmd> {
        let own = |slurmd: &&LocalSlurmd| wanted.is_none_or(|name| name == slurmd.node_name);
        self.slurmd().as_ref().filter(own).cloned()
    }

    /// Whether the node of this slurmd was proven, by this process of it or an earlier one, also of another version.
    pub fn is(&self, slurmd: &LocalSlurmd) -> bool {
        let is_it = |seen: &LocalSlurmd| seen.node_name == slurmd.node_name && seen.conf == slurmd.conf;
        self.slurmd().as_ref().is_some_and(is_it)
    }

    /// Its node was booted at another time than this machine: nothing is proven any more.
    pub fn forget(&mut self) {
        let was_any = self.slurmd().take().is_some();
        if let Some(file) = self.file.clone().filter(|_| was_any) {
            self.disk.change(move || {
                if let Err(e) = files::remove(&file) {
                    tracing::warn!(path = %file.display(), error = %e, "cannot remove which slurmd is this node's");
                }
            });
        }
    }

    /// This one is proven.
    pub fn set(&mut self, slurmd: &LocalSlurmd) {
        let slurmd = LocalSlurmd {
            process: None,
            ..slurmd.clone()
        };
        if self.slurmd().as_ref() == Some(&slurmd) {
            return;
        }
        let stored = Stored {
            boot: self.boot.clone(),
            node_name: slurmd.node_name.clone(),
            conf: slurmd.conf.clone(),
            exe: slurmd.exe.clone(),
            reported: slurmd.boot,
        };
        *self.slurmd() = Some(slurmd);
        let text = serde_json::to_string(&stored).unwrap_or_default();
        if let Some(file) = self.file.clone().filter(|_| !self.boot.is_empty()) {
            self.disk.change(move || {
                if let Err(e) = store::replace(&file, text.as_bytes(), 0o600, false) {
                    tracing::warn!(path = %file.display(), error = %e, "cannot store which slurmd is this node's");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slurmd(process: Option<(u32, u64)>) -> LocalSlurmd {
        LocalSlurmd {
            node_name: "n0".to_owned(),
            conf: Some("/etc/slurm/slurm.conf".into()),
            exe: None,
            process,
            boot: Boot::Machine,
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test damages a file")]
    fn it_outlives_the_parent_but_not_the_boot() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = SeenSlurmd::of(dir.path());
        assert_eq!(seen.get(None), None);
        seen.set(&slurmd(Some((8, 9))));
        assert_eq!(SeenSlurmd::of(dir.path()).get(Some("n0")), Some(slurmd(None)));
        let later = SeenSlurmd::of(dir.path());
        let upgraded = LocalSlurmd {
            exe: Some("/opt/slurm-24.05/sbin/slurmd".into()),
            ..slurmd(Some((9, 10)))
        };
        assert!(later.is(&upgraded), "another process and version");
        let other = LocalSlurmd {
            conf: Some("/etc/slurm/other.conf".into()),
            ..slurmd(None)
        };
        assert!(!seen.is(&other), "the same name in another cluster");
        assert_eq!(seen.get(Some("n1")), None, "the site names another node");
        let file = seen.file.unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(&seen.boot, "another-boot")).unwrap();
        assert_eq!(SeenSlurmd::of(dir.path()).get(None), None);
        std::fs::write(&file, "{").unwrap();
        assert_eq!(SeenSlurmd::of(dir.path()).get(None), None);
    }

    #[test]
    fn what_was_forgotten_stays_forgotten_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = SeenSlurmd::of(dir.path());
        seen.set(&slurmd(None));
        seen.forget();
        assert!(!seen.is(&slurmd(None)));
        assert!(!SeenSlurmd::of(dir.path()).is(&slurmd(None)));
        seen.set(&slurmd(None));
        assert!(SeenSlurmd::of(dir.path()).is(&slurmd(None)));
    }
}
