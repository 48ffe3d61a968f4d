//! Parts of a GPU that are lists: processes, MIG devices, profiles.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::value::Value;

/// A process that uses a GPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// How it uses the GPU.
    #[serde(default)]
    pub kind: ProcessKind,
    /// Bytes of GPU memory; absent where the driver does not know.
    pub memory: Option<Value>,
    /// GPU instance.
    pub gi: Option<u32>,
    /// Compute instance.
    pub ci: Option<u32>,
    /// The name from nvmlSystemGetProcessName.
    pub name: Option<String>,
    /// Percent of the multiprocessors.
    pub sm: Option<Value>,
    /// Percent of the memory's time.
    pub mem: Option<Value>,
    /// Percent of the encoder.
    pub enc: Option<Value>,
    /// Percent of the decoder.
    pub dec: Option<Value>,
    /// Percent of the JPEG engine.
    pub jpg: Option<Value>,
    /// Percent of the optical flow engine.
    pub ofa: Option<Value>,
}

/// How a process uses a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    /// CUDA.
    #[default]
    Compute,
    /// A display.
    Graphics,
    /// CUDA by way of the multi-process service.
    Mps,
}

/// A MIG device: a compute instance in a GPU instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigDevice {
    /// MIG-...
    pub uuid: String,
    /// Product name, such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
    pub name: String,
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id.
    #[serde(default)]
    pub ci: u32,
    /// Id of the GPU instance's profile.
    pub profile: u32,
    /// Slices of the GPU instance.
    pub slices: u32,
    /// Slices of the compute instance; those of the GPU instance where absent.
    pub ci_slices: Option<u32>,
    /// Its placement in the GPU's memory.
    #[serde(default)]
    pub start: u32,
    /// Memory slices; those of the GPU instance where absent.
    pub size: Option<u32>,
    /// Multiprocessors.
    pub sm: u32,
    /// MiB of memory.
    pub memory_mb: u64,
    /// Copy engines.
    #[serde(default)]
    pub copy: u32,
    /// Decoders.
    #[serde(default)]
    pub decoders: u32,
    /// Encoders.
    #[serde(default)]
    pub encoders: u32,
    /// JPEG engines.
    #[serde(default)]
    pub jpeg: u32,
    /// Optical flow engines.
    #[serde(default)]
    pub ofa: u32,
    /// Bytes.
    pub total: Value,
    /// Bytes.
    pub reserved: Value,
    /// Bytes.
    pub used: Value,
    /// GPM metrics of the GPU instance, by name or number.
    #[serde(default)]
    pub gpm: BTreeMap<String, Value>,
}

/// A profile that GPU instances can have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// NVML_GPU_INSTANCE_PROFILE_...
    pub profile: u32,
    /// Profile id, as `nvidia-smi mig` shows it.
    pub id: u32,
    /// Such as `MIG 1g.5gb`.
    pub name: String,
    /// Slices.
    pub slices: u32,
    /// How many there can be at most.
    pub instances: u32,
    /// Multiprocessors.
    pub sm: u32,
    /// MiB of memory.
    pub memory_mb: u64,
    /// Copy engines.
    #[serde(default)]
    pub copy: u32,
    /// Decoders.
    #[serde(default)]
    pub decoders: u32,
    /// Encoders.
    #[serde(default)]
    pub encoders: u32,
    /// JPEG engines.
    #[serde(default)]
    pub jpeg: u32,
    /// Optical flow engines.
    #[serde(default)]
    pub ofa: u32,
}
