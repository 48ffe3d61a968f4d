use std::io::IoSlice;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, send, sendmsg, socketpair,
};
use proptest::prelude::*;
use testkit::wait::{self, PATIENCE};

use super::*;
use crate::sys::nvme::Controller;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .unwrap()
}

/// A helper on a thread, with the rights of the test.
fn client(helper: &'static Helper) -> Client {
    let (ours, theirs) = pair();
    thread::spawn(move || serve(helper, &theirs));
    Client::new(ours)
}

fn own(file: ThreadFile) -> Question {
    Question::Thread {
        pid: std::process::id(),
        tid: nix::unistd::gettid().as_raw().unsigned_abs(),
        file,
    }
}

#[test]
fn the_files_of_a_thread_are_returned_as_the_kernel_shows_them() {
    let helper = client(&domain::PROC);
    let file = std::fs::File::open("/proc/self/comm").unwrap();
    let fd = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
    let read = |file| String::from_utf8(helper.ask(own(file), None).unwrap()).unwrap();
    assert!(read(ThreadFile::Descriptor(fd)).ends_with("/comm"));
    assert!(read(ThreadFile::DescriptorInfo(fd)).contains("mnt_id:"));
    // The asking thread waits for the reply.
    wait::until_true("the call", PATIENCE, || {
        read(ThreadFile::Syscall).starts_with(&libc::SYS_recvfrom.to_string())
    })
    .unwrap();
    // "0" is what the kernel shows without the right.
    wait::until_true("the wait channel", PATIENCE, || {
        read(ThreadFile::Wchan).contains(|c: char| c.is_alphabetic())
    })
    .unwrap();
    assert_eq!(
        helper.ask(own(ThreadFile::Descriptor(u32::MAX)), None),
        Err(Errno::ENOENT)
    );
    let gone = Question::Thread {
        pid: u32::MAX,
        tid: 1,
        file: ThreadFile::Wchan,
    };
    assert_eq!(helper.ask(gone, None), Err(Errno::ENOENT));
}

/// An environment holds secrets of its user.
#[test]
fn of_an_environment_only_the_number_of_shards_is_returned() {
    let helper = client(&domain::PROC);
    let shards = |value: Option<&str>| {
        let mut command = std::process::Command::new("sleep");
        command.arg("1000").env("SECRET", "SLURM_SHARDS_ON_NODE=7");
        if let Some(value) = value {
            command.env("SLURM_SHARDS_ON_NODE", value);
        }
        let mut task = command.spawn().unwrap();
        let question = Question::Thread {
            pid: task.id(),
            tid: task.id(),
            file: ThreadFile::Shards,
        };
        // A process that begins its program has no environment at first.
        let environ = format!("/proc/{}/environ", task.id());
        let begun = wait::until("an environment", PATIENCE, || {
            let environ = std::fs::read(&environ).unwrap_or_default();
            Ok(String::from_utf8_lossy(&environ).contains("SECRET").then_some(()))
        });
        // It also has a lock that the reading takes.
        let answer = wait::until("an answer", PATIENCE, || Ok(helper.ask(question, None).ok()));
        task.kill().unwrap();
        task.wait().unwrap();
        begun.unwrap();
        answer.unwrap()
    };
    assert_eq!(shards(Some("2")), b"2");
    assert_eq!([shards(None), shards(Some("x"))], [b"", b""]);
}

/// Drivers and filesystems return numbers of their own, such as ENOTSUPP (524).
#[test]
fn an_error_without_a_name_is_no_success() {
    let code = |answer| serve::reply(answer)[..4].to_vec();
    let of = |errno: Errno| (errno as i32).to_ne_bytes().to_vec();
    assert_eq!(code(Err(Errno::from_raw(524))), of(Errno::EIO));
    assert_eq!(code(Err(Errno::ENOENT)), of(Errno::ENOENT));
    assert_eq!(serve::reply(Ok(vec![7])), [0, 0, 0, 0, 7]);
}

