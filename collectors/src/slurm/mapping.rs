//! Other tools' files that map jobs to GPUs: a file for each GPU with job numbers, one per line.
//!
//! dcgm-exporter reads such a folder (`--hpc-job-mapping-dir`), jobstats writes another (`/run/gpustat`, with the
//! user's number after the job's). A prolog writes the files and an epilog empties them, if it runs: entries of a
//! job without a cgroup here are stale.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use serde::Deserialize;

use crate::device_files;
use crate::sys::root;
use crate::{Env, Error};

/// A folder with more files does not map GPUs.
const MOST_FILES: usize = 1024;

/// How the files of a folder are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MappingKey {
    /// The position in gres.conf.
    Position,
    /// The number of the device file.
    Minor,
    /// The UUID, of a GPU or of an instance.
    Uuid,
}

/// A folder, as configured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mapping {
    pub(super) dir: String,
    names: MappingKey,
}

/// All folders.
#[derive(Debug)]
pub(super) struct Mappings {
    env: Env,
    all: Vec<Mapping>,
    logged: BTreeSet<String>,
}

/// Turns positions into devices.
type ResolvePositions<'a> = dyn FnMut(&[usize]) -> Option<Vec<String>> + 'a;

impl Mappings {
    pub(super) fn new(env: &Env, all: Vec<Mapping>) -> Self {
        Self {
            env: env.clone(),
            all,
            logged: BTreeSet::new(),
        }
    }

    /// Whether no folder is configured.
    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The GPUs of a job, by the first folder that names it. A folder of which a file cannot be read says nothing about any
    /// job; a line that cannot be read costs no other. Both are logged once.
    pub(super) fn gpus(
        &mut self,
        job: u32,
        uid: Option<u32>,
        devices: &mut ResolvePositions<'_>,
    ) -> Option<Vec<String>> {
        for mapping in self.all.clone() {
            let files = match self.files(&mapping, job, uid) {
                Ok(files) => files,
                Err(error) => {
                    self.tell(&error);
                    continue;
                }
            };
            if !files.is_empty() {
                return self.named(&mapping, &files, devices);
            }
        }
        None
    }

    /// The names of the files that contain the job.
    ///
    /// # Errors
    /// When one of them may be missing.
    fn files(&mut self, mapping: &Mapping, job: u32, uid: Option<u32>) -> Result<Vec<String>, Error> {
        let folder = self.env.path(&mapping.dir);
        let names = root::list(&folder)?.unwrap_or_default();
        if names.len() > MOST_FILES {
            let found = format!("{} files", names.len());
            return Err(Error::parse(mapping.dir.as_str(), &found, "a file for each GPU"));
        }
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| !name.starts_with('.')) {
            let path = format!("{}/{name}", mapping.dir.trim_end_matches('/'));
            let text = match root::read_text(&folder.join(&name)) {
                // It was removed meanwhile.
                Ok(text) => text.unwrap_or_default(),
                // A folder holds no job.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::IsADirectory => continue,
                Err(error) => return Err(error),
            };
            // An invalid line costs no other.
            let (jobs, wrong) = jobs(&path, &text);
            for error in &wrong {
                self.tell(error);
            }
            let is_it = |(of, user): &(u32, Option<u32>)| {
                // The same number was a job of another user.
                let is_his = user.is_none_or(|user| uid.is_none_or(|uid| uid == user));
                *of == job && is_his
            };
            found.extend(jobs.iter().any(is_it).then_some(name));
        }
        Ok(found)
    }

    fn named(
        &mut self,
        mapping: &Mapping,
        files: &[String],
        devices: &mut ResolvePositions<'_>,
    ) -> Option<Vec<String>> {
        let expected = match mapping.names {
            MappingKey::Position => "a position in gres.conf",
            MappingKey::Minor => "the number of a device file",
            MappingKey::Uuid => "the UUID of a GPU or an instance",
        };
        let mut numbers = Vec::new();
        let mut uuids = Vec::new();
        for file in files {
            let is_instance = file.starts_with("MIG-");
            match (mapping.names, super::grants::positions(file).as_deref()) {
                (MappingKey::Uuid, _) if is_instance || file.starts_with("GPU-") => uuids.push(file.clone()),
                // jobstats numbers GPUs, and names instances by UUID.
                (MappingKey::Position | MappingKey::Minor, _) if is_instance => uuids.push(file.clone()),
                (MappingKey::Position | MappingKey::Minor, Some([number])) => numbers.push(*number),
                _ => {
                    let what = format!("{}/{file}", mapping.dir.trim_end_matches('/'));
                    self.tell(&Error::parse(what, file, expected));
                    // The GPU would be ambiguous.
                    return None;
                }
            }
        }
        let mut gpus = match mapping.names {
            MappingKey::Position if !numbers.is_empty() => devices(&numbers)?,
            _ => numbers
                .iter()
                .map(|minor| device_files::NVIDIA.name(minor))
                .collect(),
        };
        gpus.extend(uuids);
        Some(gpus)
    }

    fn tell(&mut self, error: &Error) {
        const MOST: usize = 64;
        let error = error.to_string();
        if self.logged.len() < MOST && self.logged.insert(error.clone()) {
            tracing::warn!(error, "unusable file in a directory of slurm.jobs.mapping");
        }
    }
}

