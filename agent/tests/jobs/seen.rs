//! All owners of GPUs that daemons have reported, for tests of every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use testkit::exposition::Sample;

use crate::cluster::{Cluster, owners};

/// A scrape of one node may not take longer, whatever becomes of Slurm.
const LONGEST: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Seen {
    /// Node, GPU and job, with the evidence.
    pub owners: BTreeSet<((String, String, u32), String)>,
    /// Jobs that were shown on one GPU at once.
    pub together: BTreeSet<BTreeSet<u32>>,
    pub looks: usize,
    pub longest: Duration,
}

impl Seen {
    /// Reads a page of each node and keeps its owners.
    pub fn look(&mut self, cluster: &Cluster) -> BTreeMap<String, Vec<Sample>> {
        let mut pages = BTreeMap::new();
        for (name, node) in &cluster.nodes {
            let begin = Instant::now();
            pages.insert(name.clone(), node.metrics());
            self.longest = self.longest.max(begin.elapsed());
        }
        let mut jobs: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
        for ((node, gpu, job), (evidence, _)) in owners(&pages) {
            jobs.entry((node.clone(), gpu.clone())).or_default().insert(job);
            self.owners.insert(((node, gpu, job), evidence));
        }
        let several = jobs.into_values().filter(|jobs| jobs.len() > 1);
        self.together.extend(several);
        self.looks += 1;
        assert!(self.longest < LONGEST, "a scrape took {:?}", self.longest);
        pages
    }
}
