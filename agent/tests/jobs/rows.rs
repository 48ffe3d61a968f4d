//! Tests each row of the table on its own cluster: jobs of every kind begin and end. On every node the daemon reports
//! the GPUs that the controller allocated or none, as in the row, and never others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use testkit::slurm::{Cgroups, Installation, SlurmOptions, Version, steps};
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, ENDS, Owned, job, options, owners, series, shares};
use crate::hooks::Hooks;
use crate::mix;
use crate::order::{ORDER, devices};
use crate::seen::Seen;
use crate::table::{Answer, Kind, Row, TABLE};

/// Those of the release that is installed, or of the one in the root that `TESTKIT_SLURM_ROOT` names.
#[test]
fn on_every_node_a_job_has_the_gpus_that_slurm_gave_it_or_nothing_is_said() {
    let installation = Installation::of_environment();
    let release = installation.version().unwrap();
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.release == release).collect();
    assert!(!rows.is_empty(), "the table has no row of Slurm {release:?}");
    // They mostly wait.
    for some in rows.chunks(4) {
        std::thread::scope(|scope| {
            for row in some {
                let check = || Trial::run(row, installation.clone());
                std::thread::Builder::new()
                    .name(row.title())
                    .spawn_scoped(scope, check)
                    .unwrap();
            }
        });
    }
}

#[test]
fn the_table_has_each_configuration_of_a_release_once() {
    let releases: BTreeSet<_> = TABLE.iter().map(|row| row.release).collect();
    for release in releases {
        let rows = TABLE.iter().filter(|row| row.release == release);
        let configurations: Vec<_> = rows.map(|r| (r.cgroup, r.has_hook, r.is_constrained)).collect();
        // Cgroup v2 came with 22.05.
        let versions = if release >= (22, 5) { vec![1, 2] } else { vec![1] };
        let each = versions.into_iter().flat_map(|cgroup| {
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(hook, devices)| (cgroup, hook, devices))
        });
        assert_eq!(configurations, each.collect::<Vec<_>>(), "{release:?}");
    }
}

struct Trial {
    row: &'static Row,
    cluster: Cluster,
    hooks: Option<Hooks>,
    /// Every job that there was.
    kinds: BTreeMap<u32, Kind>,
    /// What the controller gave them.
    given: Owned,
    seen: Seen,
}

impl Trial {
    fn run(row: &'static Row, installation: Installation) {
        let begin = Instant::now();
        let mut laps = vec![("up", begin)];
        let mut trial = Self::start(row, installation);
        laps.push(("run", Instant::now()));
        let kinds = row.kinds();
        for kind in &kinds {
            mix::submit(&trial.cluster, *kind);
        }
        let jobs = trial.learn(&kinds);
        laps.push(("said", Instant::now()));
        trial.settle(&jobs);
        if row.is_constrained {
            trial.kernel_agrees(&jobs);
        }
        // Another job gets the GPUs of one that ends.
        laps.push(("one ends", Instant::now()));
        let (plain, others): (BTreeSet<u32>, BTreeSet<u32>) =
            jobs.iter().partition(|job| trial.kinds[job] == Kind::Plain);
        trial.end(&plain, &others);
        laps.push(("another runs", Instant::now()));
        mix::submit(&trial.cluster, Kind::Plain);
        let jobs = trial.learn(&kinds);
        trial.settle(&jobs);
        laps.push(("all end", Instant::now()));
        trial.end(&jobs, &BTreeSet::new());
        laps.push(("cluster ends", Instant::now()));
        trial.nothing_else_was_said();
        if let Some(hooks) = &trial.hooks {
            assert_eq!(hooks.errors(), "");
        }
        let dir = trial.cluster.slurm.dir().to_owned();
        let (looks, longest) = (trial.seen.looks, trial.seen.longest);
        drop(trial);
        assert!(
            !dir.exists() && steps(&dir).is_empty(),
            "{} is left",
            dir.display()
        );
        laps.push(("", Instant::now()));
        let laps: String = laps
            .windows(2)
            .map(|lap| format!(", {} {:.1}", lap[0].0, (lap[1].1 - lap[0].1).as_secs_f64()))
            .collect();
        let took = begin.elapsed().as_secs_f64();
        println!(
            "{}: {took:.1} s{laps}; {looks} looks, a page took {longest:?} at most",
            row.title()
        );
    }

    fn start(row: &'static Row, installation: Installation) -> Self {
        let mut options = SlurmOptions {
            installation,
            ..options(3)
        };
        let version = if row.cgroup == 1 { Version::V1 } else { Version::V2 };
        options.cgroups = Some(Cgroups {
            version,
            constrain_devices: row.is_constrained,
        });
        let first = format!("{}0", options.node_prefix);
        let others = format!("{0}1,{0}2", options.node_prefix);
        let mut gres = format!(
            "AutoDetect=off\nNodeName={first} Name=gpu Type=h100 File={devices}\n\
             NodeName={others} Name=gpu Type=h100 File=@DEV@/nvidia[0-7]\n",
            devices = devices()
        );
        if row.kinds().contains(&Kind::Shards) {
            gres += &format!("NodeName={first},{others} Name=shard Count=32\n");
            options.node_gres = Some("gpu:h100:8,shard:32".into());
            options.extra_conf = "GresTypes=gpu,shard".into();
        }
        options.gres_conf = Some(gres);
        let mut hooks = None;
        if row.has_hook {
            let (ours, hooked) = Hooks::of(options);
            (hooks, options) = (Some(ours), hooked);
        }
        let mut cluster = Cluster::of(options, std::array::from_fn(|i| i));
        cluster.has_gres_conf = true;
        cluster.orders.insert(first, ORDER);
        cluster.watch(&[]);
        if let Some(hooks) = &hooks {
            hooks.link(&cluster);
        }
        Self {
            row,
            cluster,
            hooks,
            kinds: BTreeMap::new(),
            given: Owned::new(),
            seen: Seen::default(),
        }
    }

