//! No name of a process or file makes a line of the kernel another line.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::grammar::{LogLine, parse};

/// Lines of Linux for x86 and arm64, with the name of the process and the file.
const FORMS: [&str; 26] = [
    "NAME[4711]: segfault at 0 ip 000055d0c1401136 sp 00007ffd error 4 in FILE[1136,55d0c1401000+1000] likely on CPU 3 (core 3, socket 0)",
    "NAME[4711] bad frame in rt_sigreturn frame:000000001c2d3e4f ip:401136 sp:7ffd orax:ffffffffffffffff in FILE[401000+1000]",
    "NAME[4711] vsyscall attempted with vsyscall=none ip:ffffffffff600000 cs:33 sp:7ffd ax:0 si:0 di:0",
    "NAME[4711] misaligned vsyscall (exploit attempt or buggy program) -- look up the vsyscall kernel parameter if you need a workaround ip:1 cs:33 sp:7ffd ax:0 si:0 di:0",
    "NAME[4711]: unhandled exception: DABT (lower EL), ESR 0x0000000092000046, level 2 translation fault in FILE[401000+1000]",
    "NAME[4711]: unhandled level 2 translation fault (11) at 0x00000000, esr 0x92000046, in FILE[401000+1000]",
    "NAME[4711]: memfd_create() requires MFD_NOEXEC_SEAL with vm.memfd_noexec=2",
    "NAME[4711] attempts to use CLI/STI, pretending it's a NOP, ip:401136 in FILE[401000+1000]",
    "traps: NAME[4711] trap divide error ip:401136 sp:7ffd error:0 in FILE[401000+1000]",
    "traps: NAME[4711] general protection fault ip:401136 sp:7ffd error:0 in FILE[401000+1000]",
    "umip: NAME[4711] ip:401136 sp:7ffd: SGDT instruction cannot be used by applications.",
    "NAME invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
    "NAME: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)",
    "NAME: vmalloc error: size 8192, failed to allocate pages, mode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM), nodemask=(null)",
    "NAME (4711): drop_caches: 3",
    "NAME (4711) used greatest stack depth: 10952 bytes left",
    "NAME (4711): VmData 8192 exceed data ulimit 4096. Update limits or use boot option ignore_rlimit_data.",
    "NAME (4711): attempted to duplicate a private mapping with mremap.  This is not supported.",
    "NAME(4711): Attempt to set a LOCK_MAND lock via flock(2). This support has been removed and the request ignored.",
    "NAME (pid 4711) is setting deprecated v1 encryption policy; recommend upgrading to v2.",
    "NAME/4711: reached RLIMIT_SIGPENDING, dropped signal 34",
    "NAME calls setitimer() with new_value NULL pointer. Misfeature support will be removed",
    "NAME uses obsolete (PF_INET,SOCK_PACKET)",
    "process '/tmp/FILE' started with executable stack",
    "process 'NAME' launched '/tmp/FILE' with NULL argv: empty string added",
    // The second half of a line, where another processor printed in between.
    " in FILE[401000+1000]",
];

