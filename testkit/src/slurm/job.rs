//! Jobs: submission, states, cancellation, and the GPUs that the controller allocated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Slurm, cgroups};
use crate::wait;

impl Slurm {
    /// Submits a job of root that runs `script`; `gres` such as `gpu:2`, or empty. Returns its id.
    pub fn submit(&self, script: &str, gres: &str) -> Result<u32> {
        let gres = format!("--gres={gres}");
        let mut args = vec!["--parsable", "-D", "/", "-o", "/dev/null", "--wrap", script];
        if gres != "--gres=" {
            args.push(&gres);
        }
        let id = self.command("sbatch", &args)?.ok()?.stdout;
        id.trim()
            .parse()
            .with_context(|| format!("sbatch printed {id:?}"))
    }

    /// A job's state, such as `RUNNING`.
    pub fn job_state(&self, id: u32) -> Result<String> {
        let job = self.scontrol(&["show", "job", &id.to_string()])?.ok()?.stdout;
        let state = job
            .split_whitespace()
            .find_map(|word| word.strip_prefix("JobState="));
        state
            .map(str::to_owned)
            .with_context(|| format!("no state in {job}"))
    }

    /// Waits until a job's state is `state`.
    pub fn wait_job(&self, id: u32, state: &str, timeout: Duration) -> Result<()> {
        wait::until(&format!("job {id} {state}"), timeout, || {
            Ok((self.job_state(id).is_ok_and(|s| s == state)).then_some(()))
        })
        .with_context(|| self.log_tails())
    }

    /// Cancels a job.
    pub fn cancel(&self, id: u32) -> Result<()> {
        self.cancel_all([&id])
    }

    /// Cancels jobs.
    pub fn cancel_all<'a>(&self, ids: impl IntoIterator<Item = &'a u32>) -> Result<()> {
        let ids: Vec<String> = ids.into_iter().map(u32::to_string).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.command("scancel", &ids)?.ok().map(drop)
    }

    /// Submits with these sbatch arguments. Returns the job id, for arrays and heterogeneous jobs that of the first.
    pub fn sbatch(&self, args: &[&str]) -> Result<u32> {
        let mut all = vec!["--parsable", "-D", "/", "-o", "/dev/null"];
        all.extend(args);
        let id = self.command("sbatch", &all)?.ok()?.stdout;
        id.trim()
            .parse()
            .with_context(|| format!("sbatch printed {id:?}"))
    }

    /// Ids and states of all jobs that have not ended, each array task and heterogeneous component separately.
    pub fn jobs(&self) -> Result<BTreeMap<u32, String>> {
        self.queue("%T")
    }

    /// Ids and names of the same jobs.
    pub fn job_names(&self) -> Result<BTreeMap<u32, String>> {
        self.queue("%j")
    }

    fn queue(&self, field: &str) -> Result<BTreeMap<u32, String>> {
        let format = format!("%A {field}");
        let text = self.command("squeue", &["-h", "-r", "-o", &format])?.ok()?.stdout;
        let each = text.lines().map(|line| {
            let (id, value) = line.split_once(' ').with_context(|| line.to_owned())?;
            Ok((id.parse()?, value.to_owned()))
        });
        each.collect()
    }

    /// Waits until `many` jobs run and none is pending. Returns their ids.
    pub fn wait_running(&self, many: usize, timeout: Duration) -> Result<Vec<u32>> {
        wait::until(&format!("{many} jobs run"), timeout, || {
            let Ok(jobs) = self.jobs() else { return Ok(None) };
            let run = jobs.len() == many && jobs.values().all(|state| state == "RUNNING");
            Ok(run.then(|| jobs.into_keys().collect()))
        })
        .with_context(|| format!("{:?}\n{}", self.jobs(), self.log_tails()))
    }

    /// The v2 cgroup of a job on a node.
    pub fn job_cgroup(&self, node: &str, id: u32) -> Result<PathBuf> {
        Ok(cgroups::jobs(node)?.join(format!("job_{id}")))
    }

    /// The GPUs of a running job by node, as the controller's positions in the devices of gres.conf. A node without
    /// GPUs of the job has an empty list.
    pub fn job_gpus(&self, id: u32) -> Result<BTreeMap<String, Vec<usize>>> {
        let text = self
            .scontrol(&["show", "job", "-d", &id.to_string()])?
            .ok()?
            .stdout;
        let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        // For an array or a heterogeneous job, scontrol prints all its jobs.
        let head = format!("JobId={id} ");
        let lines = text.lines().skip_while(|line| !line.starts_with(&head));
        let own = lines.skip(1).take_while(|line| !line.starts_with("JobId="));
        for line in own {
            let Some((nodes, gpus)) = positions(line)? else {
                continue;
            };
            let names = self.scontrol(&["show", "hostnames", nodes])?.ok()?.stdout;
            for name in names.lines() {
                found.entry(name.to_owned()).or_default().extend(&gpus);
            }
        }
        Ok(found)
    }
}

/// Nodes and positions from `Nodes=n[0-1] CPU_IDs=0 Mem=0 GRES=gpu:h100:3(IDX:0,2-3)`. For shards, newer releases print
/// the number on each device: `GRES=shard:2(0/4,2/4)`.
fn positions(line: &str) -> Result<Option<(&str, Vec<usize>)>> {
    let mut words = line.split_whitespace();
    let (Some(nodes), Some(gres)) = (
        words.next().and_then(|w| w.strip_prefix("Nodes=")),
        words.find_map(|w| w.strip_prefix("GRES=")),
    ) else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for part in gres.split('(').skip(1) {
        let (list, _) = part.split_once(')').with_context(|| line.to_owned())?;
        let Some(ranges) = list.strip_prefix("IDX:") else {
            for (position, shards) in list.split(',').enumerate() {
                let (used, _) = shards.split_once('/').with_context(|| line.to_owned())?;
                found.extend((used.parse::<u32>()? > 0).then_some(position));
            }
            continue;
        };
        for range in ranges.split(',').filter(|r| !r.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            found.extend(first.parse::<usize>()?..=last.parse()?);
        }
    }
    Ok(Some((nodes, found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_a_job() {
        let of = |line| positions(line).unwrap();
        let some = "     Nodes=n[0-1] CPU_IDs=0,3 Mem=0 GRES=gpu:h100:4(IDX:0,2-4)";
        assert_eq!(of(some), Some(("n[0-1]", vec![0, 2, 3, 4])));
        assert_eq!(of("     Nodes=n2 CPU_IDs=1 Mem=0 GRES="), Some(("n2", vec![])));
        assert_eq!(of("   NodeList=n2"), None);
        let shards = "     Nodes=n2 CPU_IDs=3 Mem=100 GRES=shard:2(0/4,0/4,2/4,0/4)";
        assert_eq!(of(shards), Some(("n2", vec![2])));
        assert!(positions("Nodes=n2 GRES=gpu:1(IDX:x)").is_err());
        assert!(positions("Nodes=n2 GRES=shard:1(4)").is_err());
    }
}
