//! GPU performance monitoring: the activity of a GPU's parts between two samples.

#![allow(unsafe_code, reason = "the library's own functions")]

use nvml_wrapper_sys::bindings as raw;

use super::{Code, Handle, Library, function, one};

/// Maximum number of metrics in one query. The structure in nvml.h ends in an array whose length grew without a new
/// version; the library reads only the number of entries in the structure.
pub const MOST: usize = 64;

/// `nvmlGpmMetricsGet_t` with an array of our length.
#[repr(C)]
struct MetricsGet {
    version: u32,
    count: u32,
    first: raw::nvmlGpmSample_t,
    second: raw::nvmlGpmSample_t,
    metrics: [raw::nvmlGpmMetric_t; MOST],
}

/// A sample of a GPU's counters. The library owns its memory, which is not freed: samples are reused as long as
/// their GPU is known, and freeing is one more call into a driver that may be stuck.
#[derive(Debug)]
pub struct Sample(raw::nvmlGpmSample_t);

// SAFETY: a sample belongs to one GPU's device, which one thread reads at a time.
unsafe impl Send for Sample {}

impl Library {
    /// Whether the GPU supports GPM.
    ///
    /// # Errors
    /// The library's return code.
    pub fn gpm_supported(&self, device: Handle) -> Result<bool, Code> {
        let call = function(self.raw.nvmlGpmQueryDeviceSupport.as_ref())?;
        let start = raw::nvmlGpmSupport_t {
            version: raw::NVML_GPM_SUPPORT_VERSION,
            isSupportedDevice: 0,
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(start, |support| unsafe { call(device.0, support) }).map(|s| s.isSupportedDevice != 0)
    }

    /// Memory for a sample.
    ///
    /// # Errors
    /// The library's return code.
    pub fn gpm_sample(&self) -> Result<Sample, Code> {
        let call = function(self.raw.nvmlGpmSampleAlloc.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(std::ptr::null_mut(), |sample| unsafe { call(sample) }).map(Sample)
    }

    /// Takes a sample of a GPU, or of one of its GPU instances.
    ///
    /// # Errors
    /// The library's return code.
    pub fn gpm_take(&self, device: Handle, instance: Option<u32>, into: &mut Sample) -> Result<(), Code> {
        match instance {
            None => {
                let call = function(self.raw.nvmlGpmSampleGet.as_ref())?;
                // SAFETY: as declared in nvml.h; the sample was allocated by the library.
                Code::of(unsafe { call(device.0, into.0) })
            }
            Some(instance) => {
                let call = function(self.raw.nvmlGpmMigSampleGet.as_ref())?;
                // SAFETY: as declared in nvml.h; the sample was allocated by the library.
                Code::of(unsafe { call(device.0, instance, into.0) })
            }
        }
    }

    /// The values between two samples: `(metric, value)`; an invalid value is absent.
    ///
    /// # Errors
    /// The library's return code for the whole query.
    pub fn gpm_metrics(
        &self,
        first: &Sample,
        second: &Sample,
        wanted: &[u32],
        found: &mut Vec<Option<f64>>,
    ) -> Result<(), Code> {
        let call = function(self.raw.nvmlGpmMetricsGet.as_ref())?;
        let blank = raw::nvmlGpmMetric_t {
            metricId: 0,
            nvmlReturn: Code::NOT_SUPPORTED.0,
            value: f64::NAN,
            metricInfo: raw::nvmlGpmMetric_t__bindgen_ty_1 {
                shortName: std::ptr::null_mut(),
                longName: std::ptr::null_mut(),
                unit: std::ptr::null_mut(),
            },
        };
        let mut question = MetricsGet {
            version: raw::NVML_GPM_METRICS_GET_VERSION,
            count: u32::try_from(wanted.len().min(MOST)).unwrap_or(0),
            first: first.0,
            second: second.0,
            metrics: [blank; MOST],
        };
        for (metric, id) in question.metrics.iter_mut().zip(wanted) {
            metric.metricId = *id;
        }
        // SAFETY: the structure starts like the one in nvml.h and holds the number of metrics in its field.
        Code::of(unsafe { call((&raw mut question).cast()) })?;
        found.clear();
        found.extend(question.metrics.iter().take(wanted.len()).map(|metric| {
            let valid = metric.nvmlReturn == 0 && metric.value.is_finite();
            valid.then_some(metric.value)
        }));
        Ok(())
    }
}
