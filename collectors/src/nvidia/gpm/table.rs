//! The table of GPM metrics and their series.

use crate::gpu::metrics as m;
use crate::nvidia::metrics as n;
use crate::{Block, Metric, Value};

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpmUnit {
    /// Percent; the series is a ratio.
    Percent,
    /// MiB per second.
    Rate,
    /// Counts since the GPU started.
    Counter,
}

/// One metric.
#[derive(Debug)]
pub(super) struct Row {
    id: u32,
    metric: &'static Metric,
    /// The label after `gpu` and `gpu_instance`, if any.
    label: Option<&'static str>,
    unit: GpmUnit,
}

const fn ratio(id: u32, metric: &'static Metric) -> Row {
    Row {
        id,
        metric,
        label: None,
        unit: GpmUnit::Percent,
    }
}

const fn rate(id: u32, metric: &'static Metric) -> Row {
    Row {
        unit: GpmUnit::Rate,
        ..ratio(id, metric)
    }
}

const fn labelled(id: u32, metric: &'static Metric, label: &'static str) -> Row {
    Row {
        label: Some(label),
        ..ratio(id, metric)
    }
}

const fn counter(id: u32, metric: &'static Metric) -> Row {
    Row {
        unit: GpmUnit::Counter,
        ..ratio(id, metric)
    }
}

const fn cycles(id: u32, label: &'static str) -> Row {
    Row {
        unit: GpmUnit::Counter,
        ..labelled(id, &n::PIPE_CYCLES, label)
    }
}

/// All metrics. The counters are last: a driver that does not know them gets the query without them.
pub(super) static ROWS: &[Row] = &[
    ratio(1, &n::GRAPHICS_ACTIVE),
    ratio(2, &n::SM_ACTIVE),
    ratio(3, &n::SM_OCCUPANCY),
    ratio(5, &n::TENSOR_ACTIVE),
    ratio(10, &n::DRAM_ACTIVE),
    labelled(11, &n::PIPE_ACTIVE, "fp64"),
    labelled(12, &n::PIPE_ACTIVE, "fp32"),
    labelled(13, &n::PIPE_ACTIVE, "fp16"),
    labelled(4, &n::PIPE_ACTIVE, "integer"),
    labelled(6, &n::PIPE_ACTIVE, "tensor_dfma"),
    labelled(7, &n::PIPE_ACTIVE, "tensor_hmma"),
    labelled(9, &n::PIPE_ACTIVE, "tensor_imma"),
    labelled(30, &n::ENGINE_ACTIVE, "nvdec0"),
    labelled(31, &n::ENGINE_ACTIVE, "nvdec1"),
    labelled(32, &n::ENGINE_ACTIVE, "nvdec2"),
    labelled(33, &n::ENGINE_ACTIVE, "nvdec3"),
    labelled(34, &n::ENGINE_ACTIVE, "nvdec4"),
    labelled(35, &n::ENGINE_ACTIVE, "nvdec5"),
    labelled(36, &n::ENGINE_ACTIVE, "nvdec6"),
    labelled(37, &n::ENGINE_ACTIVE, "nvdec7"),
    labelled(40, &n::ENGINE_ACTIVE, "nvjpg0"),
    labelled(41, &n::ENGINE_ACTIVE, "nvjpg1"),
    labelled(42, &n::ENGINE_ACTIVE, "nvjpg2"),
    labelled(43, &n::ENGINE_ACTIVE, "nvjpg3"),
    labelled(44, &n::ENGINE_ACTIVE, "nvjpg4"),
    labelled(45, &n::ENGINE_ACTIVE, "nvjpg5"),
    labelled(46, &n::ENGINE_ACTIVE, "nvjpg6"),
    labelled(47, &n::ENGINE_ACTIVE, "nvjpg7"),
    labelled(50, &n::ENGINE_ACTIVE, "nvofa0"),
    labelled(51, &n::ENGINE_ACTIVE, "nvofa1"),
    rate(20, &n::PCIE_TRANSMIT_RATE),
    rate(21, &n::PCIE_RECEIVE_RATE),
    rate(61, &n::NVLINK_TRANSMIT_RATE),
    rate(60, &n::NVLINK_RECEIVE_RATE),
    rate(100, &n::C2C_TRANSMIT_RATE),
    rate(101, &n::C2C_RECEIVE_RATE),
    counter(248, &n::SM_CYCLES),
    counter(255, &m::PCIE_TRANSMITTED),
    counter(256, &m::PCIE_RECEIVED),
    cycles(249, "sm"),
    cycles(250, "tensor"),
    cycles(251, "tensor_dmma"),
    cycles(252, "tensor_hmma"),
    cycles(253, "tensor_imma"),
    cycles(254, "tensor_dfma"),
    cycles(257, "integer"),
    cycles(258, "fp64"),
    cycles(259, "fp32"),
    cycles(260, "fp16"),
];

/// The ids to query, with or without the counters.
pub(super) fn ids(counters: bool) -> Vec<u32> {
    let wanted = ROWS.iter().filter(|r| counters || r.unit != GpmUnit::Counter);
    wanted.map(|r| r.id).collect()
}

impl Row {
    /// `value`: as returned by the library. A value out of range was not measured.
    pub(super) fn push(&self, gpu: &str, part: &str, value: Option<f64>, out: &mut Block) {
        let value = value.filter(|v| *v >= 0.0).and_then(|v| match self.unit {
            // The driver's rounding slightly exceeds 100.
            GpmUnit::Percent => (v <= 100.5).then(|| (v / 100.0).min(1.0)),
            // Higher than any link rate.
            GpmUnit::Rate => (v < 1e8).then_some(v * 1_048_576.0),
            GpmUnit::Counter => (v < 1.8e19).then_some(v),
        });
        let value = value.map_or(Value::Absent, Value::F64);
        match self.label {
            // Values of whole GPUs only.
            None if self.metric.labels.len() == 1 => {
                if part.is_empty() {
                    out.push(self.metric, &[gpu], value);
                }
            }
            None => out.push(self.metric, &[gpu, part], value),
            Some(label) => out.push(self.metric, &[gpu, part, label], value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::nvml::gpm;

    #[test]
    fn one_question_holds_all_of_them_and_the_counters_come_last() {
        assert!(ROWS.len() <= gpm::MOST);
        let (all, rates) = (ids(true), ids(false));
        assert_eq!(all.get(..rates.len()), Some(rates.as_slice()));
        assert_eq!(all.len(), ROWS.len());
        assert!(rates.iter().all(|id| *id <= 210));
    }
}
