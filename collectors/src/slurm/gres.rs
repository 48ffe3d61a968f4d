//! The device files of each position, by gres.conf: the numbers of SLURM_JOB_GPUS are positions, not minor numbers.
//!
//! Slurm numbers the device files of `Name=gpu` in the order of lines and of names within a line: those without
//! NodeName first, then those of this node (`gres_g_node_config_load`, `common_node_config_load` of 22.05). It
//! sorts them with AutoDetect, and by the types of slurm.conf if there are several; the order of both is unknown
//! here.

mod lines;

use std::collections::BTreeSet;

use super::hostlist;
use crate::Error;
use lines::GresLine;

/// The device files of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// A device file.
    One(String),
    /// Several that are allocated together: an instance of a GPU and its access files.
    Several(Vec<String>),
}

/// Maximum depth of nested includes.
const DEPTH: usize = 4;
/// A longer file is no gres.conf.
const MOST_LINES: usize = 65_536;

const KEYS: [&str; 13] = [
    "autodetect",
    "count",
    "cpus",
    "cores",
    "file",
    "files",
    "flags",
    "link",
    "links",
    "multiplefiles",
    "name",
    "nodename",
    "type",
];

/// Flags that change the environment of a job and not its devices.
const FLAGS: [&str; 9] = [
    "nvidia_gpu_env",
    "amd_gpu_env",
    "intel_gpu_env",
    "opencl_env",
    "no_gpu_env",
    "one_sharing",
    "all_sharing",
    "explicit",
    "env_uuid",
];

/// Reads an included file: returns its name and its text. Arguments: the including file, and the name in its line.
pub(super) type ReadInclude<'a> = dyn FnMut(&str, &str) -> Result<(String, String), Error> + 'a;

/// The devices of a node, by position. `node`: its name, if known.
///
/// # Errors
/// The line that is invalid, or that leaves the order to Slurm.
pub(super) fn positions(
    file: &str,
    text: &str,
    node: Option<&str>,
    read: &mut ReadInclude<'_>,
) -> Result<Vec<Position>, Error> {
    let mut all = Vec::new();
    collect(file, text, DEPTH, read, &mut all)?;
    let mut conf = GresConf {
        node,
        ..GresConf::default()
    };
    for line in &all {
        conf.take(line)?;
    }
    conf.finish(file)
}

/// The lines of a file and of those that it includes, in order.
fn collect(
    file: &str,
    text: &str,
    depth: usize,
    read: &mut ReadInclude<'_>,
    all: &mut Vec<GresLine>,
) -> Result<(), Error> {
    for line in lines::lines(file, text) {
        if let Some(name) = line.included() {
            // Slurm replaces %c and the like by names.
            if depth == 0 || name.contains(['%', ' ', '\t', '\\', '"']) {
                return Err(line.error(name, "a file's name, four levels deep at most"));
            }
            let (inner, text) = read(file, name)?;
            collect(&inner, &text, depth - 1, read, all)?;
        } else {
            all.push(line);
        }
        if all.len() > MOST_LINES {
            return Err(Error::parse(file, "more than 65536 lines", "a gres.conf"));
        }
    }
    Ok(())
}

/// The parsed content.
#[derive(Default)]
struct GresConf<'a> {
    node: Option<&'a str>,
    /// Of lines without NodeName, and of lines for this node.
    general: Vec<Position>,
    own: Vec<Position>,
    /// Their types, in lower case.
    types: BTreeSet<Option<String>>,
    /// The line that enables AutoDetect, for all nodes and for this one.
    detects: Option<Error>,
    own_detects: Option<Result<(), Error>>,
    /// Why the order is unknown.
    unknown: Option<Error>,
}

