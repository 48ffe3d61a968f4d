//! The instances that a GPU is divided into (MIG).

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::call::Caller;
use crate::Block;
use crate::gpu::metrics as m;
use crate::sys::nvml::{Handle, Library};

/// Instances are listed again after this, and as soon as one does not answer.
const AGAIN: Duration = Duration::from_secs(10);
/// Maximum number of instances of a GPU.
const MOST: u32 = 64;

/// One instance: a compute instance within a GPU instance.
#[derive(Clone, Debug)]
pub(super) struct MigInstance {
    /// The label: the ids of the GPU instance and of the compute instance.
    pub(super) label: String,
    pub(super) gpu_instance: u32,
    pub(super) compute_instance: u32,
    pub(super) profile: String,
    pub(super) uuid: String,
    pub(super) handle: Handle,
}

/// The result of one reading of the instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InstanceLayout {
    changed: bool,
}

impl InstanceLayout {
    /// Whether MIG was enabled or disabled, which changes what the GPU offers.
    pub(super) fn is_changed(self) -> bool {
        self.changed
    }
}

/// All instances of a GPU.
#[derive(Debug, Default)]
pub(super) struct Instances {
    list: Vec<MigInstance>,
    /// Whether MIG is enabled now and after the next reset; `None`: not reported.
    mode: Option<(u32, u32)>,
    listed: Option<Instant>,
    suspect: Cell<bool>,
}

impl Instances {
    /// Reads whether MIG is enabled, and lists the instances.
    pub(super) fn read(&mut self, caller: &mut Caller) -> InstanceLayout {
        let mode = caller
            .ask(("GetMigMode", 0), Library::mig_mode)
            .filter(|(now, later)| *now <= 1 && *later <= 1);
        if mode.is_none() && is_on(self.mode) && !caller.is_refused(("GetMigMode", 0)) {
            // No answer does not mean that MIG was disabled.
            return InstanceLayout { changed: false };
        }
        let changed = self.listed.is_some() && is_on(mode) != is_on(self.mode);
        self.mode = mode;
        let due = self.suspect.take() || changed || self.listed.is_none_or(|at| at.elapsed() >= AGAIN);
        if !is_on(mode) {
            self.list.clear();
            self.listed = Some(Instant::now());
        } else if due {
            self.list(caller);
        }
        InstanceLayout { changed }
    }

    fn list(&mut self, caller: &mut Caller) {
        self.list.clear();
        caller.forget_instances();
        let most = caller
            .ask(("GetMaxMigDeviceCount", 0), Library::max_mig_devices)
            .filter(|n| *n <= MOST);
        for index in 0..most.unwrap_or(0) {
            let found = caller.ask(("GetMigDeviceHandleByIndex", index), |l, d| {
                l.mig_device(d, index)
            });
            let Some(Some(handle)) = found else { continue };
            // An instance that was removed meanwhile is no fault of the GPU.
            let ids = caller.library.gpu_instance_id(handle).and_then(|gi| {
                let ci = caller.library.compute_instance_id(handle)?;
                Ok((gi, ci))
            });
            let Ok((gpu_instance, compute_instance)) = ids else {
                continue;
            };
            let text = |answer: Result<String, _>| answer.unwrap_or_default();
            self.list.push(MigInstance {
                label: format!("{gpu_instance}/{compute_instance}"),
                gpu_instance,
                compute_instance,
                profile: profile(&text(caller.library.name(handle))),
                uuid: text(caller.library.uuid(handle)),
                handle,
            });
        }
        self.list.sort_by_key(|i| (i.gpu_instance, i.compute_instance));
        self.listed = Some(Instant::now());
    }

    /// Called when an instance did not answer: they are listed again before the next reading.
    pub(super) fn suspect(&self) {
        self.suspect.set(true);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &MigInstance> {
        self.list.iter()
    }

    /// The label of the instance with these ids.
    pub(super) fn label_of(&self, (gpu_instance, compute_instance): (u32, u32)) -> Option<&str> {
        let same =
            |i: &&MigInstance| (i.gpu_instance, i.compute_instance) == (gpu_instance, compute_instance);
        self.list.iter().find(same).map(|i| i.label.as_str())
    }

    pub(super) fn push_info(&self, gpu: &str, out: &mut Block) {
        out.maybe_u64(&m::MIG_MODE, &[gpu], self.mode.map(|(now, _)| u64::from(now)));
        out.maybe_u64(
            &m::MIG_MODE_PENDING,
            &[gpu],
            self.mode.map(|(_, later)| u64::from(later)),
        );
        for instance in &self.list {
            out.info(
                &m::INSTANCE_INFO,
                &[gpu, &instance.label, &instance.profile, &instance.uuid],
            );
        }
    }
}

fn is_on(mode: Option<(u32, u32)>) -> bool {
    mode.is_some_and(|(now, _)| now == 1)
}

/// The profile of the GPU instance: `1c.3g.40gb` is one compute slice of a `3g.40gb`.
pub(super) fn gpu_instance_profile(profile: &str) -> &str {
    match profile.split_once("c.") {
        Some((slices, of_gpu)) if slices.bytes().all(|b| b.is_ascii_digit()) => of_gpu,
        _ => profile,
    }
}

/// `NVIDIA A100-SXM4-80GB MIG 1g.10gb` has the profile `1g.10gb`.
fn profile(name: &str) -> String {
    name.rsplit_once("MIG ")
        .map_or("", |(_, profile)| profile)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_the_end_of_an_instances_name() {
        assert_eq!(profile("NVIDIA A100-SXM4-80GB MIG 1g.10gb"), "1g.10gb");
        assert_eq!(profile("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"), "1c.3g.40gb");
        assert_eq!(profile("NVIDIA H100 80GB HBM3"), "");
    }

    #[test]
    fn the_profile_of_the_gpu_instance_is_that_without_the_compute_slices() {
        for (own, of_gpu_instance) in [
            ("1c.3g.40gb", "3g.40gb"),
            ("3g.40gb", "3g.40gb"),
            ("1g.10gb+me", "1g.10gb+me"),
            ("", ""),
        ] {
            assert_eq!(gpu_instance_profile(own), of_gpu_instance);
        }
    }
}
