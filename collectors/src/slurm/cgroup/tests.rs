use proptest::prelude::*;

use super::*;

fn place<'a>(
    node: Option<&'a str>,
    job: JobName<'a>,
    uid: Option<u32>,
    step: Option<&'a str>,
) -> Option<SlurmCgroup<'a>> {
    Some(SlurmCgroup { node, job, uid, step })
}

#[test]
fn version_1_has_the_user_in_its_path() {
    let plain = "/slurm/uid_1000/job_7/step_0/task_1";
    assert_eq!(
        SlurmCgroup::of(plain),
        place(None, JobName::Id(7), Some(1000), Some("0"))
    );
    let named = "/slurm_n0/uid_65534/job_2/step_batch/task_0";
    assert_eq!(
        SlurmCgroup::of(named),
        place(Some("n0"), JobName::Id(2), Some(65534), Some("batch"))
    );
}

#[test]
fn version_2_has_a_scope_with_and_without_a_node() {
    let plain = "/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special";
    assert_eq!(
        SlurmCgroup::of(plain),
        place(None, JobName::Id(12), None, Some("extern"))
    );
    let named = "/system.slice/gpu-n_01_slurmstepd.scope/job_12/step_0/slurm";
    assert_eq!(
        SlurmCgroup::of(named),
        place(Some("gpu-n_01"), JobName::Id(12), None, Some("0"))
    );
    let own_slice = "/foo.slice/n1_slurmstepd.scope/job_3";
    assert_eq!(
        SlurmCgroup::of(own_slice),
        place(Some("n1"), JobName::Id(3), None, None)
    );
}

#[test]
fn from_26_05_on_a_job_is_named_by_its_sluid() {
    let path = "/system.slice/n0_slurmstepd.scope/sFR5M7XZ5Z3000/step_interactive/user/task_0";
    let job = JobName::Sluid("sFR5M7XZ5Z3000");
    assert_eq!(
        SlurmCgroup::of(path),
        place(Some("n0"), job, None, Some("interactive"))
    );
}

#[test]
fn a_slurmd_in_a_pod_has_its_path_below_the_pods() {
    let path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b.slice/cri-containerd-77.scope/system.slice/slurmstepd.scope/job_5/step_0";
    assert_eq!(
        SlurmCgroup::of(path),
        place(None, JobName::Id(5), None, Some("0"))
    );
}

#[test]
fn what_stands_beside_the_jobs_is_no_job() {
    for path in [
        "/",
        "/system.slice/slurmd.service",
        "/system.slice/slurmstepd.scope",
        "/system.slice/n0_slurmstepd.scope/slurmd",
        "/system.slice/n0_slurmstepd.scope/system",
        "/system.slice/_slurmstepd.scope/job_1",
        "/system.slice/slurmstepd.scope/job_",
        "/system.slice/slurmstepd.scope/job_1x",
        "/system.slice/slurmstepd.scope/job_+1",
        "/system.slice/slurmstepd.scope/job_4294967296",
        "/system.slice/slurmstepd.scope/sFR5M7XZ5Z300",
        "/system.slice/slurmstepd.scope/sFR5M7XZ5Z30I0",
        "/slurm/uid_1/job_x",
        "/slurm_/uid_1/job_1",
        "/slurmd/uid_1/job_1",
        "/user.slice/job_1/step_0",
    ] {
        assert_eq!(SlurmCgroup::of(path), None, "{path}");
    }
}

