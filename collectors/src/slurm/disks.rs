//! What a job reads from and writes to disks of this node: `io.stat` of its cgroup, where the controller `io` is enabled.

use std::collections::BTreeMap;

use super::files::NumberFile;
use super::metrics::{JOB_DISK_READ, JOB_DISK_WRITTEN};
use crate::sys::root;
use crate::{Block, Env};

/// More than a hundred disks have; a longer file would be cut in a line.
const MOST: usize = 16 << 10;

/// The file of one job.
pub(super) struct DiskFile {
    file: NumberFile,
    env: Env,
    /// Names of disks by their numbers, `259:0`. A number belongs to one disk while a job uses it.
    names: BTreeMap<String, String>,
}

impl DiskFile {
    pub(super) fn new(file: NumberFile, env: &Env) -> Self {
        Self {
            file,
            env: env.clone(),
            names: BTreeMap::new(),
        }
    }

    pub(super) fn read(&mut self, job: &str, out: &mut Block) {
        let Some(text) = self
            .file
            .read_into(&mut [0; MOST])
            .filter(|text| text.len() < MOST - 1)
        else {
            return;
        };
        for (number, read, written) in text.lines().filter_map(row) {
            if !self.names.contains_key(number) {
                let link = self.env.path(&format!("/sys/dev/block/{number}"));
                let name = root::link_name(&link).ok().flatten();
                self.names
                    .insert(number.to_owned(), name.unwrap_or_else(|| number.to_owned()));
            }
            let name = self.names.get(number).map_or(number, String::as_str);
            out.u64(&JOB_DISK_READ, &[job, name], read);
            out.u64(&JOB_DISK_WRITTEN, &[job, name], written);
        }
    }
}

/// `259:0 rbytes=8192 wbytes=4096 rios=2 wios=1 dbytes=0 dios=0`: the number of the disk, bytes read and written. A disk
/// without requests has no figures; kernels about 5.15 do not end its line, so that the next disk's follows.
fn row(line: &str) -> Option<(&str, u64, u64)> {
    let (before, _) = line.split_once('=')?;
    let (numbers, _) = before.rsplit_once(' ')?;
    let number = numbers.rsplit(' ').next()?;
    let (_, rest) = line.split_at_checked(numbers.len())?;
    let field = |name: &str| {
        let value = rest.split(' ').find_map(|pair| pair.strip_prefix(name))?;
        value.parse().ok()
    };
    Some((number, field("rbytes=")?, field("wbytes=")?))
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn a_row_is_a_disk_with_its_bytes() {
        let line = "259:0 rbytes=8192 wbytes=4096 rios=2 wios=1 dbytes=0 dios=0";
        assert_eq!(row(line), Some(("259:0", 8192, 4096)));
        // Controllers of latency and cost add fields.
        assert_eq!(row(&format!("{line} cost.usage=5")), Some(("259:0", 8192, 4096)));
        let joined = "7:7 7:6 259:0 rbytes=28672 wbytes=0 rios=7 wios=0 dbytes=0 dios=0";
        assert_eq!(row(joined), Some(("259:0", 28672, 0)));
        for odd in [
            "7:7 7:6 7:5",
            "259:0",
            "",
            "259:0 ",
            "259:0 rbytes=8192",
            "259:0 rbytes=-1 wbytes=1",
        ] {
            assert_eq!(row(odd), None, "{odd}");
        }
    }
}
