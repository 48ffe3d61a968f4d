//! What a worker leaves to the next one: what the GPUs are called. One that is lost in between can no longer be asked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::identity::is_uuid;
use crate::gpu::identity::Identity;
use crate::{BootId, PciAddress};

/// The notes, as TOML.
#[derive(Serialize, Deserialize)]
struct Notes {
    /// Of this boot: in another one, another part may be at the address.
    boot: BootId,
    gpus: Vec<Identity>,
}

/// GPUs that are noted: more than any node has.
const MOST: usize = 64;

/// The longest text that is noted, in bytes: NVML's own buffers are shorter.
const LONGEST: usize = 128;

/// Notes the GPUs that a driver has named.
pub(super) fn write<'a>(boot: &BootId, gpus: impl Iterator<Item = &'a Identity>) -> Option<String> {
    let notes = Notes {
        boot: boot.clone(),
        gpus: gpus.filter(|gpu| is_one(gpu)).take(MOST).cloned().collect(),
    };
    toml::to_string(&notes).ok()
}

/// The GPUs that were noted in this boot. The notes have been out of our hands: what is no GPU is left.
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
    let mut places = BTreeSet::new();
    let mut gpus = notes.gpus;
    gpus.retain(|gpu| is_one(gpu) && places.insert(gpu.pci.clone()));
    gpus.truncate(MOST);
    gpus
}

/// Whether it has a name and a place, and nothing of it is beyond reason.
fn is_one(gpu: &Identity) -> bool {
    let at = PciAddress::parse(&gpu.pci).is_some_and(|pci| pci.0 == gpu.pci);
    is_uuid(&gpu.gpu) && at && gpu.texts().iter().all(|text| text.len() <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";

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

    fn text(gpus: &[Identity]) -> String {
        let notes = Notes {
            boot: boot(1),
            gpus: gpus.to_vec(),
        };
        toml::to_string(&notes).unwrap()
    }

    #[test]
    fn what_a_driver_named_is_noted_and_read_back_in_the_same_boot() {
        let named = gpu(UUID, "0000:3b:00.0");
        let nameless = gpu("pci:0000:5e:00.0", "0000:5e:00.0");
        let text = write(&boot(1), [&named, &nameless].into_iter()).unwrap();
        assert_eq!(read(&boot(1), &text), [named]);
        assert_eq!(read(&boot(2), &text), [], "another boot, perhaps another part");
        assert_eq!(read(&boot(1), &write(&boot(1), [].into_iter()).unwrap()), []);
    }

    #[test]
    fn what_is_no_gpu_is_left() {
        assert_eq!(read(&boot(1), "boot = 3"), []);
        assert_eq!(read(&boot(1), "{}"), []);
        let long = Identity {
            serial: "1".repeat(LONGEST + 1),
            ..gpu(UUID, "0000:3b:00.0")
        };
        for odd in [
            gpu("GPU-x", "0000:3b:00.0"),
            gpu(UUID, "3b:0"),
            gpu(UUID, ""),
            long,
        ] {
            assert_eq!(read(&boot(1), &text(std::slice::from_ref(&odd))), [], "{odd:?}");
            assert_eq!(read(&boot(1), &write(&boot(1), [&odd].into_iter()).unwrap()), []);
        }
    }

    #[test]
    fn there_is_one_gpu_at_an_address_and_no_more_than_a_node_has() {
        let twice = [gpu(UUID, "0000:3b:00.0"), gpu(UUID, "0000:3b:00.0")];
        assert_eq!(read(&boot(1), &text(&twice)).len(), 1);
        let many: Vec<Identity> = (0..255)
            .map(|n| gpu(UUID, &format!("0000:{n:02x}:00.0")))
            .collect();
        assert_eq!(read(&boot(1), &text(&many)).len(), MOST);
        // As long as they may be, they are not too long for the daemon.
        let longest = |n: usize| Identity {
            serial: "1".repeat(LONGEST),
            name: "2".repeat(LONGEST),
            ..gpu(UUID, &format!("0000:{n:02x}:00.0"))
        };
        let many: Vec<Identity> = (0..255).map(longest).collect();
        assert!(write(&boot(1), many.iter()).unwrap().len() < 64 * 1024);
    }
}