#[test]
fn a_helper_does_its_own_part_only() {
    let (bpf, proc) = (client(&domain::BPF), client(&domain::PROC));
    assert_eq!(bpf.ask(own(ThreadFile::Wchan), None), Err(Errno::EPERM));
    assert_eq!(proc.ask(Question::Program(1), None), Err(Errno::EPERM));
    assert_eq!(bpf.ask(Question::Attached, None), Err(Errno::EBADF));
    let file = DebugFile::new("llite", "scratch-ffff880812345678", "stats").unwrap();
    let debugfs = client(&domain::DEBUGFS);
    assert_eq!(proc.ask(Question::Debug(file), None), Err(Errno::EPERM));
    assert_eq!(debugfs.ask(own(ThreadFile::Wchan), None), Err(Errno::EPERM));
    let absent = debugfs.ask(Question::Debug(file), None);
    assert!(
        matches!(absent, Err(Errno::ENOENT | Errno::EACCES)),
        "no such mount: {absent:?}"
    );
    let nvme = client(&domain::NVME);
    let controller = |number| {
        Question::SmartLog(Controller {
            number,
            device: (240, 0),
        })
    };
    assert_eq!(proc.ask(controller(0), None), Err(Errno::EPERM));
    assert_eq!(nvme.ask(Question::Debug(file), None), Err(Errno::EPERM));
    wait::until_true("no such controller", PATIENCE, || {
        nvme.ask(controller(u32::MAX), None) == Err(Errno::ENOENT)
    })
    .unwrap();
    // A worker that was taken over may send any numbers.
    let foreign = DebugFile::decode([u32::MAX; 6]);
    assert_eq!(debugfs.ask(Question::Debug(foreign), None), Err(Errno::ENOENT));
    let folder = std::fs::File::open("/proc").unwrap();
    assert_eq!(
        bpf.ask(Question::Attached, Some(folder.as_fd())),
        Err(Errno::EINVAL),
        "no cgroup"
    );
    let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let is_v2 = |root: &&str| Path::new(root).join("cgroup.controllers").exists();
    if let Some(root) = unified.into_iter().find(is_v2) {
        let folder = std::fs::File::open(root).unwrap();
        let answer = bpf.ask(Question::Attached, Some(folder.as_fd()));
        assert!(matches!(answer, Ok(_) | Err(Errno::EPERM)), "{answer:?}");
    }
    let gone = bpf.ask(Question::Program(u32::MAX), None);
    assert!(matches!(gone, Err(Errno::ENOENT | Errno::EPERM)), "{gone:?}");
}

/// A worker that was taken over must not make it hold its own other end: it would never see the end of its socket.
#[test]
fn descriptors_that_no_request_needs_are_closed() {
    let (ours, theirs) = pair();
    let helper = thread::spawn(move || serve(&domain::PROC, &theirs));
    let raw = std::os::fd::AsRawFd::as_raw_fd(&ours);
    let request = own(ThreadFile::Wchan).encode();
    let fds = [raw; 253];
    for count in [1, 2, 3, 253] {
        let control = [ControlMessage::ScmRights(&fds[..count])];
        sendmsg::<()>(raw, &[IoSlice::new(&request)], &control, MsgFlags::empty(), None).unwrap();
    }
    drop(ours);
    wait::until_true("it ends", PATIENCE, || helper.is_finished()).unwrap();
}

#[test]
fn a_helper_ends_with_its_worker_and_on_a_request_that_is_none() {
    let (ours, theirs) = pair();
    drop(ours);
    serve(&domain::PROC, &theirs).unwrap();
    for bytes in [&[0; REQUEST][..], &[1; REQUEST], &[3], &[0; REQUEST + 4]] {
        let (ours, theirs) = pair();
        send(std::os::fd::AsRawFd::as_raw_fd(&ours), bytes, MsgFlags::empty()).unwrap();
        let refused = serve(&domain::PROC, &theirs).unwrap_err();
        assert!(refused.to_string().starts_with("unknown request"), "{refused}");
        drop(theirs);
        let ended = Client::new(ours).ask(own(ThreadFile::Wchan), None);
        assert!(
            matches!(ended, Err(Errno::EPIPE | Errno::ECONNRESET)),
            "{ended:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_request_arrives_as_it_was_sent(kind in 0_u8..9, a: u32, b: u32, c: u32) {
        let question = match kind {
            0 => Question::Attached,
            1 => Question::Program(a),
            8 => Question::SmartLog(Controller {
                number: a,
                device: (b, c),
            }),
            7 => Question::Debug(DebugFile::decode([a, b, c, a, b, c])),
            kind => Question::Thread {
                pid: a,
                tid: b,
                file: match kind {
                    2 => ThreadFile::Wchan,
                    3 => ThreadFile::Syscall,
                    4 => ThreadFile::Descriptor(c),
                    5 => ThreadFile::DescriptorInfo(c),
                    _ => ThreadFile::Shards,
                },
            },
        };
        prop_assert_eq!(Question::decode(&question.encode()), Some(question));
    }

    #[test]
    fn any_words_are_a_request_or_none(
        kind in 0_u32..12,
        about in prop::array::uniform6(prop_oneof![Just(0), any::<u32>()]),
    ) {
        let bytes = encoded(kind, about);
        if let Some(question) = Question::decode(&bytes) {
            prop_assert_eq!(question.encode(), bytes);
        }
    }

    #[test]
    fn any_bytes_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert!(Question::decode(&bytes).is_none_or(|question| question.encode()[..] == bytes[..]));
    }
}

/// The path is the helper's own: nothing that a worker sends names it.
#[test]
fn a_connection_to_mmfsd_is_refused_where_none_runs_and_by_other_helpers() {
    let there = client(&domain::MMPMON).descriptor(Question::Mmpmon);
    assert!(
        matches!(there, Err(Errno::ENOENT | Errno::ECONNREFUSED)),
        "{there:?}"
    );
    let other = client(&domain::BPF).descriptor(Question::Mmpmon);
    assert_eq!(other.unwrap_err(), Errno::EPERM);
}
