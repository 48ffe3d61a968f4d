//! GPUs that are divided: a job has an instance, by the capabilities that its rules allow.

use std::collections::BTreeSet;

use testkit::slurm::SlurmOptions;
use testkit::wait::{self, PATIENCE};

use crate::cluster::{CAPS, Cluster, job, label, options, series};

/// As the driver numbers them; Slurm's order is another.
const MINORS: &str = "config 1\nmonitor 2\n\
    gpu2/gi1/access 21\ngpu2/gi1/ci0/access 22\ngpu2/gi2/access 30\ngpu2/gi2/ci0/access 31\n";

#[test]
fn a_job_with_an_instance_has_it_and_not_its_gpu() {
    let gres = "AutoDetect=off\n\
        Name=gpu Type=half MultipleFiles=@DEV@/nvidia2,@DEV@/nvidia-cap30,@DEV@/nvidia-cap31\n\
        Name=gpu Type=half MultipleFiles=@DEV@/nvidia2,@DEV@/nvidia-cap21,@DEV@/nvidia-cap22\n\
        Name=gpu Type=h100 File=@DEV@/nvidia5\n";
    let caps = [21, 22, 30, 31].map(|minor| (format!("nvidia-cap{minor}"), CAPS, minor));
    let mut cluster = Cluster::of(
        SlurmOptions {
            gres_conf: Some(gres.into()),
            node_gres: Some("gpu:half:2,gpu:h100:1".into()),
            devices: caps.into(),
            ..options(1)
        },
        std::array::from_fn(|i| i),
    );
    cluster.capabilities = Some(MINORS.into());
    cluster.watch(&[]);
    let submit = |gres: &str, running| {
        let id = cluster.slurm.submit("sleep 1000", gres).unwrap();
        cluster.slurm.wait_running(running, PATIENCE).unwrap();
        id
    };
    let jobs = [
        submit("gpu:half:1", 1),
        submit("gpu:half:1", 2),
        submit("gpu:h100:1", 3),
    ];
    let node = cluster.name(0);
    // What the controller counts: the first position is the second instance.
    for (job, position) in jobs.iter().zip(0..) {
        assert_eq!(cluster.slurm.job_gpus(*job).unwrap()[&node], [position]);
    }
    let owner = |minor, instance: &str, job| (label(minor), instance.to_owned(), job);
    let given = BTreeSet::from([
        owner(2, "2/0", jobs[0]),
        owner(2, "1/0", jobs[1]),
        owner(5, "", jobs[2]),
    ]);
    let mut last = BTreeSet::new();
    let agreed = wait::until_true("each has its instance", PATIENCE, || {
        last = series(&cluster.pages(), "slurm_job_gpu_share_ratio")
            .map(|(_, s)| {
                let text = |name| s.label(name).unwrap().to_owned();
                assert_eq!((text("evidence").as_str(), s.value), ("device_program", 1.0));
                (text("gpu"), text("gpu_instance"), job(s))
            })
            .collect();
        assert!(last.is_subset(&given), "{last:#?} is not of {given:#?}");
        last == given
    });
    agreed.map_err(|e| format!("{e:#} {last:#?}")).unwrap();
}
