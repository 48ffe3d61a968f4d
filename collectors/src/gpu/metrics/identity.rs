//! What a GPU is, whether it answers, and how it is set up.

use super::row::metrics;
use super::{GPU, gauge};

metrics! {
    ALL_IDENTITY;
    UP "gpu_up" Gauge None Core GPU, "nvmlDeviceGetHandleByIndex_v2 and every call on the handle", []
        "Whether the driver answers for a GPU, 0 for one that is lost or refused.";
    UNAVAILABLE_INFO "gpu_unavailable_info" Info None Core &["gpu", "reason"], "the driver's return code", []
        "Why the driver does not answer for a GPU: lost, reset_required, no_driver, no_permission, power, interrupt, timeout, refused, unknown.";
    INFO "gpu_info" Info None Core
        &["gpu", "vendor", "name", "pci", "index", "minor", "serial", "part", "vbios", "driver", "architecture"],
        "nvmlDeviceGet{Name,PciInfo_v3,MinorNumber,Serial,BoardPartNumber,VbiosVersion,Architecture}, nvmlSystemGetDriverVersion", []
        "A GPU with what it is and where it sits; what the driver does not tell is empty.";
    INSTANCE_INFO "gpu_instance_info" Info None Core &["gpu", "gpu_instance", "profile", "uuid"],
        "nvmlDeviceGetMigDeviceHandleByIndex, nvmlDeviceGet{UUID,Name,GpuInstanceId,ComputeInstanceId}", []
        "A part of a GPU that is used as a GPU of its own, by the numbers of its GPU instance and its compute instance.";
    DCGM_INFO "gpu_dcgm_info" Info None Private
        &["gpu", "gpu_instance", "index", "pci_bus_id", "device", "name", "profile", "instance_id", "hostname", "driver"],
        "as gpu_info", []
        "The labels of a GPU, or of a part of one, as dcgm-exporter writes them.";
    PERSISTENCE_MODE "gpu_persistence_mode" Gauge None Core GPU, "nvmlDeviceGetPersistenceMode",
        [gauge("DCGM_FI_DEV_PERSISTENCE_MODE").same()]
        "Whether the driver keeps a GPU initialised while nobody uses it.";
    COMPUTE_MODE "gpu_compute_mode" Gauge None Detail GPU, "nvmlDeviceGetComputeMode",
        [gauge("DCGM_FI_DEV_COMPUTE_MODE").same()]
        "Who may use a GPU: 0 anybody, 1 one thread, 2 nobody, 3 one process.";
    MIG_MODE "gpu_mig_mode" Gauge None Core GPU, "nvmlDeviceGetMigMode",
        [gauge("DCGM_FI_DEV_MIG_MODE").same()]
        "Whether a GPU can be divided into instances.";
    MIG_MODE_PENDING "gpu_mig_mode_pending" Gauge None Detail GPU, "nvmlDeviceGetMigMode", []
        "Whether a GPU will be dividable into instances after its next reset.";
    INFOROM_VALID "gpu_inforom_valid" Gauge None Detail GPU, "nvmlDeviceValidateInforom",
        [gauge("DCGM_FI_DEV_INFOROM_CONFIG_VALID").same()]
        "Whether the checksums of a GPU's board memory (InfoROM) are right, looked at once an hour.";
    INFOROM_INFO "gpu_inforom_info" Info None Detail &["gpu", "image", "oem", "ecc", "power"],
        "nvmlDeviceGetInforomImageVersion, nvmlDeviceGetInforomVersion", []
        "Versions of a GPU's board memory (InfoROM) and of its objects.";
    PROCESSES "gpu_processes" Gauge None Core GPU, "nvmlDeviceGetComputeRunningProcesses_v3", []
        "Processes that compute on a GPU.";
    GRAPHICS_PROCESSES "gpu_graphics_processes" Gauge None Private GPU, "nvmlDeviceGetGraphicsRunningProcesses_v3", []
        "Processes that draw on a GPU, asked for where none computes on it.";
    PROCESSES_SEEN "gpu_processes_seen" Gauge None Private GPU, "/proc/self/ns/pid", []
        "Whether the processes of the host can be seen, 0 in a container with a namespace of its own, where the driver lists none of them.";
    PROCESS_MEMORY "gpu_process_memory_bytes" Gauge Bytes Detail &["gpu", "gpu_instance", "pid"],
        "nvmlDeviceGetComputeRunningProcesses_v3", []
        "Memory of a GPU that a process has; shown where the configuration asks for it.";
    PROCESS_OWNED "gpu_process_owned_bytes" Gauge Bytes Private &["gpu", "gpu_instance", "pid"],
        "nvmlDeviceGetComputeRunningProcesses_v3", []
        "Memory of a GPU that a process has, to find whose job uses the GPU.";
    PROCESS_PLACE "gpu_process_cgroup_info" Info None Private &["gpu", "gpu_instance", "pid", "folder"],
        "nvmlDeviceGetComputeRunningProcesses_v3, /proc/PID/cgroup", []
        "A process that computes on a GPU, and the name of the Slurm job's cgroup that it is in, else pod and the uid of its pod, empty outside of both.";
    PROCESS_PROGRAM "gpu_process_program_info" Info None Private &["gpu", "gpu_instance", "pid", "program"],
        "nvmlDeviceGetComputeRunningProcesses_v3, /proc/PID/comm", []
        "A process that computes on a GPU, and what it calls itself, by its first 15 letters.";
    DRIVER_CALL "gpu_driver_call_seconds" Histogram(super::row::CALLS) Seconds Detail GPU, "clock around each call of libnvidia-ml.so", []
        "How long the driver took for one call about a GPU.";
}
