//! The labels of a GPU on the page of AMD's device-metrics-exporter.

use std::ops::Range;

use super::files::GpuFiles;
use super::identity;
use super::topology::part;
use crate::Block;
use crate::gpu::identity::Identity;
use crate::gpu::metrics as m;

/// Labels that other metrics do not have.
#[derive(Clone, Debug)]
pub(super) struct PageLabels {
    hostname: String,
    /// The position of its first partition among all partitions of the node. The exporter counts partitions as GPUs. `None`:
    /// another GPU has it now.
    first: Option<usize>,
    uuid: String,
    series: String,
}

impl PageLabels {
    pub(super) fn read(files: &GpuFiles, hostname: &str, first: usize) -> Self {
        let text = |name: &str| files.text(name).unwrap_or_default();
        Self {
            hostname: hostname.to_owned(),
            first: Some(first),
            uuid: identity::uuid(&text("unique_id"), &text("device")),
            series: identity::name(files),
        }
    }

    /// Takes the UUID of an earlier reading, where the driver refused its parts now.
    pub(super) fn keep_uuid(&mut self, before: &Self) {
        self.uuid.clone_from(&before.uuid);
    }

    /// The `gpu_id` of each partition.
    pub(super) fn ids(&self, partitions: usize) -> Range<usize> {
        self.first.map_or(0..0, |first| first..first + partitions.max(1))
    }

    /// Takes away `gpu_id`.
    pub(super) fn lose_ids(&mut self) {
        self.first = None;
    }

    /// Pushes the labels of the GPU and of each partition. Values of the whole GPU stand on its first partition, as in the
    /// exporter. `modes`: of compute and memory partitions, if they were read.
    pub(super) fn push(
        &self,
        gpu: &Identity,
        partitions: usize,
        modes: Option<(&str, &str)>,
        out: &mut Block,
    ) {
        let word = |mode: Option<&str>| match mode {
            None => String::new(),
            // The exporter's word for a GPU that cannot be divided.
            Some("") => "none".to_owned(),
            Some(mode) => mode.to_lowercase(),
        };
        let (compute, memory) = (
            word(modes.map(|(compute, _)| compute)),
            word(modes.map(|(_, memory)| memory)),
        );
        let id = |at: usize| self.first.map(|first| (first + at).to_string());
        let mut push = |instance: &str, at: usize| {
            let labels: [&str; 13] = [
                &gpu.gpu,
                instance,
                &id(at).unwrap_or_default(),
                &self.uuid,
                &at.to_string(),
                &compute,
                &memory,
                &self.series,
                &gpu.part,
                &gpu.serial,
                &gpu.driver,
                &gpu.vbios,
                &self.hostname,
            ];
            out.info(&m::AMD_INFO, &labels);
        };
        push("", 0);
        if partitions > 1 {
            (0..partitions).for_each(|at| push(&part(at, partitions), at));
        }
    }
}
