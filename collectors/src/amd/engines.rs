//! Utilization of engines: compute dies, video and JPEG engines, of the GPU or of each partition.
//!
//! Tables before v1.9 have the engines of each partition. Later ones have those of the whole GPU, and the driver has a
//! table `xcp_metrics` for each partition of a GPU that is divided (kernel: `amdgpu_xcp.c`).

use super::files::{GpuFiles, TableFile};
use super::gpu_metrics::{Field, MAX_PARTITIONS, Table};
use super::metrics as n;
use super::sensors::percent;
use super::topology::part;
use crate::Block;
use crate::gpu::metrics as m;

/// Where the engines of a partition, or of the whole GPU, are.
struct Place<'a> {
    /// The label of the partition.
    part: String,
    table: &'a Table<'a>,
    /// The partition within the table.
    number: usize,
}

/// Pushes the engines. `table`: of the GPU, if it could be read. `folders`: of the device of each partition.
pub(super) fn push(gpu: &str, table: Option<&Table<'_>>, folders: &[GpuFiles], out: &mut Block) {
    let is_divided = table.is_some_and(|table| table.is_divided(Field::XccActivity));
    if folders.len() > 1 && !is_divided && push_files(gpu, folders, out) {
        return;
    }
    let Some(table) = table else { return };
    let places = |field| places(table, field, folders.len());
    push_engines(gpu, &places, out);
    push_jpeg(gpu, &places, out);
}

/// The places of a field in the table of a GPU with this number of partitions.
fn places<'a>(table: &'a Table<'a>, field: Field, partitions: usize) -> Vec<Place<'a>> {
    let partitions = match table.is_divided(field) {
        true => partitions.clamp(1, MAX_PARTITIONS),
        false => 1,
    };
    let counted = table.get(Field::Partitions).filter(|_| table.is_divided(field));
    if counted.is_some_and(|counted| counted != partitions as u64) {
        // KFD does not show them all: their numbers are unknown.
        return Vec::new();
    }
    let place = |number| Place {
        part: part(number, partitions),
        table,
        number,
    };
    (0..partitions).map(place).collect()
}

/// Reads and pushes the table of each partition. `false`: the driver has none.
fn push_files(gpu: &str, folders: &[GpuFiles], out: &mut Block) -> bool {
    let files: Vec<TableFile> = folders.iter().map(GpuFiles::partition_table).collect();
    if files.iter().all(|file| matches!(file, TableFile::Absent)) {
        return false;
    }
    let mut tables = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let part = part(at, folders.len());
        let (revision, state) = match file {
            TableFile::Absent => (String::new(), "absent"),
            TableFile::Unreadable => (String::new(), "unreadable"),
            TableFile::Read(bytes) => match Table::parse_partition(bytes) {
                Ok(table) => {
                    let revision = table.revision.to_string();
                    tables.push((part.clone(), table));
                    (revision, "read")
                }
                Err(refused) => (refused.revision(), refused.word()),
            },
        };
        out.info(&n::PARTITION_TABLE_INFO, &[gpu, &part, &revision, state]);
    }
    let places = |_| {
        let all = tables.iter().map(|(part, table)| Place {
            part: part.clone(),
            table,
            number: 0,
        });
        all.collect()
    };
    push_engines(gpu, &places, out);
    // The mean of some partitions is not that of the GPU.
    if tables.len() == folders.len() {
        push_jpeg(gpu, &places, out);
    }
    true
}

fn push_engines<'a>(gpu: &str, places: &impl Fn(Field) -> Vec<Place<'a>>, out: &mut Block) {
    for (metric, field) in [
        (&n::XCC_UTILIZATION, Field::XccActivity),
        (&n::VIDEO_UTILIZATION, Field::VideoActivity),
    ] {
        for place in places(field) {
            let engines = place.table.list_of(field, place.number);
            for (engine, busy) in (0_u64..).zip(engines) {
                if busy.is_some() {
                    percent(out, metric, &[gpu, &place.part, &engine.to_string()], busy);
                }
            }
        }
    }
}

/// There are up to 40 of them: their mean.
fn push_jpeg<'a>(gpu: &str, places: &impl Fn(Field) -> Vec<Place<'a>>, out: &mut Block) {
    let field = Field::JpegActivity;
    let mut jpeg: Vec<u64> = Vec::new();
    for place in places(field) {
        jpeg.extend(place.table.list_of(field, place.number).flatten());
    }
    let engines = u64::try_from(jpeg.len()).unwrap_or(0);
    if let Some(mean) = jpeg.iter().sum::<u64>().checked_div(engines) {
        percent(out, &m::JPEG_UTILIZATION, &[gpu], Some(mean));
    }
}
