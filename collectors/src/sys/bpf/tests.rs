use super::recorded::{RecordedAttachment, parse};
use super::*;

#[test]
fn what_was_recorded_is_read_and_anything_else_says_what_was_expected() {
    let program = |code| Program {
        name: "Slurm_Cgroup_v2".to_owned(),
        code,
    };
    for (text, expected) in [
        ("none\n", RecordedAttachment::None),
        ("error EPERM\n", RecordedAttachment::Denied),
        (
            "457 Slurm_Cgroup_v2 withheld\n",
            RecordedAttachment::One(457, program(None)),
        ),
        (
            "457 Slurm_Cgroup_v2 6112fF\n",
            RecordedAttachment::One(457, program(Some(vec![0x61, 0x12, 0xff]))),
        ),
    ] {
        assert_eq!(parse("bpf/x", text).unwrap(), expected, "{text}");
    }
    for text in [
        "",
        "457",
        "x Slurm_Cgroup_v2 00",
        "1 a 0",
        "1 a 0g",
        "error EINVAL",
        "1 a b c",
    ] {
        let error = parse("bpf/x", text).unwrap_err().to_string();
        assert!(error.starts_with("bpf/x: found"), "{error}");
        assert!(error.contains("hexadecimal"), "{error}");
    }
}

/// Without the capability the kernel returns EPERM; with it, a cgroup without limits has no program. Any other
/// error means a wrong layout.
#[test]
fn the_kernel_answers_or_refuses() {
    let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let is_v2 = |root: &&str| Path::new(root).join("cgroup.controllers").exists();
    let mut kernel = LivePrograms::default();
    if let Some(root) = unified.into_iter().find(is_v2) {
        let answer = kernel.attached(Path::new(root));
        assert!(matches!(answer, Ok(_) | Err(Errno::EPERM)), "{answer:?}");
    }
    let answer = kernel.attached(Path::new("/proc"));
    assert!(
        matches!(answer, Err(Errno::EBADF | Errno::EPERM | Errno::EINVAL)),
        "{answer:?}"
    );
    let gone = kernel.read(Path::new("/"), u32::MAX);
    assert!(matches!(gone, Err(Errno::ENOENT | Errno::EPERM)), "{gone:?}");
}
