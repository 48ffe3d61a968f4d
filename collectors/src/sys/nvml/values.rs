//! Many values in one call: nvmlDeviceGetFieldValues.

#![allow(unsafe_code, reason = "the library's own functions, and a union")]

use nvml_wrapper_sys::bindings as raw;

use super::{Code, Handle, Library, function};

/// A value to query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The field.
    pub field: u32,
    /// The link; `u32::MAX`: all links.
    pub scope: u32,
}

/// An answer, as returned by the library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// A whole number.
    Unsigned(u64),
    /// A signed whole number.
    Signed(i64),
    /// A floating-point number.
    Real(f64),
}

/// The buffer of a batch. Reused over readings, so that no reading allocates.
pub struct Batch(Vec<raw::nvmlFieldValue_t>);

impl Batch {
    /// A batch of these values.
    pub fn new(wanted: &[Wanted]) -> Self {
        Self(wanted.iter().map(blank).collect())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer at that position, or its return code.
    ///
    /// # Errors
    /// The value's own return code.
    pub fn get(&self, at: usize) -> Result<FieldValue, Code> {
        let value = self.0.get(at).ok_or(Code::NOT_SUPPORTED)?;
        Code::of(value.nvmlReturn)?;
        // SAFETY: every member of the union is a plain number, and all bytes were zero before the library wrote.
        Ok(unsafe {
            match value.valueType {
                raw::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => FieldValue::Real(value.value.dVal),
                raw::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => {
                    FieldValue::Signed(i64::from(value.value.siVal))
                }
                raw::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => {
                    FieldValue::Signed(value.value.sllVal)
                }
                // Drivers have reported the wrong type, so all bytes are taken: the rest was zero.
                _ => FieldValue::Unsigned(value.value.ullVal),
            }
        })
    }
}

/// A value without an answer. If the library does not change it, the value was not read.
fn blank(wanted: &Wanted) -> raw::nvmlFieldValue_t {
    raw::nvmlFieldValue_t {
        fieldId: wanted.field,
        scopeId: wanted.scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: Code::NOT_SUPPORTED.0,
        value: raw::nvmlValue_t { ullVal: 0 },
    }
}

impl Library {
    /// Reads a batch. Each value has its own return code.
    ///
    /// # Errors
    /// The library's return code for the whole batch.
    pub fn fields(&self, device: Handle, batch: &mut Batch) -> Result<(), Code> {
        let call = function(self.raw.nvmlDeviceGetFieldValues.as_ref())?;
        for value in &mut batch.0 {
            *value = blank(&Wanted {
                field: value.fieldId,
                scope: value.scopeId,
            });
        }
        let count = i32::try_from(batch.0.len()).map_err(|_| Code::INVALID_ARGUMENT)?;
        // SAFETY: as declared in nvml.h; the library writes `count` entries at most.
        Code::of(unsafe { call(device.0, count, batch.0.as_mut_ptr()) })
    }
}