/// The jobs in a file with their users, if given, and the invalid lines.
fn jobs(path: &str, text: &str) -> (Vec<(u32, Option<u32>)>, Vec<Error>) {
    let (mut jobs, mut wrong) = (Vec::new(), Vec::new());
    for (line, at) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let job = match (words.next(), words.next(), words.next()) {
            (None, ..) => continue,
            (Some(job), None, None) => job.parse().ok().map(|job| (job, None)),
            (Some(job), Some(user), None) => job
                .parse()
                .ok()
                .zip(user.parse().ok())
                .map(|(job, user)| (job, Some(user))),
            _ => None,
        };
        let expected = "a job number, optionally followed by a user number";
        match job {
            Some(job) => jobs.push(job),
            None => wrong.push(Error::parse(format!("{path}:{at}"), line, expected)),
        }
    }
    (jobs, wrong)
}

#[cfg(test)]
mod tests {
    use testkit::tree::{Entry, put};

    use super::*;

    fn gpus(
        names: MappingKey,
        files: &[(&str, &str)],
        job: u32,
        uid: Option<u32>,
    ) -> (Option<Vec<String>>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::with_sysroot(dir.path());
        for (name, text) in files {
            put(
                &env.path("/run/gpustat").join(name),
                &Entry::File(text.as_bytes().to_vec()),
            )
            .unwrap();
        }
        let mapping = Mapping {
            dir: "/run/gpustat/".to_owned(),
            names,
        };
        let mut mappings = Mappings::new(&env, vec![mapping]);
        let mut devices = |positions: &[usize]| Some(positions.iter().map(|p| format!("at {p}")).collect());
        let found = mappings.gpus(job, uid, &mut devices);
        (found, mappings.logged.into_iter().collect())
    }

    fn found(names: MappingKey, files: &[(&str, &str)], uid: Option<u32>) -> Option<String> {
        let (found, logged) = gpus(names, files, 7, uid);
        assert!(logged.is_empty(), "{logged:?}");
        found.map(|gpus| gpus.join(" "))
    }