    /// Waits until jobs of these kinds run, and reads their GPUs from the controller.
    fn learn(&mut self, kinds: &[Kind]) -> BTreeSet<u32> {
        let jobs = mix::wait_running(&self.cluster, kinds, || drop(self.seen.look(&self.cluster)));
        let ids: Vec<u32> = jobs.keys().copied().collect();
        self.given.extend(self.cluster.given(&ids));
        self.kinds.extend(jobs);
        ids.into_iter().collect()
    }

    /// Waits until the daemons report these jobs as in the row, each with its share, and on each node the reason.
    fn settle(&mut self, jobs: &BTreeSet<u32>) {
        let given = self.given.iter().filter(|(_, _, job)| jobs.contains(job));
        // Of the two jobs with shards, the first has 2.
        let has_shards = |job: &&u32| self.kinds[*job] == Kind::Shards;
        let parts = jobs.iter().filter(has_shards).copied().zip([2, 1]).collect();
        let exact = shares(&given.cloned().collect(), &parts);
        let exact = exact
            .into_iter()
            .filter_map(|(owned, share)| match self.row.answer {
                Answer::Exact(evidence) => Some((owned, (evidence.to_owned(), share))),
                Answer::Unknown(_) => None,
            });
        let ids: Vec<u32> = jobs.iter().copied().collect();
        let places = self.cluster.places(&ids).into_iter();
        let reasons = places.map(|(node, job)| {
            let reason = match self.row.answer {
                Answer::Exact("device_program") => "",
                // Why that was not read.
                Answer::Exact(_) => "none",
                Answer::Unknown(reason) => reason,
            };
            ((node, job), reason.to_owned())
        });
        let expected: (BTreeMap<_, _>, BTreeMap<_, _>) = (exact.collect(), reasons.collect());
        let mut found = (BTreeMap::new(), BTreeMap::new());
        let settled = wait::until("the daemons say what the table has", PATIENCE, || {
            let pages = self.seen.look(&self.cluster);
            let reasons = series(&pages, "slurm_job_devices_info")
                .map(|(node, s)| ((node.clone(), job(s)), s.label("reason").unwrap().to_owned()));
            found = (owners(&pages), reasons.collect());
            Ok((found == expected).then_some(()))
        });
        if let Err(error) = settled {
            panic!("{error:#}\nfound {found:#?}\nexpected {expected:#?}");
        }
    }

    /// Checks the expectation: the kernel allows jobs to open exactly the GPUs of the controller.
    fn kernel_agrees(&self, jobs: &BTreeSet<u32>) {
        let looks = [Kind::Plain, Kind::Array, Kind::TwoNodes, Kind::Whole, Kind::None];
        let jobs: Vec<u32> = jobs
            .iter()
            .copied()
            .filter(|job| looks.contains(&self.kinds[job]))
            .collect();
        for (node, job) in self.cluster.places(&jobs) {
            let given = mix::part(&self.given, &node, job);
            assert_eq!(self.cluster.opened(&node, job), given, "{node} {job}");
        }
    }

    /// Ends jobs, and waits until not one series of them is left.
    fn end(&mut self, jobs: &BTreeSet<u32>, others: &BTreeSet<u32>) {
        self.cluster.slurm.cancel_all(jobs).unwrap();
        let others: BTreeSet<String> = others.iter().map(u32::to_string).collect();
        let slurm_ended = wait::until_true("Slurm has ended the jobs", ENDS, || {
            self.seen.look(&self.cluster);
            let left = self.cluster.slurm.jobs();
            left.is_ok_and(|left| left.len() == others.len())
        });
        if let Err(error) = slurm_ended {
            panic!("{error:#}: {:?}", self.cluster.slurm.jobs());
        }
        // From here on it is ours.
        let mut left = Vec::new();
        let gone = wait::until_true("no page has them", PATIENCE, || {
            let pages = self.seen.look(&self.cluster);
            let shown = pages.values().flatten();
            left = shown
                .filter(|s| s.label("jobid").is_some_and(|job| !others.contains(job)))
                .map(|s| format!("{s:?}"))
                .collect();
            left.is_empty()
        });
        assert!(gone.is_ok(), "{left:#?}");
    }

    /// Checks every moment: no GPU was reported for a wrong job or with other evidence, and only GPUs with shards for
    /// several jobs at once.
    fn nothing_else_was_said(&self) {
        for (owned, evidence) in &self.seen.owners {
            assert!(
                self.given.contains(owned),
                "{owned:?} is not of\n{:#?}",
                self.given
            );
            let answer = self.row.answer;
            // What the prolog wrote is there before the program is.
            let is_early = self.row.has_hook && evidence == "hook";
            assert!(
                matches!(answer, Answer::Exact(e) if e == evidence || is_early),
                "{owned:?}: {evidence}, {answer:?}"
            );
        }
        for jobs in &self.seen.together {
            let have_shards = jobs.iter().all(|job| self.kinds[job] == Kind::Shards);
            assert!(have_shards, "{jobs:?} on one GPU");
        }
    }
}