/// A user with delegated cgroups may give folders any names.
#[test]
fn a_scope_that_a_user_has_made_is_none_of_slurms() {
    for path in [
        "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_5/step_0",
        "/user.slice/user-1000.slice/session-1.scope/slurmstepd.scope/job_5/step_0",
        "/user.slice/slurmstepd.scope/job_5",
        "/system.slice/mine.service/system.slice/slurmstepd.scope/job_5",
        "/slurm/system.slice/slurmstepd.scope/job_5",
        "/user.slice/slurm/uid_0/job_5",
        "/system.slice/slurm/uid_0/job_5",
        "/a/../slurm/uid_0/job_5",
    ] {
        assert_eq!(SlurmCgroup::of(path), None, "{path}");
    }
    // Within a job it belongs to that job.
    let within =
        "/system.slice/slurmstepd.scope/job_5/step_0/user/task_0/system.slice/slurmstepd.scope/job_6";
    assert_eq!(
        SlurmCgroup::of(within),
        place(None, JobName::Id(5), None, Some("0"))
    );
    // A path above the root of a namespace is shown in this form.
    let outside = "/../../system.slice/slurmstepd.scope/job_5";
    assert_eq!(SlurmCgroup::of(outside), place(None, JobName::Id(5), None, None));
}

#[test]
fn a_namespace_of_its_own_has_other_numbers_of_processes() {
    let dir = tempfile::tempdir().unwrap();
    assert!(has_all_processes(dir.path()).unwrap(), "a recording");
    for (namespace, expected) in [("pid:[4026531836]", true), ("pid:[4026532281]", false)] {
        let link = dir.path().join("self/ns/pid");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(namespace, &link).unwrap();
        assert_eq!(has_all_processes(dir.path()).unwrap(), expected, "{namespace}");
    }
}

#[test]
fn a_process_is_in_the_job_that_any_of_its_hierarchies_names() {
    let folder = folder_in;
    let v1 = "5:devices:/slurm_n0/uid_1/job_2/step_batch/task_0\n0::/user.slice\n";
    assert_eq!(folder(v1), "job_2");
    let v2 = "0::/system.slice/slurmstepd.scope/sFR5M7XZ5Z3000/step_0/user/task_0\n";
    assert_eq!(folder(v2), "sFR5M7XZ5Z3000");
    assert_eq!(folder("0::/system.slice/docker-1.scope\n"), "");
    assert_eq!(folder("0::/system.slice/user.slice\n"), "");
    for session in [
        "0::/user.slice/user-1000.slice/session-4.scope\n",
        "0::/../../../user.slice/user-1000.slice/user@1000.service/app.slice/nv-hostengine\n",
        "4:memory:/x\n1:name=systemd:/user.slice/user-1000.slice/session-4.scope\n",
    ] {
        assert_eq!(folder(session), OF_USERS, "{session}");
    }
    // A user names the cgroups below his own.
    let named = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/\u{fffd}\n";
    assert_eq!(folder(named), "job_7");
    let pod =
        "0::/kubepods.slice/kubepods-pod1a2b3c4d_0000_4000_8000_00000000abcd.slice/cri-containerd-7f.scope";
    let uid = "pod1a2b3c4d-0000-4000-8000-00000000abcd";
    assert_eq!(folder(pod), uid);
    let slurmd_in_pod = format!("{pod}/system.slice/slurmstepd.scope/job_5/step_0/user/task_0");
    assert_eq!(folder(&slurmd_in_pod), "job_5");
}

proptest! {
    #[test]
    fn any_path_below_a_job_is_that_jobs(
        before in prop::collection::vec("[a-z0-9.-]{1,12}\\.slice", 0..4),
        node in prop::option::of("[a-z][a-z0-9_-]{0,10}"),
        id: u32,
        below in prop::collection::vec("[a-z_0-9]{1,12}", 0..3),
    ) {
        let scope = node.as_ref().map_or("slurmstepd.scope".to_owned(), |n| format!("{n}_slurmstepd.scope"));
        let mut parts = before;
        parts.retain(|part| part != "user.slice");
        parts.extend([scope, format!("job_{id}"), "step_3".to_owned()]);
        parts.extend(below);
        let path = format!("/{}", parts.join("/"));
        prop_assert_eq!(SlurmCgroup::of(&path), place(node.as_deref(), JobName::Id(id), None, Some("3")));
    }

    #[test]
    fn no_text_upsets_it(text in "\\PC{0,80}") {
        let _place = SlurmCgroup::of(&text);
    }
}
