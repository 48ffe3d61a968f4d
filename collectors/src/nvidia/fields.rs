//! Values read together by one call: nvmlDeviceGetFieldValues. Each value has its own return code; fields that a
//! GPU does not offer are omitted from the next batch.

mod batches;
mod table;

use super::call::Caller;
use super::nvlink::Links;
use crate::gpu::metrics as m;
use crate::sys::nvml::{Code, FieldValue, Handle, Library, Sram, Wanted};
use crate::{Block, Metric, Value};
use batches::{BatchItem, Batches, FieldGroup};

pub(super) use table::{Scale, counter, narrow_counter};

/// All links of a GPU, for fields with a link scope.
pub(super) const ALL_LINKS: u32 = u32::MAX;

/// The fields of one GPU.
pub(super) struct Fields {
    batches: Batches,
    links: Links,
}

/// The id of a field of `nvml.h` 575 in another driver. Driver 575 put five fields before power smoothing, which had begun
/// at 251 in 570; 580.82 (CUDA 13.0 Update 1) moved them behind it: 251 to 255 became 269 to 273.
/// <https://docs.nvidia.com/deploy/nvml-api/known-issues.html>, `nvml.h` of 570.86, 575.51, 580.65 and 580.82
fn number(field: u32, driver: &str) -> u32 {
    let mut parts = driver.split('.').map(|p| p.parse::<u32>().ok());
    let (major, minor) = (parts.next().flatten(), parts.next().flatten());
    let is_before = major < Some(575);
    let is_after = (major, minor) >= (Some(580), Some(82));
    match field {
        // Any numbering may be wrong: drivers reject an id that none defines.
        251..=273 if major.is_none() => u32::MAX,
        251..=255 if is_before => u32::MAX,
        251..=255 if is_after => field + 18,
        256..=273 if is_before || is_after => field - 5,
        _ => field,
    }
}

impl Fields {
    pub(super) fn new(caller: &mut Caller, driver: &str, architecture: &str) -> Self {
        let links = Links::new(caller, architecture);
        let rows = table::ROWS.iter().map(|row| BatchItem {
            wanted: Wanted {
                field: number(row.field, driver),
                scope: row.scope,
            },
            group: FieldGroup::Gpu,
            is_spare: false,
        });
        let links_wanted = links.wanted().into_iter().map(|w| BatchItem {
            wanted: w.wanted,
            group: FieldGroup::of_link(w.wanted.field),
            is_spare: w.is_spare,
        });
        Self {
            batches: Batches::new(rows.chain(links_wanted).collect()),
            links,
        }
    }

    /// Continues with other fields.
    pub(super) fn replace(&mut self, other: Self) {
        let before = std::mem::replace(self, other);
        self.links.go_on_from(before.links);
    }

    /// Sends the first query of a reading.
    pub(super) fn read(&mut self, caller: &mut Caller) {
        self.batches.read(caller);
    }

    /// `ecc`: whether ECC is enabled now.
    pub(super) fn push(&mut self, gpu: &str, caller: &mut Caller, ecc: Option<bool>, out: &mut Block) {
        self.batches.read_rest(caller);
        for (at, row) in table::ROWS.iter().enumerate() {
            let answer = self.batches.get(at);
            let is_answered = self.batches.is_answered(at);
            // A call that failed says nothing about its fields.
            let missing = !is_answered || answer.is_err_and(Code::is_unsupported);
            if let (true, Err(code)) = (is_answered, answer) {
                caller.note_value(code);
            }
            let mut value = answer.ok().and_then(|v| row.number(v));
            if row.ecc && ecc == Some(false) {
                value = None;
            }
            if let (true, None, Some(other)) = (missing, value, &row.instead) {
                let answer: Option<u32> = caller.ask((other.name, 0), other.call);
                value = answer.and_then(|n| row.number(FieldValue::Unsigned(u64::from(n))));
            }
            push(row.metric, gpu, row.labels, row.scale, value, out);
            if let Some((metric, labels)) = row.also {
                push(metric, gpu, labels, row.scale, value, out);
            }
        }
        let first = table::ROWS.len();
        let mut links = std::mem::take(&mut self.links);
        links.push(gpu, caller, |at| self.batches.get(first + at), out);
        self.links = links;
        self.sram(gpu, caller, ecc, out);
        self.batches.shrink();
    }