    #[test]
    fn a_job_has_the_gpus_whose_files_name_it() {
        let files = [
            ("0", "7\n"),
            ("1", ""),
            ("2", "8\n7\n"),
            ("3", "71\n"),
            (".tmp", "7 x y\n"),
        ];
        assert_eq!(
            found(MappingKey::Minor, &files, None).as_deref(),
            Some("nvidia0 nvidia2")
        );
        assert_eq!(
            found(MappingKey::Position, &files, None).as_deref(),
            Some("at 0 at 2")
        );
        let files = [("GPU-1a", "7 1000"), ("MIG-2b", "7 1000"), ("GPU-3c", "9 1000")];
        assert_eq!(
            found(MappingKey::Uuid, &files, Some(1000)).as_deref(),
            Some("GPU-1a MIG-2b")
        );
        assert_eq!(found(MappingKey::Uuid, &files[2..], None), None);
        // As jobstats names them on a node with both.
        let files = [("MIG-2b", "7 1000"), ("0", "7 1000"), ("MIG-3c", "9 1000")];
        assert_eq!(
            found(MappingKey::Position, &files, Some(1000)).as_deref(),
            Some("at 0 MIG-2b")
        );
        assert_eq!(
            found(MappingKey::Minor, &files, Some(1000)).as_deref(),
            Some("nvidia0 MIG-2b")
        );
        assert_eq!(
            found(MappingKey::Position, &files[..1], Some(1000)).as_deref(),
            Some("MIG-2b")
        );
        assert_eq!(found(MappingKey::Uuid, &[], None), None);
    }

    /// The job number was reused, and no epilog emptied the file.
    #[test]
    fn a_line_of_another_user_is_about_another_job() {
        let files = [("0", "7 1000\n"), ("1", "7 1001\n")];
        assert_eq!(
            found(MappingKey::Minor, &files, Some(1001)).as_deref(),
            Some("nvidia1")
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_and_costs_no_other() {
        let files = [("0", "7\n7_1\n"), ("1", "7\n")];
        let (found, logged) = gpus(MappingKey::Minor, &files, 7, None);
        assert_eq!(found.unwrap(), ["nvidia0", "nvidia1"]);
        assert_eq!(
            logged,
            ["/run/gpustat/0:2: found \"7_1\", expected a job number, optionally followed by a user number"]
        );
    }

    /// Any job may be in it.
    #[test]
    fn a_file_that_cannot_be_read_leaves_all_jobs_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::with_sysroot(dir.path());
        let file = |path: &str, text: &[u8]| put(&env.path(path), &Entry::File(text.to_vec())).unwrap();
        let gpus = || {
            let mapping = |dir: &str| Mapping {
                dir: dir.to_owned(),
                names: MappingKey::Minor,
            };
            let all = vec![mapping("/run/gpustat"), mapping("/run/other")];
            let mut mappings = Mappings::new(&env, all);
            let found = mappings.gpus(7, None, &mut |_| None);
            (found.unwrap_or_default().concat(), mappings.logged.len())
        };
        file("/run/gpustat/0", b"7\n");
        put(&env.path("/run/gpustat/folder/x"), &Entry::Folder).unwrap();
        assert_eq!(gpus(), ("nvidia0".to_owned(), 0));
        file("/run/gpustat/1", b"\xff\n");
        assert_eq!(gpus(), (String::new(), 1));
        // Another tool's files are whole.
        file("/run/other/3", b"7\n");
        assert_eq!(gpus(), ("nvidia3".to_owned(), 1));
        file("/run/gpustat/1", b"");
        assert_eq!(gpus(), ("nvidia0".to_owned(), 0));
        for n in 0..MOST_FILES {
            file(&format!("/run/gpustat/{}", 1000 + n), b"");
        }
        assert_eq!(gpus(), ("nvidia3".to_owned(), 1), "too many");
    }

    #[test]
    fn a_file_that_is_named_by_something_else_leaves_its_jobs_unknown() {
        for (names, name) in [
            (MappingKey::Minor, "GPU-1a"),
            (MappingKey::Position, "0.1"),
            (MappingKey::Uuid, "0"),
        ] {
            let (found, logged) = gpus(names, &[(name, "7\n"), ("1", "8\n")], 7, None);
            assert_eq!(found, None, "{name}");
            assert!(
                logged
                    .concat()
                    .starts_with(&format!("/run/gpustat/{name}: found ")),
                "{logged:?}"
            );
        }
    }
}
