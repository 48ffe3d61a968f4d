use std::time::Duration;

use collectors::Block;
use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER, JOB_GRANT, JOB_PARTS};

use super::*;
use crate::sample;
use crate::snapshot::Snapshot;

/// A node of GPUs: label, minor, instances.
#[derive(Default)]
struct Node {
    gpus: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// AMD GPUs: label, minor, and the device files of partitions.
    amd: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    processes: Vec<(&'static str, &'static str, &'static str, &'static str)>,
    /// Number, cgroup, why its program is unknown, devices.
    jobs: Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)>,
    /// Number, evidence, devices.
    grants: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// Number, parts of its GPU.
    parts: Vec<(&'static str, u64)>,
}

impl Node {
    fn four() -> Self {
        let gpus = [("GPU-0", "0"), ("GPU-1", "1"), ("GPU-2", "2"), ("GPU-3", "3")];
        Self {
            gpus: gpus.map(|(gpu, minor)| (gpu, minor, vec![])).to_vec(),
            ..Self::default()
        }
    }

    /// Two AMD GPUs, the second one in 2 partitions. Each partition has a render node, the first that of the GPU.
    fn with_amd(mut self) -> Self {
        self.amd = vec![
            ("GPU-a", "128", vec![]),
            ("GPU-b", "136", vec!["renderD136", "renderD137"]),
        ];
        self
    }

