//! What a worker leaves to the next one: what the GPUs are called. One that is lost in between can no longer be asked.

use serde::{Deserialize, Serialize};

use super::identity::{Identity, is_uuid};
use crate::{BootId, PciAddress};

/// The notes, as TOML.
#[derive(Serialize, Deserialize)]
struct Notes {
    /// Of this boot: in another one, another part may be at the address.
    boot: BootId,
    #[serde(default)]
    gpus: Vec<Identity>,
}

/// Notes the GPUs that a driver has named.
pub(super) fn write<'a>(boot: &BootId, gpus: impl Iterator<Item = &'a Identity>) -> Option<String> {
    let notes = Notes {
        boot: boot.clone(),
        gpus: gpus.filter(|gpu| is_uuid(&gpu.gpu)).cloned().collect(),
    };
    toml::to_string(&notes).ok()
}

/// The GPUs that were noted in this boot, as far as they are GPUs.
pub(super) fn read(boot: &BootId, text: &str) -> Vec<Identity> {
    let notes: Notes = match toml::from_str(text) {
        Ok(notes) => notes,
        Err(error) => {
            tracing::warn!(%error, "what an earlier worker noted is not used");
            return Vec::new();
        }
    };
    if notes.boot != *boot {
        return Vec::new();
    }
    let is_gpu = |gpu: &Identity| {
        let at = PciAddress::parse(&gpu.pci).is_some_and(|pci| pci.0 == gpu.pci);
        is_uuid(&gpu.gpu) && (at || gpu.pci.is_empty())
    };
    notes.gpus.into_iter().filter(is_gpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(n: u8) -> BootId {
        BootId(format!("6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f{n}"))
    }

    fn gpu(label: &str, pci: &str) -> Identity {
        Identity {
            gpu: label.to_owned(),
            pci: pci.to_owned(),
            name: "NVIDIA \"H100\"\n80GB".to_owned(),
            architecture: "hopper".to_owned(),
            ..Identity::default()
        }
    }

    #[test]
    fn what_a_driver_named_is_noted_and_read_back_in_the_same_boot() {
        let named = gpu("GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4", "0000:3b:00.0");
        let nameless = gpu("pci:0000:5e:00.0", "0000:5e:00.0");
        let text = write(&boot(1), [&named, &nameless].into_iter()).unwrap();
        assert_eq!(read(&boot(1), &text), [named]);
        assert_eq!(read(&boot(2), &text), [], "another boot, perhaps another part");
        assert_eq!(read(&boot(1), &write(&boot(1), [].into_iter()).unwrap()), []);
    }

    #[test]
    fn what_is_no_note_is_left() {
        assert_eq!(read(&boot(1), "boot = 3"), []);
        assert_eq!(read(&boot(1), "{}"), []);
        let odd = [
            gpu("GPU-x", "0000:3b:00.0"),
            gpu("GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4", "3b:0"),
        ];
        let notes = Notes {
            boot: boot(1),
            gpus: odd.to_vec(),
        };
        assert_eq!(read(&boot(1), &toml::to_string(&notes).unwrap()), []);
    }
}