impl GresConf<'_> {
    fn take(&mut self, line: &GresLine) -> Result<(), Error> {
        let pairs = line.pairs()?;
        let get = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| *value);
        let first = pairs.first().map(|(key, _)| key.as_str()).unwrap_or_default();
        if let Some((key, _)) = pairs.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
            return Err(line.error(key, "a key of gres.conf"));
        }
        match first {
            "autodetect" if pairs.len() == 1 => {
                let detects = detection(line, get("autodetect").unwrap_or_default()).err();
                self.detects = self.detects.take().or(detects);
                return Ok(());
            }
            "name" if get("nodename").is_some() || get("autodetect").is_some() => {
                return Err(line.error(&line.text, "NodeName at the beginning of the line"));
            }
            "name" | "nodename" => {}
            _ => return Err(line.error(first, "Name, NodeName or AutoDetect first")),
        }
        let is_own = first == "nodename";
        if is_own && !self.is_here(line, get("nodename").unwrap_or_default())? {
            return Ok(());
        }
        if let Some(value) = get("autodetect") {
            self.own_detects = Some(match (self.own_detects.take(), detection(line, value)) {
                (Some(Err(error)), _) | (_, Err(error)) => Err(error),
                (_, Ok(())) => Ok(()),
            });
        }
        let Some(name) = get("name") else {
            // A line with only AutoDetect.
            return Ok(());
        };
        let (one, several) = (get("file").or(get("files")), get("multiplefiles"));
        match name.to_ascii_lowercase().as_str() {
            "gpu" => {}
            // Separately listed ones have separate positions, which prologs receive under the same name.
            "shard" | "mps" if one.is_some() || several.is_some() => {
                return Err(line.error(&line.text, "Name=shard and Name=mps without File"));
            }
            _ => return Ok(()),
        }
        let flags = get("flags").unwrap_or_default().to_ascii_lowercase();
        if let Some(flag) = flags
            .split(',')
            .find(|f| !f.is_empty() && !FLAGS.contains(&f.trim()))
        {
            return Err(line.error(flag, "flags about the environment of jobs"));
        }
        let names = |text: &str| {
            let names = hostlist::expand(text).filter(|names| names.iter().all(|name| name.starts_with('/')));
            names.ok_or_else(|| {
                line.error(
                    text,
                    "device files by absolute path, one range of numbers in each name",
                )
            })
        };
        let devices: Vec<Position> = match (one, several) {
            (Some(files), None) => names(files)?.into_iter().map(Position::One).collect(),
            (None, Some(files)) => vec![Position::Several(names(files)?)],
            _ => return Err(line.error(&line.text, "either File or MultipleFiles")),
        };
        if let Some(count) = get("count").filter(|count| count.parse() != Ok(devices.len())) {
            return Err(line.error(count, "as many as there are device files"));
        }
        self.types.insert(get("type").map(str::to_ascii_lowercase));
        let of = if is_own { &mut self.own } else { &mut self.general };
        of.extend(devices);
        Ok(())
    }

    /// Whether a line applies to this node.
    fn is_here(&mut self, line: &GresLine, nodes: &str) -> Result<bool, Error> {
        let names = hostlist::expand(nodes)
            .ok_or_else(|| line.error(nodes, "names of nodes, one range of numbers in each"))?;
        if self.node.is_none() {
            let found = "no name of this node";
            self.unknown = Some(line.error(found, "slurm.node_name, since there are lines for some nodes"));
        }
        Ok(self
            .node
            .is_some_and(|node| names.iter().any(|name| name == node)))
    }

    fn finish(self, file: &str) -> Result<Vec<Position>, Error> {
        if let Some(error) = self.unknown {
            return Err(error);
        }
        match (self.own_detects, self.detects) {
            (Some(Err(error)), _) | (None, Some(error)) => return Err(error),
            _ => {}
        }
        if self.types.len() > 1 {
            let types: Vec<String> = self.types.into_iter().map(Option::unwrap_or_default).collect();
            return Err(Error::parse(
                file,
                &types.join(", "),
                "GPUs of one Type: their order is that of slurm.conf otherwise",
            ));
        }
        let all: Vec<Position> = self.general.into_iter().chain(self.own).collect();
        let mut known = BTreeSet::new();
        let ones = all.iter().filter_map(|position| match position {
            Position::One(file) => Some(file),
            Position::Several(_) => None,
        });
        for one in ones {
            if !known.insert(one) {
                return Err(Error::parse(file, one, "each device file once"));
            }
        }
        if all.is_empty() {
            return Err(Error::parse(
                file,
                "none",
                "lines with Name=gpu and File for this node",
            ));
        }
        Ok(all)
    }
}

/// Whether Slurm keeps the devices in the written order.
fn detection(line: &GresLine, value: &str) -> Result<(), Error> {
    if value.eq_ignore_ascii_case("off") {
        return Ok(());
    }
    Err(line.error(
        &format!("AutoDetect={value}"),
        "AutoDetect=off: else the order is that in which Slurm finds GPUs",
    ))
}

/// Fuzzing: the device file of a position occurs in the text, or is part of a range.
///
/// # Panics
/// If it is not.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut included = |_: &str, _: &str| Err(Error::NotRecorded("include"));
    let Ok(all) = positions("gres.conf", &text, Some("n0"), &mut included) else {
        return;
    };
    // A line may continue in the middle of a word.
    let lines: Vec<String> = lines::lines("", &text)
        .into_iter()
        .map(|line| line.text)
        .collect();
    let lines = lines.join("\n");
    let lower = lines.to_ascii_lowercase();
    assert!(
        !all.is_empty() && lower.contains("gpu") && lower.contains("file"),
        "{text:?}"
    );
    for position in &all {
        let files = match position {
            Position::One(file) => std::slice::from_ref(file),
            Position::Several(files) => files.as_slice(),
        };
        for file in files {
            let prefix = file.trim_end_matches(|c: char| c.is_ascii_digit());
            assert!(
                file.starts_with('/') && lines.contains(prefix),
                "{text:?}: {file:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests;