    fn job(mut self, job: &'static str, folder: &'static str, devices: &[&'static str]) -> Self {
        self.jobs.push((job, folder, "", devices.to_vec()));
        self
    }

    fn unknown(mut self, job: &'static str, folder: &'static str, reason: &'static str) -> Self {
        self.jobs.push((job, folder, reason, vec![]));
        self
    }

    /// A job without a program, known by other evidence.
    fn granted(mut self, job: &'static str, evidence: &'static str, devices: &[&'static str]) -> Self {
        self.grants.push((job, evidence, devices.to_vec()));
        let folder = match job {
            "7" => "job_7",
            "8" => "job_8",
            _ => "job_9",
        };
        self.unknown(job, folder, "none")
    }

    fn process(
        mut self,
        gpu: &'static str,
        instance: &'static str,
        pid: &'static str,
        folder: &'static str,
    ) -> Self {
        self.processes.push((gpu, instance, pid, folder));
        self
    }

    fn snapshot(&self) -> Snapshot {
        let fill = |b: &mut Block| {
            for (gpu, minor, instances) in &self.gpus {
                b.info(
                    &gpu::INFO,
                    &[gpu, "NVIDIA", "", "", "", minor, "", "", "", "", ""],
                );
                for instance in instances {
                    let uuid = format!("MIG-{gpu}-{instance}");
                    b.info(&gpu::INSTANCE_INFO, &[gpu, instance, "", &uuid]);
                }
            }
            for (gpu, instance, pid, folder) in &self.processes {
                b.info(&gpu::PROCESS_PLACE, &[gpu, instance, pid, folder]);
            }
        };
        let amd = |b: &mut Block| {
            for (gpu, minor, parts) in &self.amd {
                b.info(&gpu::INFO, &[gpu, "amd", "", "", "", minor, "", "", "", "", ""]);
                for (at, node) in parts.iter().enumerate() {
                    b.info(&gpu::INSTANCE_INFO, &[gpu, &at.to_string(), "DPX", node]);
                }
            }
        };
        let jobs = |b: &mut Block| {
            for (job, folder, reason, devices) in &self.jobs {
                b.info(&JOB_FOLDER, &[job, folder, ""]);
                b.info(&JOB_DEVICES, &[job, reason]);
                for device in devices {
                    b.info(&JOB_DEVICE, &[job, device]);
                }
            }
            for (job, parts) in &self.parts {
                b.u64(&JOB_PARTS, &[job], *parts);
            }
            for (job, evidence, devices) in &self.grants {
                for device in devices {
                    b.info(&JOB_GRANT, &[job, evidence, device]);
                }
            }
        };
        let mut snapshot = sample::snapshot(Vec::new());
        for collector in snapshot.collectors_mut() {
            match collector.spec.name {
                "nvidia" => collector.devices.push(sample::device("gpus", fill)),
                "amd" => collector.devices.push(sample::device("amd", amd)),
                "slurm" => collector.devices.push(sample::device("jobs", jobs)),
                _ => {}
            }
        }
        snapshot
    }

    /// `GPU-0 7 device_program 0.5`.
    fn owners(&self) -> Vec<String> {
        let line = |o: &Owner| {
            let gpu = match o.gpu_instance.as_str() {
                "" => o.gpu.clone(),
                instance => format!("{}/{instance}", o.gpu),
            };
            format!("{gpu} {} {} {}", o.job, o.evidence.word(), o.share)
        };
        self.snapshot().ownership().owners.iter().map(line).collect()
    }
}

#[test]
fn a_jobs_own_program_decides_whether_or_not_it_computes() {
    let node = Node::four()
        .job("7", "job_7", &["nvidia0", "nvidia2"])
        .job("8", "job_8", &[])
        .process("GPU-0", "", "500", "job_7");
    assert_eq!(
        node.owners(),
        ["GPU-0 7 device_program 1", "GPU-2 7 device_program 1"]
    );
}

/// On some boards minors are not in the order of the driver's indices.
#[test]
fn devices_are_joined_by_minor_number_and_never_by_index() {
    let mut node = Node::four().job("7", "job_7", &["nvidia0"]);
    node.gpus[0].1 = "3";
    node.gpus[3].1 = "0";
    assert_eq!(node.owners(), ["GPU-3 7 device_program 1"]);
    // A driver that reports no minor, or one minor twice.
    node.gpus[3].1 = "";
    assert_eq!(node.owners(), [""; 0]);
    node.gpus[3].1 = "0";
    node.gpus[1].1 = "0";
    assert_eq!(node.owners(), [""; 0]);
}

#[test]
fn shards_of_one_gpu_have_a_part_each() {
    let node = Node::four()
        .job("7", "job_7", &["nvidia0"])
        .job("8", "job_8", &["nvidia0", "nvidia1"]);
    assert_eq!(
        node.owners(),
        [
            "GPU-0 7 device_program 0.5",
            "GPU-0 8 device_program 0.5",
            "GPU-1 8 device_program 1",
        ]
    );
}

#[test]
fn an_instance_is_owned_by_itself_and_a_divided_gpu_by_nobody() {
    let mut node = Node::four()
        .job("7", "job_7", &["nvidia0/1/0"])
        .job("8", "job_8", &["nvidia0", "nvidia1"])
        .job("9", "job_9", &["nvidia0/7/0"]);
    node.gpus[0].2 = vec!["1/0", "2/0"];
    assert_eq!(
        node.owners(),
        ["GPU-0/1/0 7 device_program 1", "GPU-1 8 device_program 1"],
        "a missing instance has no owner"
    );
}

#[test]
fn where_there_is_no_program_a_process_says_what_is_in_use() {
    let node = Node::four()
        .unknown("7", "job_7", "denied")
        .unknown("12", "sFR5M7XZ5Z3000", "none")
        .process("GPU-1", "", "500", "job_7")
        .process("GPU-1", "", "501", "job_7")
        .process("GPU-2", "", "502", "sFR5M7XZ5Z3000")
        .process("GPU-3", "", "503", "")
        .process("GPU-3", "", "504", "job_99");
    assert_eq!(node.owners(), ["GPU-1 7 process 1", "GPU-2 12 process 1"]);
}

/// A process with access to another job's GPU does not make its job an owner.
#[test]
fn a_process_does_not_overrule_a_program() {
    let node = Node::four()
        .job("7", "job_7", &["nvidia0"])
        .process("GPU-1", "", "500", "job_7");
    assert_eq!(node.owners(), ["GPU-0 7 device_program 1"]);
}

/// If one job's rules are known and another's are not, the latter does not own the former's GPUs that it uses.
#[test]
fn a_process_on_a_gpu_that_is_anothers_owns_no_part_of_it() {
    let node = Node::four()
        .job("7", "job_7", &["nvidia0"])
        .unknown("8", "job_8", "none")
        .process("GPU-0", "", "500", "job_8")
        .process("GPU-1", "", "500", "job_8");
    assert_eq!(node.owners(), ["GPU-0 7 device_program 1", "GPU-1 8 process 1"]);
}

#[test]
fn a_process_on_a_divided_gpu_whose_instance_is_not_told_owns_nothing() {
    let mut node = Node::four()
        .unknown("7", "job_7", "none")
        .process("GPU-0", "", "500", "job_7")
        .process("GPU-0", "1/0", "501", "job_7");
    node.gpus[0].2 = vec!["1/0"];
    assert_eq!(node.owners(), ["GPU-0/1/0 7 process 1"]);
}

#[test]
fn every_word_is_of_one_evidence_and_the_best_is_the_first() {
    let all = ["device_program", "hook", "mapping_file", "process"];
    let read: Vec<Evidence> = all.iter().filter_map(|word| Evidence::of_word(word)).collect();
    assert_eq!(read.iter().map(|e| e.word()).collect::<Vec<_>>(), all);
    assert!(read.is_sorted());
    assert_eq!(Evidence::of_word("Hook"), None);
}

/// A prolog, and the files of another one, also name idle GPUs.
#[test]
fn what_a_prolog_was_told_is_all_that_a_job_has() {
    for evidence in ["hook", "mapping_file"] {
        let node = Node::four()
            .granted("7", evidence, &["nvidia0", "nvidia2"])
            .process("GPU-0", "", "500", "job_7")
            .process("GPU-1", "", "501", "job_7");
        assert_eq!(
            node.owners(),
            [format!("GPU-0 7 {evidence} 1"), format!("GPU-2 7 {evidence} 1")]
        );
    }
}

#[test]
fn uuids_are_the_labels_of_gpus_and_the_uuids_of_instances() {
    let mut node = Node::four().granted("7", "hook", &["GPU-1", "MIG-GPU-0-2/0", "MIG-GPU-0-3/0", "GPU-0"]);
    node.gpus[0].2 = vec!["1/0", "2/0"];
    assert_eq!(
        node.owners(),
        ["GPU-0/2/0 7 hook 1", "GPU-1 7 hook 1"],
        "a divided GPU has no owner, nor has a missing instance"
    );
}

#[test]
fn a_program_counts_and_what_else_tells_of_the_job_does_not() {
    let mut node = Node::four().job("7", "job_7", &["nvidia0"]);
    node.grants.push(("7", "hook", vec!["nvidia1"]));
    assert_eq!(node.owners(), ["GPU-0 7 device_program 1"]);
}

/// Shards 2:1, and MPS in percent.
#[test]
fn jobs_that_share_a_gpu_have_it_by_their_parts_where_all_are_known() {
    let mut node = Node::four()
        .job("7", "job_7", &["nvidia0"])
        .job("8", "job_8", &["nvidia0"])
        .job("9", "job_9", &["nvidia1"]);
    node.parts = vec![("7", 3), ("8", 1), ("9", 2)];
    assert_eq!(
        node.owners(),
        [
            "GPU-0 7 device_program 0.75",
            "GPU-0 8 device_program 0.25",
            "GPU-1 9 device_program 1"
        ]
    );
    node.parts = vec![("7", 3)];
    let halves = ["GPU-0 7 device_program 0.5", "GPU-0 8 device_program 0.5"];
    assert_eq!(node.owners()[..2], halves);
    // More than a GPU has.
    node.parts = vec![("7", 3), ("8", 1_000_000)];
    assert_eq!(node.owners()[..2], halves);
}

/// Two jobs with shards of one GPU, or MPS.
#[test]
fn a_gpu_that_several_were_given_is_shared_whatever_tells() {
    let node = Node::four()
        .job("7", "job_7", &["nvidia0"])
        .granted("8", "hook", &["nvidia0"])
        .granted("9", "mapping_file", &["nvidia0", "nvidia1"]);
    let owners = node.owners();
    assert_eq!(owners.len(), 4);
    assert_eq!(owners[3], "GPU-1 9 mapping_file 1");
    for (owner, evidence) in owners
        .iter()
        .zip(["7 device_program", "8 hook", "9 mapping_file"])
    {
        assert!(owner.starts_with(&format!("GPU-0 {evidence} 0.33")), "{owner}");
    }
}

/// It uses a GPU granted to another job: then it does not own it.
#[test]
fn a_process_on_what_another_job_was_given_owns_no_part_of_it() {
    for evidence in ["hook", "mapping_file"] {
        let node = Node::four()
            .granted("7", evidence, &["nvidia0"])
            .unknown("8", "job_8", "none")
            .process("GPU-0", "", "500", "job_8")
            .process("GPU-1", "", "500", "job_8");
        assert_eq!(
            node.owners(),
            [format!("GPU-0 7 {evidence} 1"), "GPU-1 8 process 1".to_owned()]
        );
    }
}

#[test]
fn a_gpu_that_no_driver_shows_has_no_label_to_tell() {
    let node = Node::four().job("7", "job_7", &["nvidia9", "renderD128", "nvidia"]);
    assert_eq!(node.owners(), [""; 0]);
}

#[test]
fn a_node_with_gpus_of_two_vendors_has_the_owners_of_both() {
    let node = Node::four()
        .with_amd()
        .job("7", "job_7", &["nvidia1", "renderD128", "renderD136"])
        .job("8", "job_8", &["renderD137"]);
    let owners = [
        "GPU-1 7 device_program 1",
        "GPU-a 7 device_program 1",
        "GPU-b/0 7 device_program 1",
        "GPU-b/1 8 device_program 1",
    ];
    assert_eq!(node.owners(), owners);
    let snapshot = node.snapshot();
    let (gpus, jobs) = (Gpus::of(&snapshot), &snapshot.ownership().jobs);
    for gpu in ["GPU-0", "GPU-1", "GPU-a", "GPU-b"] {
        assert!(gpus.is_resolved(gpu, jobs), "{gpu}");
    }
}

/// It may be a partition of any of them.
#[test]
fn a_render_node_that_no_driver_lists_leaves_the_owners_of_amd_gpus_unknown() {
    let node = Node::four()
        .with_amd()
        .job("7", "job_7", &["renderD138"])
        .job("8", "job_8", &["renderD137"]);
    assert_eq!(node.owners(), [""; 0]);
    let snapshot = node.snapshot();
    let (gpus, jobs) = (Gpus::of(&snapshot), &snapshot.ownership().jobs);
    assert!(gpus.is_resolved("GPU-0", jobs));
    assert!(!gpus.is_resolved("GPU-a", jobs) && !gpus.is_resolved("GPU-b", jobs));
    assert_eq!(gpus.whole("renderD138"), Some(None));
    assert_eq!(gpus.whole("renderD137"), Some(Some("GPU-b")));
    // Without AMD GPUs, a render node is that of another device.
    let nvidia = Node::four().snapshot();
    let gpus = Gpus::of(&nvidia);
    assert_eq!(gpus.whole("renderD138"), None);
    assert_eq!(gpus.whole("nvidia9"), Some(None));
}

#[test]
fn a_render_node_that_two_gpus_claim_has_no_owner() {
    let mut node = Node::default()
        .with_amd()
        .job("7", "job_7", &["renderD128", "renderD137"]);
    node.amd[1].2[1] = "renderD128";
    assert_eq!(node.owners(), [""; 0]);
}

#[test]
fn a_gpus_jobs_are_its_owners_and_the_nodes_are_all() {
    let node = Node::four()
        .job("7", "job_7", &["nvidia0", "nvidia1"])
        .job("8", "job_8", &["nvidia2"]);
    let owners = node.snapshot().ownership().owners.clone();
    assert_eq!(jobs_on(&owners, &Subject::gpu("GPU-1")), ["7"]);
    assert_eq!(jobs_on(&owners, &Subject::gpu("GPU-3")), [""; 0]);
    assert_eq!(jobs_on(&owners, &Subject::node()), ["7", "8"]);
}

/// Two clusters count for themselves, and name cgroups by SLUID.
#[test]
fn a_number_of_two_jobs_has_no_gpus() {
    let node = Node::four()
        .job("7", "sFR5M7XZ5Z3000", &["nvidia0"])
        .job("7", "sFR5M7XZ5Z3001", &["nvidia1"])
        .job("8", "sFR5M7XZ5Z3002", &["nvidia2"])
        .process("GPU-3", "", "500", "sFR5M7XZ5Z3000");
    assert_eq!(node.owners(), ["GPU-2 8 device_program 1"]);
}

#[test]
fn a_later_snapshot_has_the_same_owners_while_their_readings_are_not_too_old() {
    let snapshot = Node::four().job("7", "job_7", &["nvidia0"]).snapshot();
    let later = |seconds| snapshot.as_of(snapshot.at + Duration::from_secs(seconds));
    assert_eq!(snapshot.ownership().owners.len(), 1);
    assert!(
        std::ptr::eq(later(1).ownership(), snapshot.ownership()),
        "computed once"
    );
    assert!(later(3600).ownership().owners.is_empty());
}