fn line(form: &str, name: &[u8], file: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), form);
    while let Some(at) = [rest.find("NAME"), rest.find("FILE")].into_iter().flatten().min() {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        out.extend_from_slice(if rest[at..].starts_with("NAME") {
            name
        } else {
            file
        });
        rest = &rest[at + 4..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// The row of a line. An event without a row is a failure.
fn row(text: &[u8]) -> Option<String> {
    match parse(text, true, None, 0) {
        LogLine::Kernel(read) => Some(read.line.row),
        LogLine::Other => None,
        other => panic!("{}: {other:?}", text.escape_ascii()),
    }
}

fn is_crash(form: &str) -> bool {
    [": segfault at ", "] trap ", "] general protection fault "]
        .iter()
        .any(|text| form.contains(text))
}

#[test]
fn names_that_are_heads_of_faults_make_no_fault() {
    for (name, file) in [
        ("Oops: x", "y"),
        ("Lustre: LBUG", "y"),
        ("EDAC MC0: 1 UE ", "y"),
        ("thermal ", "x: critical temperature reached"),
        ("x 0000:3c:00.0 ", "z: DPC: containment event"),
        ("x 0000:3c:00.0 ", "z: device recovery failed"),
        ("amdgpu 3b:00.0 ", "z: GPU Recovery Failed: 1"),
        ("amdgpu 3e:00.0 ", "z: GPU reset(1) succeeded!"),
        ("ice 29:00.0 ", "z: Requesting a reset"),
        ("XFS (vda1): ", "Shutting down filesystem"),
        ("md/raid", "x:md0: Disk failure on sda"),
        (
            "NVRM: ",
            "knvlinkDiscoverPostRxDetLinks_x postRxDetLinkMask failed",
        ),
        ("x", "x eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 1 timed out"),
        ("x", "x eth0: TX timeout detected"),
        ("x", "y(0) @ LBA 1, z (sct 0x2 / sc 0x80)"),
        ("x", "Failed to send inband data"),
        ("x", "Skipped 9 previous similar messages"),
        ("fallen off the ", "fallen off the bus"),
        ("a[1]: x", "y"),
        ("x (1): [2", "y"),
        ("NVRM: Xid(3b:00", "y): 79, z"),
        ("SXid (3b:00.0):", " 12028, Non-fatal"),
    ] {
        for form in FORMS {
            let text = line(form, name.as_bytes(), file.as_bytes());
            let want = is_crash(form).then(|| "segfault".to_owned());
            assert_eq!(row(&text), want, "{}", text.escape_ascii());
        }
    }
}

#[test]
fn the_name_of_a_blocked_task_does_not_hide_it() {
    for name in ["a", "a[1]: b", "[1]: unhandled ", "x (7): ", " wrote to x", "/1"] {
        let text = format!("INFO: task {name}:77 blocked for more than 120 seconds.");
        assert_eq!(row(text.as_bytes()).as_deref(), Some("hung-task"), "{text}");
    }
    let file = b":77 blocked for more than 120 seconds";
    for form in FORMS {
        let text = line(form, b"INFO: task x", file);
        let want = is_crash(form).then_some("segfault");
        assert_eq!(row(&text).as_deref(), want, "{}", text.escape_ascii());
    }
}

/// Heads and messages of the table's rows, so that a search finds more than plain noise would.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let heads = [
        "amdgpu 3b:00.0 ",
        "ice 29:00.0: ",
        "NVRM: ",
        "Lustre: ",
        "XFS (sda): ",
        "EDAC MC0: ",
        "traps: ",
        "nvme0n1: ",
        "nvidia-nvswitch0: ",
        "[drm:amdgpu_x ",
        "Oops: ",
        "INFO: task ",
        "mce: ",
        "a b eth0: ",
        "[7]: ",
        " (7): ",
    ];
    let messages = super::super::lines::rows().flat_map(|row| row.forms().collect::<Vec<_>>());
    let messages: Vec<String> = messages
        .map(|form| {
            form.replace("DRIVER ADDRESS: ", "z: ")
                .replace(['*', '%', '<', '>'], "1")
        })
        .collect();
    prop_oneof![
        vec(any::<u8>(), 0..20),
        prop::sample::select(heads.to_vec()).prop_map(|head| head.as_bytes().to_vec()),
        prop::sample::select(messages).prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_name_of_a_process_or_file_is_an_event(
        at in 0..FORMS.len(),
        name in vec(pieces(), 1..3),
        file in vec(pieces(), 1..4),
    ) {
        let mut name = name.concat();
        name.truncate(15);
        let mut file = file.concat();
        file.truncate(255);
        let form = FORMS[at];
        // The end of a line about a file of such a name is itself the line of a crash.
        prop_assume!(form.contains("NAME") || !is_crash(&String::from_utf8_lossy(&file)));
        let text = line(form, &name, &file);
        let want = is_crash(form).then(|| "segfault".to_owned());
        prop_assert_eq!(row(&text), want, "{}", text.escape_ascii());
    }
}
