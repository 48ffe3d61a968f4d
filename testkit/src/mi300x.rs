//! A made-up node with divided MI300X, from the recording of one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::tree;

/// Partitions of each GPU of the recording.
const PARTITIONS: usize = 8;
/// The process of the recording.
const FIRST_PID: usize = 500;

/// KFD's number of a partition. That of the recording is its first GPU's.
fn kfd_id(gpu: usize, part: usize) -> usize {
    30_000 + 100 * gpu + part
}

/// Writes a tree with this number of GPUs. `case`: the folder of the recording, `fixtures/amd/mi300x-cpx`.
///
/// # Errors
/// A recording with other numbers, or a file that cannot be read or written.
pub fn divided(case: &Path, root: &Path, gpus: usize) -> Result<()> {
    let file = case.join("root.tree");
    let name = file.display().to_string();
    let text = fs::read_to_string(&file).with_context(|| name.clone())?;
    ensure!(gpus <= PARTITIONS, "{gpus} GPUs, expected at most {PARTITIONS}");
    // KFD has a file of each process for every partition of the node.
    for process in 0..gpus {
        for partition in 0..gpus * PARTITIONS {
            let (gpu, part) = (partition / PARTITIONS, partition % PARTITIONS);
            let file = format!(
                "sys/class/kfd/kfd/proc/{}/vram_{}",
                FIRST_PID + process,
                kfd_id(gpu, part)
            );
            tree::put(&root.join(file), &tree::Entry::File(b"0\n".to_vec()))?;
        }
    }
    for gpu in 0..gpus {
        let of_gpu = numbered(&text, gpu);
        for (path, entry) in tree::parse(&name, &of_gpu)? {
            tree::put(&root.join(path), &entry)?;
        }
    }
    Ok(())
}

/// The text about another GPU than the recorded one.
fn numbered(text: &str, gpu: usize) -> String {
    let bus = 0x05 + 0x20 * gpu;
    let mut text = text
        .replace("0000:05:00.0", &format!("0000:{bus:02x}:00.0"))
        .replace("5d0e0000aa000001", &format!("5d0e0000aa00000{}", gpu + 1))
        .replace("692425000300", &format!("69242500030{gpu}"))
        .replace(
            &format!("proc/{FIRST_PID}/"),
            &format!("proc/{}/", FIRST_PID + gpu),
        );
    for part in 0..PARTITIONS {
        let node = part + 1;
        for (recorded, other) in [
            (
                format!("nodes/{node}/"),
                format!("nodes/{}/", node + PARTITIONS * gpu),
            ),
            (
                format!("= {}\n", kfd_id(0, part)),
                format!("= {}\n", kfd_id(gpu, part)),
            ),
            (
                format!("vram_{} ", kfd_id(0, part)),
                format!("vram_{} ", kfd_id(gpu, part)),
            ),
            (
                format!("location_id {}\n", 0x500 + part),
                format!("location_id {}\n", (bus << 8) + part),
            ),
            (
                format!("renderD{}/", 128 + part),
                format!("renderD{}/", 128 + part + PARTITIONS * gpu),
            ),
            (
                format!("drm_render_minor {}\n", 128 + part),
                format!("drm_render_minor {}\n", 128 + part + PARTITIONS * gpu),
            ),
        ] {
            text = text.replace(&recorded, &other);
        }
    }
    text
}
