//! Identity, availability, modes and processes of a GPU.

use super::row::metrics;
use super::{GPU, gauge};

metrics! {
    ALL_IDENTITY;
    UP "gpu_up" Gauge None Core GPU, "nvmlDeviceGetHandleByIndex_v2 and every call on the handle; gpu_metrics or mem_info_vram_total", []
        "Availability of a GPU: 1 if the driver answers, 0 if the GPU is lost or refused.";
    UNAVAILABLE_INFO "gpu_unavailable_info" Info None Core &["gpu", "reason"], "driver return code", []
        "Reason why the driver does not answer for a GPU: lost, reset_required, no_driver, no_permission, power, interrupt, timeout, refused, busy, suspended, unknown.";
    INFO "gpu_info" Info None Core
        &["gpu", "vendor", "name", "pci", "index", "minor", "serial", "part", "vbios", "driver", "architecture"],
        "nvmlDeviceGet{Name,PciInfo_v3,MinorNumber,Serial,BoardPartNumber,VbiosVersion,Architecture}, nvmlSystemGetDriverVersion; /sys/bus/pci/drivers/amdgpu", []
        "GPU with its identity and location; labels that the driver does not report are empty.";
    INSTANCE_INFO "gpu_instance_info" Info None Core &["gpu", "gpu_instance", "profile", "uuid"],
        "nvmlDeviceGetMigDeviceHandleByIndex, nvmlDeviceGet{UUID,Name,GpuInstanceId,ComputeInstanceId}; KFD topology", []
        "GPU instance (MIG) by GPU instance ID and compute instance ID, or compute partition by number, used as a GPU of its own.";
    DCGM_INFO "gpu_dcgm_info" Info None Private
        &["gpu", "gpu_instance", "index", "pci_bus_id", "device", "name", "profile", "instance_id", "hostname", "driver"],
        "as gpu_info", []
        "Labels of a GPU or GPU instance in the format of dcgm-exporter.";
    AMD_INFO "gpu_amd_info" Info None Private
        &["gpu", "gpu_instance", "gpu_id", "uuid", "partition_id", "compute", "memory", "series", "model", "serial", "driver", "vbios", "hostname"],
        "as gpu_info, current_compute_partition, current_memory_partition", []
        "Labels of an AMD GPU or partition in the format of AMD's device-metrics-exporter.";
    PERSISTENCE_MODE "gpu_persistence_mode" Gauge None Core GPU, "nvmlDeviceGetPersistenceMode",
        [gauge("DCGM_FI_DEV_PERSISTENCE_MODE").same()]
        "Persistence mode of a GPU: 1 if the driver keeps an unused GPU initialised, else 0.";
    COMPUTE_MODE "gpu_compute_mode" Gauge None Detail GPU, "nvmlDeviceGetComputeMode",
        [gauge("DCGM_FI_DEV_COMPUTE_MODE").same()]
        "Compute mode of a GPU: 0 default (shared), 1 exclusive thread, 2 prohibited, 3 exclusive process.";
    MIG_MODE "gpu_mig_mode" Gauge None Core GPU, "nvmlDeviceGetMigMode",
        [gauge("DCGM_FI_DEV_MIG_MODE").same()]
        "Current MIG mode of a GPU: 1 enabled, 0 disabled.";
    MIG_MODE_PENDING "gpu_mig_mode_pending" Gauge None Detail GPU, "nvmlDeviceGetMigMode", []
        "MIG mode of a GPU after its next reset: 1 enabled, 0 disabled.";
    INFOROM_VALID "gpu_inforom_valid" Gauge None Detail GPU, "nvmlDeviceValidateInforom",
        [gauge("DCGM_FI_DEV_INFOROM_CONFIG_VALID").same()]
        "State of the InfoROM checksums of a GPU: 1 valid, 0 invalid, checked once an hour.";
    INFOROM_INFO "gpu_inforom_info" Info None Detail &["gpu", "image", "oem", "ecc", "power"],
        "nvmlDeviceGetInforomImageVersion, nvmlDeviceGetInforomVersion", []
        "InfoROM versions of a GPU: image and objects.";
    PROCESSES "gpu_processes" Gauge None Core GPU, "nvmlDeviceGetComputeRunningProcesses_v3; /sys/class/kfd/kfd/proc", []
        "Compute processes on a GPU.";
    GRAPHICS_PROCESSES "gpu_graphics_processes" Gauge None Private GPU, "nvmlDeviceGetGraphicsRunningProcesses_v3", []
        "Graphics processes on a GPU, read only if the GPU has no compute process.";
    PROCESSES_SEEN "gpu_processes_seen" Gauge None Private GPU, "/proc/self/ns/pid", []
        "Visibility of the host's processes: 1 visible, 0 in a container with its own PID namespace, where the driver lists none.";
    PROCESS_MEMORY "gpu_process_memory_bytes" Gauge Bytes Detail &["gpu", "gpu_instance", "pid"],
        "nvmlDeviceGetComputeRunningProcesses_v3", []
        "GPU memory used by a process in bytes, if enabled in the configuration.";
    PROCESS_OWNED "gpu_process_owned_bytes" Gauge Bytes Private &["gpu", "gpu_instance", "pid"],
        "nvmlDeviceGetComputeRunningProcesses_v3", []
        "GPU memory used by a process in bytes, to attribute the GPU to a job.";
    PROCESS_PLACE "gpu_process_cgroup_info" Info None Private &["gpu", "gpu_instance", "pid", "folder"],
        "nvmlDeviceGetComputeRunningProcesses_v3, /proc/PID/cgroup", []
        "Compute process on a GPU with its Slurm job cgroup, pod and the pod UID, `user.slice`, or empty elsewhere.";
    PROCESS_PROGRAM "gpu_process_program_info" Info None Private &["gpu", "gpu_instance", "pid", "program"],
        "nvmlDeviceGetComputeRunningProcesses_v3, /proc/PID/comm", []
        "Compute process on a GPU with its command name (first 15 characters).";
    UNREAD_VALUES "gpu_unread_values" Gauge None Core &["gpu", "reason"], "driver return code", []
        "Values of a GPU that the driver offers and did not return in the last reading, by reason (unknown, timeout, interrupt, power, busy, refused, no_permission); absent if there are none.";
    DRIVER_CALL "gpu_driver_call_seconds" Histogram(super::row::CALLS) Seconds Detail GPU, "duration of each libnvidia-ml.so call", []
        "Duration of a driver call for a GPU, in seconds.";
}
