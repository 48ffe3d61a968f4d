//! Event sets: events of the driver.

#![allow(unsafe_code, reason = "the library's own functions")]

use nvml_wrapper_sys::bindings as raw;

use super::{Code, Handle, Library, function, one};

/// A set of GPUs with the requested events of each. Used by one thread at a time: the library does not lock it.
#[derive(Debug)]
pub struct EventSet(raw::nvmlEventSet_t);

// SAFETY: it belongs to one watcher, which runs on one thread.
unsafe impl Send for EventSet {}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmlEvent {
    /// The GPU.
    pub device: Handle,
    /// nvmlEventType.
    pub kind: u64,
    /// The Xid, if the event is one.
    pub data: u64,
    /// GPU instance and compute instance, if the event concerns one.
    pub instance: (Option<u32>, Option<u32>),
}

impl Library {
    /// The events that a GPU supports, as bits of nvmlEventType.
    ///
    /// # Errors
    /// The library's return code.
    pub fn event_kinds(&self, device: Handle) -> Result<u64, Code> {
        let call = function(self.raw.nvmlDeviceGetSupportedEventTypes.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |kinds| unsafe { call(device.0, kinds) })
    }

    /// An empty set.
    ///
    /// # Errors
    /// The library's return code.
    pub fn event_set(&self) -> Result<EventSet, Code> {
        let call = function(self.raw.nvmlEventSetCreate.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(std::ptr::null_mut(), |set| unsafe { call(set) }).map(EventSet)
    }

    /// Adds events of a GPU to a set. Earlier events are not reported.
    ///
    /// # Errors
    /// The library's return code.
    pub fn register(&self, device: Handle, kinds: u64, set: &EventSet) -> Result<(), Code> {
        let call = function(self.raw.nvmlDeviceRegisterEvents.as_ref())?;
        // SAFETY: as declared in nvml.h; the library created the set.
        Code::of(unsafe { call(device.0, kinds, set.0) })
    }

    /// Waits for the next event. `None`: time-out.
    ///
    /// # Errors
    /// The library's return code.
    pub fn wait(&self, set: &EventSet, milliseconds: u32) -> Result<Option<NvmlEvent>, Code> {
        let call = function(self.raw.nvmlEventSetWait_v2.as_ref())?;
        let blank = raw::nvmlEventData_t {
            device: std::ptr::null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        // SAFETY: as declared in nvml.h; set and pointer are valid for the call.
        match one(blank, |data| unsafe { call(set.0, data, milliseconds) }) {
            Ok(data) => Ok(Some(NvmlEvent {
                device: Handle(data.device),
                kind: data.eventType,
                data: data.eventData,
                instance: (known(data.gpuInstanceId), known(data.computeInstanceId)),
            })),
            Err(Code::TIMEOUT) => Ok(None),
            Err(code) => Err(code),
        }
    }

    /// Frees a set. Not after the driver was closed.
    ///
    /// # Errors
    /// The library's return code.
    pub fn free(&self, set: EventSet) -> Result<(), Code> {
        let call = function(self.raw.nvmlEventSetFree.as_ref())?;
        // SAFETY: as declared in nvml.h; the set is not used any more.
        Code::of(unsafe { call(set.0) })
    }
}

/// All bits set mean no instance.
fn known(instance: u32) -> Option<u32> {
    (instance != u32::MAX).then_some(instance)
}
