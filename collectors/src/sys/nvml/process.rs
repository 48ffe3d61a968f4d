//! Processes on a GPU.

#![allow(unsafe_code, reason = "the library's own functions")]

use nvml_wrapper_sys::bindings as raw;

use super::{Code, Handle, Library, function};

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The process id, in the driver's PID namespace.
    pub pid: u32,
    /// Bytes; `None` if the driver does not report it.
    pub memory: Option<u64>,
    /// The GPU instance and the compute instance, if it runs on one.
    pub instance: Option<(u32, u32)>,
}

/// Maximum number of processes that are read per GPU.
const PROCESSES: usize = 1024;

/// A call that lists processes.
type Running =
    unsafe extern "C" fn(raw::nvmlDevice_t, *mut u32, *mut raw::nvmlProcessInfo_t) -> raw::nvmlReturn_t;

/// An entry of the list.
type Entry = raw::nvmlProcessInfo_v2_t;
/// An entry of drivers 535.43 to 535.86, which added a number of 8 bytes and kept the function's name.
/// <https://github.com/XuehaiPan/nvitop/pull/79>
type LongEntry = raw::nvmlProcessDetail_v1_t;

impl Library {
    /// The compute processes on it, at most 1,024.
    ///
    /// # Errors
    /// The library's return code.
    pub fn processes(&self, device: Handle) -> Result<Vec<Process>, Code> {
        let newest = function(self.raw.nvmlDeviceGetComputeRunningProcesses_v3.as_ref());
        let older = function(self.raw.nvmlDeviceGetComputeRunningProcesses_v2.as_ref());
        self.running(device, newest, older)
    }

    /// The graphics processes on it, at most 1,024.
    ///
    /// # Errors
    /// The library's return code.
    pub fn graphics_processes(&self, device: Handle) -> Result<Vec<Process>, Code> {
        let newest = function(self.raw.nvmlDeviceGetGraphicsRunningProcesses_v3.as_ref());
        let older = function(self.raw.nvmlDeviceGetGraphicsRunningProcesses_v2.as_ref());
        self.running(device, newest, older)
    }

    /// By the newest function; drivers before R510, and 535.98, have only the older one, with the same entries.
    fn running(
        &self,
        device: Handle,
        newest: Result<Running, Code>,
        older: Result<Running, Code>,
    ) -> Result<Vec<Process>, Code> {
        match newest {
            Ok(call) if self.has_long_entries() => list(
                device,
                call,
                LongEntry {
                    pid: 0,
                    usedGpuMemory: u64::MAX,
                    gpuInstanceId: u32::MAX,
                    computeInstanceId: u32::MAX,
                    usedGpuCcProtectedMemory: 0,
                },
                |e| process(e.pid, e.usedGpuMemory, (e.gpuInstanceId, e.computeInstanceId)),
            ),
            newest => {
                let list = |call| {
                    let empty = Entry {
                        pid: 0,
                        usedGpuMemory: u64::MAX,
                        gpuInstanceId: u32::MAX,
                        computeInstanceId: u32::MAX,
                    };
                    list(device, call, empty, |e| {
                        process(e.pid, e.usedGpuMemory, (e.gpuInstanceId, e.computeInstanceId))
                    })
                };
                match newest.and_then(list) {
                    Err(code) if code.is_too_new() => list(older?),
                    listed => listed,
                }
            }
        }
    }

    /// These drivers have the first function, new in 535.43, and not the second, which took over the longer entries.
    fn has_long_entries(&self) -> bool {
        self.raw.nvmlDeviceGetConfComputeMemSizeInfo.is_ok()
            && self.raw.nvmlDeviceGetRunningProcessDetailList.is_err()
    }
}

/// Lists processes. `T` is the entry that the driver writes.
fn list<T: Copy>(
    device: Handle,
    call: Running,
    empty: T,
    read: fn(&T) -> Process,
) -> Result<Vec<Process>, Code> {
    let mut entries = [empty; PROCESSES];
    let mut count = PROCESSES as u32;
    // SAFETY: as declared in nvml.h; the library writes at most `count` entries of the size of `T`.
    Code::of(unsafe { call(device.0, &raw mut count, entries.as_mut_ptr().cast()) })?;
    let mut processes: Vec<Process> = entries.iter().take(count as usize).map(read).collect();
    processes.sort_unstable();
    Ok(processes)
}

/// All bits set: not reported.
fn process(pid: u32, memory: u64, (gpu_instance, compute_instance): (u32, u32)) -> Process {
    let known = |id: u32| (id != u32::MAX).then_some(id);
    Process {
        pid,
        memory: (memory != u64::MAX).then_some(memory),
        instance: known(gpu_instance).zip(known(compute_instance)),
    }
}
