//! Names of the GPM metrics.

/// Ids and names of metrics outside a series. README.md of this crate lists the sources.
const NAMES: &[(u32, &str)] = &[
    (1, "GRAPHICS_UTIL"),
    (2, "SM_UTIL"),
    (3, "SM_OCCUPANCY"),
    (4, "INTEGER_UTIL"),
    (5, "ANY_TENSOR_UTIL"),
    (6, "DFMA_TENSOR_UTIL"),
    (7, "HMMA_TENSOR_UTIL"),
    (9, "IMMA_TENSOR_UTIL"),
    (10, "DRAM_BW_UTIL"),
    (11, "FP64_UTIL"),
    (12, "FP32_UTIL"),
    (13, "FP16_UTIL"),
    (20, "PCIE_TX_PER_SEC"),
    (21, "PCIE_RX_PER_SEC"),
    (60, "NVLINK_TOTAL_RX_PER_SEC"),
    (61, "NVLINK_TOTAL_TX_PER_SEC"),
    (100, "C2C_TOTAL_TX_PER_SEC"),
    (101, "C2C_TOTAL_RX_PER_SEC"),
    (102, "C2C_DATA_TX_PER_SEC"),
    (103, "C2C_DATA_RX_PER_SEC"),
    (160, "HOSTMEM_CACHE_HIT"),
    (161, "HOSTMEM_CACHE_MISS"),
    (162, "PEERMEM_CACHE_HIT"),
    (163, "PEERMEM_CACHE_MISS"),
    (164, "DRAM_CACHE_HIT"),
    (165, "DRAM_CACHE_MISS"),
    (248, "SM_CYCLES_ELAPSED"),
    (249, "SM_CYCLES_ACTIVE"),
    (250, "MMA_CYCLES_ACTIVE"),
    (251, "DMMA_CYCLES_ACTIVE"),
    (252, "HMMA_CYCLES_ACTIVE"),
    (253, "IMMA_CYCLES_ACTIVE"),
    (254, "DFMA_CYCLES_ACTIVE"),
    (255, "PCIE_TX"),
    (256, "PCIE_RX"),
    (257, "INTEGER_CYCLES_ACTIVE"),
    (258, "FP64_CYCLES_ACTIVE"),
    (259, "FP32_CYCLES_ACTIVE"),
    (260, "FP16_CYCLES_ACTIVE"),
];

/// Series: text before and after the number, first id, distance between ids, count.
const SERIES: &[(&str, &str, u32, u32, u32)] = &[
    ("NVDEC_", "_UTIL", 30, 1, 8),
    ("NVJPG_", "_UTIL", 40, 1, 8),
    ("NVOFA_", "_UTIL", 50, 1, 2),
    ("NVENC_", "_UTIL", 166, 1, 4),
    ("NVLINK_L", "_RX_PER_SEC", 62, 2, 18),
    ("NVLINK_L", "_TX_PER_SEC", 63, 2, 18),
    ("NVLINK_L", "_RX", 261, 2, 36),
    ("NVLINK_L", "_TX", 262, 2, 36),
];

/// Above every id in the headers so far.
pub const MOST: u32 = 477;

/// The id of a metric, by its name without `NVML_GPM_METRIC_` or by its number.
#[must_use]
pub fn id(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return (1..MOST).contains(&number).then_some(number);
    }
    if let Some((id, _)) = NAMES.iter().find(|(_, n)| *n == name) {
        return Some(*id);
    }
    if let Some(link) = later_link(name, "_RX_PER_SEC") {
        return Some(212 + (link - 18) * 2);
    }
    if let Some(link) = later_link(name, "_TX_PER_SEC") {
        return Some(213 + (link - 18) * 2);
    }
    SERIES.iter().find_map(|(before, behind, first, apart, count)| {
        let middle = name.strip_prefix(before)?.strip_suffix(behind)?;
        let number: u32 = middle.parse().ok()?;
        (number < *count).then_some(first + number * apart)
    })
}

/// Links 18 to 35: their ids start at a new base, so that link 0 of the series would have a negative id.
fn later_link(name: &str, behind: &str) -> Option<u32> {
    let link = name
        .strip_prefix("NVLINK_L")?
        .strip_suffix(behind)?
        .parse()
        .ok()?;
    (18..36).contains(&link).then_some(link)
}

/// The name of a metric, or its number.
#[must_use]
pub fn name(id: u32) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(i, _)| *i == id) {
        return (*name).to_owned();
    }
    if (212..248).contains(&id) {
        let way = if id.is_multiple_of(2) { "RX" } else { "TX" };
        return format!("NVLINK_L{}_{way}_PER_SEC", (id - 212) / 2 + 18);
    }
    let series = SERIES.iter().find_map(|(before, behind, first, apart, count)| {
        let past = id.checked_sub(*first)?;
        (past % apart == 0 && past / apart < *count).then(|| format!("{before}{}{behind}", past / apart))
    });
    series.unwrap_or_else(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_with_the_header() {
        use nvml_wrapper_sys::bindings as h;
        assert_eq!(
            id("NVLINK_L17_TX_PER_SEC"),
            Some(h::nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC)
        );
        assert_eq!(
            id("NVOFA_1_UTIL"),
            Some(h::nvmlGpmMetricId_t_NVML_GPM_METRIC_NVOFA_1_UTIL)
        );
        assert_eq!(id("NVLINK_L18_RX_PER_SEC"), Some(212));
        assert_eq!(id("NVLINK_L35_TX_PER_SEC"), Some(247));
        assert_eq!(id("NVLINK_L36_TX_PER_SEC"), None);
        assert_eq!(id("NVLINK_L17_TX"), Some(296));
        assert_eq!(id("261"), Some(261));
        for i in 1..MOST {
            assert_eq!(id(&name(i)), Some(i));
        }
    }
}