    /// SRAM errors are in a separate structure.
    fn sram(&self, gpu: &str, caller: &mut Caller, ecc: Option<bool>, out: &mut Block) {
        let sram = caller
            .ask(("GetSramEccErrorStatus", 0), Library::sram)
            .filter(|_| ecc != Some(false));
        let known = |count: fn(&Sram) -> u64| sram.as_ref().map(count).filter(|n| *n != u64::MAX);
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let volatile = [known(|s| s.volatileUncParity), known(|s| s.volatileUncSecDed)];
        let aggregate = [known(|s| s.aggregateUncParity), known(|s| s.aggregateUncSecDed)];
        for (kind, scope, count) in [
            ("corrected", "volatile", known(|s| s.volatileCor)),
            ("uncorrected", "volatile", both(volatile[0], volatile[1])),
            ("corrected", "aggregate", known(|s| s.aggregateCor)),
            ("uncorrected", "aggregate", both(aggregate[0], aggregate[1])),
        ] {
            out.maybe_u64(&m::ECC_LOCATION_ERRORS, &[gpu, kind, scope, "sram"], count);
        }
        for (scope, counts) in [("volatile", volatile), ("aggregate", aggregate)] {
            for (code, count) in ["parity", "secded"].into_iter().zip(counts) {
                out.maybe_u64(&m::ECC_SRAM_UNCORRECTED, &[gpu, scope, code], count);
            }
        }
        for (bucket, count) in [
            ("l2", known(|s| s.aggregateUncBucketL2)),
            ("sm", known(|s| s.aggregateUncBucketSm)),
            ("mcu", known(|s| s.aggregateUncBucketMcu)),
            ("pcie", known(|s| s.aggregateUncBucketPcie)),
            ("other", known(|s| s.aggregateUncBucketOther)),
        ] {
            out.maybe_u64(&m::ECC_SRAM_BUCKET, &[gpu, bucket], count);
        }
        let exceeded = sram
            .as_ref()
            .map(|s| u64::from(s.bThresholdExceeded))
            .filter(|v| *v <= 1);
        out.maybe_u64(&m::ECC_SRAM_THRESHOLD, &[gpu], exceeded);
        if caller.library.lacks_sram() {
            out.u64(&m::ECC_SRAM_LACKING, &[gpu], 1);
        }
    }
}

/// Pushes a value with the labels after `gpu`.
pub(super) fn push(
    metric: &'static Metric,
    gpu: &str,
    labels: &[&str],
    scale: Scale,
    value: Option<u64>,
    out: &mut Block,
) {
    let value = value.map_or(Value::Absent, |v| scale.of(v));
    match labels {
        [] => out.push(metric, &[gpu], value),
        [a] => out.push(metric, &[gpu, a], value),
        [a, b] => out.push(metric, &[gpu, a, b], value),
        [a, b, c, ..] => out.push(metric, &[gpu, a, b, c], value),
    }
}

/// A function that returns the same value on older GPUs.
pub(super) struct Fallback {
    name: &'static str,
    call: fn(&Library, Handle) -> Result<u32, Code>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_other_numbers_before_driver_575_and_from_580_82_on() {
        for (driver, clock_event, smoothing) in [
            ("535.230.02", u32::MAX, 251),
            ("570.86.15", u32::MAX, 251),
            ("570.211.01", u32::MAX, 251),
            ("575.51.03", 251, 256),
            ("580.65.06", 251, 256),
            ("580.82", 269, 251),
            ("580.82.07", 269, 251),
            ("580.105.08", 269, 251),
            ("590.10", 269, 251),
            ("", u32::MAX, u32::MAX),
            ("nonsense", u32::MAX, u32::MAX),
        ] {
            assert_eq!(number(251, driver), clock_event, "{driver}");
            assert_eq!(number(256, driver), smoothing, "{driver}");
            assert_eq!((number(250, driver), number(83, driver)), (250, 83), "{driver}");
        }
        assert_eq!((number(255, "590.0"), number(273, "590.0")), (273, 268));
    }
}
