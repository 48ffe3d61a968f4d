use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::unistd::{Whence, lseek, read};

use super::*;
use crate::{proc, wait};

fn mounted() -> (tempfile::TempDir, Kmsg) {
    let dir = tempfile::tempdir().unwrap();
    let kmsg = Kmsg::mount(dir.path().join("dev")).unwrap();
    (dir, kmsg)
}

fn nonblocking(path: impl AsRef<Path>) -> File {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .unwrap()
}

fn record(file: &File) -> nix::Result<String> {
    let mut buffer = [0; 8192];
    read(file, &mut buffer).map(|n| String::from_utf8_lossy(&buffer[..n]).into_owned())
}

fn ready(file: &File, timeout: u16) -> PollFlags {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(timeout)).unwrap();
    fds[0].revents().unwrap()
}

/// Reads until one of our records: other programs write to the device too.
fn ours(file: &File) -> String {
    wait::until("a record of ours", wait::PATIENCE, || {
        Ok(record(file).ok().filter(|r| r.contains(";kit ")))
    })
    .unwrap()
}

/// The same calls with the same answers, for the device and its stand-in. `say` adds a line.
fn behaves(path: &Path, say: impl Fn(&str)) {
    say("kit one");
    let file = nonblocking(path);
    let first = record(&file).unwrap();
    assert!(first.contains(','), "{first}");
    wait::until_true("quiet", wait::PATIENCE, || {
        lseek(&file, 0, Whence::SeekEnd).unwrap();
        record(&file) == Err(Errno::EAGAIN) && ready(&file, 0) == PollFlags::empty()
    })
    .unwrap();
    say("kit two\tx\\y");
    assert_eq!(ready(&file, 60_000), PollFlags::POLLIN);
    let line = ours(&file);
    let (header, text) = line.split_once(';').unwrap();
    assert_eq!(text, "kit two\\x09x\\x5cy\n");
    let fields: Vec<&str> = header.split(',').collect();
    assert_eq!((fields[0], fields[3]), ("14", "-"), "{header}");
    let usec: u64 = fields[2].parse().unwrap();
    // The two clocks may drift slightly.
    assert!(usec.abs_diff(now_usec()) < 90_000_000, "{usec} {}", now_usec());
    // A record that does not fit is skipped; here possibly another program's record.
    wait::until_true("skipped record", wait::PATIENCE, || {
        lseek(&file, 0, Whence::SeekEnd).unwrap();
        say("kit three");
        say("kit four");
        assert_eq!(read(&file, &mut [0; 10]), Err(Errno::EINVAL));
        ours(&file).ends_with("kit four\n")
    })
    .unwrap();
    lseek(&file, 0, Whence::SeekSet).unwrap();
    assert_eq!(record(&file).unwrap(), first);
    lseek(&file, 0, Whence::SeekData).unwrap();
    assert!(record(&file).is_ok());
    let second = nonblocking(path);
    assert_eq!(record(&second).unwrap(), first);
}

#[test]
fn device_behaves() {
    behaves(Path::new("/dev/kmsg"), |text| {
        let mut file = OpenOptions::new().write(true).open("/dev/kmsg").unwrap();
        file.write_all(format!("<14>{text}\n").as_bytes()).unwrap();
    });
}

#[test]
fn stand_in_behaves_like_the_device() {
    let (_dir, kmsg) = mounted();
    behaves(&kmsg.path(), |text| {
        kmsg.push(14, text);
    });
    behaves(&kmsg.path(), |text| {
        let mut file = OpenOptions::new().write(true).open(kmsg.path()).unwrap();
        file.write_all(format!("<14>{text}\n").as_bytes()).unwrap();
    });
}

#[test]
fn overrun_is_reported_once() {
    let (_dir, kmsg) = mounted();
    kmsg.set_ring(Limit::Records(4));
    kmsg.push_at(1, 6, "zero");
    let file = nonblocking(kmsg.path());
    assert_eq!(record(&file).unwrap(), "6,0,1,-;zero\n");
    kmsg.flood(10, |i| format!("line {i}"));
    assert_eq!(ready(&file, 0), PollFlags::POLLIN | PollFlags::POLLERR);
    assert_eq!(record(&file), Err(Errno::EPIPE));
    assert!(record(&file).unwrap().ends_with(";line 6\n"));
    assert!(record(&file).unwrap().ends_with(";line 7\n"));
    kmsg.set_ring(Limit::Bytes(60));
    lseek(&file, 0, Whence::SeekSet).unwrap();
    assert!(record(&file).unwrap().ends_with(";line 8\n"));
}

#[test]
fn clear_moves_seek_data() {
    let (_dir, kmsg) = mounted();
    kmsg.push(6, "old");
    kmsg.clear();
    let file = nonblocking(kmsg.path());
    lseek(&file, 0, Whence::SeekData).unwrap();
    assert_eq!(ready(&file, 0), PollFlags::empty());
    assert_eq!(record(&file), Err(Errno::EAGAIN));
    kmsg.push_with(9, 6, "new", &[("SUBSYSTEM", "pci")]);
    assert_eq!(record(&file).unwrap(), "6,1,9,-;new\n SUBSYSTEM=pci\n");
}

#[test]
fn blocking_read_wakes_up_and_takes_signals() {
    let (_dir, kmsg) = mounted();
    let mut file = File::open(kmsg.path()).unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        let n = file.read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    });
    wait::until_true("blocked", wait::PATIENCE, || kmsg.waiting() == 1).unwrap();
    kmsg.push_at(1, 6, "a line");
    assert_eq!(reader.join().unwrap(), "6,0,1,-;a line\n");

    // The second time, the kernel no longer sends interrupts; the answer must be the same.
    for _ in 0..2 {
        let mut cat = Command::new("/bin/cat")
            .arg(kmsg.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait::until_true("blocked", wait::PATIENCE, || kmsg.waiting() == 1).unwrap();
        proc::send(cat.id(), nix::sys::signal::Signal::SIGTERM).unwrap();
        wait::until("cat to end", wait::PATIENCE, || Ok(cat.try_wait()?)).unwrap();
    }
}

#[test]
fn epoll_wakes_up_in_another_process_and_here() {
    let (_dir, kmsg) = mounted();
    let file = nonblocking(kmsg.path());
    let epoll = Epoll::new(EpollCreateFlags::empty()).unwrap();
    epoll.add(&file, EpollEvent::new(EpollFlags::EPOLLIN, 7)).unwrap();
    for round in 0..100_u64 {
        let mut events = [EpollEvent::empty()];
        assert_eq!(epoll.wait(&mut events, PollTimeout::ZERO).unwrap(), 0, "{round}");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut events = [EpollEvent::empty()];
                let n = epoll.wait(&mut events, PollTimeout::from(60_000_u16)).unwrap();
                (n, events[0].data())
            });
            kmsg.push(6, "wake");
            assert_eq!(waiter.join().unwrap(), (1, 7), "{round}");
        });
        assert!(record(&file).is_ok());
    }

    // A consumer in another process: Python's select.
    let script = "import os,select,sys\nf=os.open(sys.argv[1],os.O_RDONLY|os.O_NONBLOCK)\nos.lseek(f,0,2)\n\
                  print('up',flush=True)\nselect.select([f],[],[])\nprint(os.read(f,8192).decode(),end='')";
    let mut python = Command::new(crate::exec::which("python3").unwrap());
    let mut python = python
        .args(["-c", script])
        .arg(kmsg.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = python.stdout.take().unwrap();
    out.read_exact(&mut [0; 3]).unwrap();
    kmsg.push_at(5, 6, "seen");
    let mut line = String::new();
    out.read_to_string(&mut line).unwrap();
    python.wait().unwrap();
    assert_eq!(line, "6,100,5,-;seen\n");
}

#[test]
fn dmesg_reads_it() {
    let (_dir, kmsg) = mounted();
    kmsg.push_at(1_500_000, 3, "NVRM: Xid (PCI:0000:0a:00): 79");
    // dmesg reads only /dev/kmsg, so it runs in a mount namespace where our file has this path.
    let mut command = Command::new(crate::exec::which("unshare").unwrap());
    command.args([
        "--mount",
        "/bin/sh",
        "-c",
        "mount --bind \"$1\" /dev/kmsg && exec dmesg",
        "sh",
    ]);
    command.arg(kmsg.path());
    let output = crate::exec::run(command, b"", wait::PATIENCE)
        .and_then(crate::exec::Output::ok)
        .unwrap();
    assert_eq!(output.stdout, "[    1.500000] NVRM: Xid (PCI:0000:0a:00): 79\n");
}

#[test]
fn flood_is_fast_and_complete() {
    let (_dir, kmsg) = mounted();
    let start = Instant::now();
    kmsg.flood(800_000, |i| format!("nvidia-nvswitch0: line {i}"));
    println!("flood of 800,000 lines: {:?}", start.elapsed());
    let file = nonblocking(kmsg.path());
    for i in 0..2000 {
        assert!(record(&file).unwrap().ends_with(&format!("line {i}\n")));
    }
    // 8 KiB is the largest record that the device prints.
    lseek(&file, 0, Whence::SeekEnd).unwrap();
    let long = "x".repeat(8192 - "6,800000,1,-;\n".len());
    assert_eq!(kmsg.push_at(1, 6, &long), 800_000);
    assert_eq!(record(&file).unwrap().len(), 8192);
}

#[test]
fn hung_reads_survive_sigkill_and_end_with_the_mount() {
    let (dir, kmsg) = mounted();
    kmsg.push(6, "never read");
    let mut before = Command::new("/bin/sh");
    before.arg("-c").arg(format!(
        "exec 3<{} && echo up && exec cat <&3",
        kmsg.path().display()
    ));
    let mut before = before.stdout(Stdio::piped()).spawn().unwrap();
    let mut up = [0; 3];
    before.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    kmsg.hang_reads(true).unwrap();
    let mut opener = Command::new("/bin/cat").arg(kmsg.path()).spawn().unwrap();
    let pid = opener.id();
    // Both calls: a request that the server has not accepted ends with its task.
    wait::until_true("parked", wait::PATIENCE, || kmsg.waiting() == 2).unwrap();
    assert_eq!(proc::wait_for_state(pid, 'D', wait::PATIENCE).unwrap(), pid);
    proc::send(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    // No event shows that a task does not die; staying in state D with a pending signal is the evidence.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(proc::Stat::read(pid).unwrap().state, 'D');
        assert!(opener.try_wait().unwrap().is_none());
    }
    assert_ne!(
        proc::Status::read(pid).unwrap().get("ShdPnd").unwrap(),
        "0000000000000000"
    );
    let path = kmsg.path();
    drop(kmsg);
    opener.wait().unwrap();
    proc::Stat::read(before.id())
        .unwrap()
        .signal(nix::sys::signal::Signal::SIGKILL);
    before.wait().unwrap();
    assert!(!path.exists());
    assert!(
        !std::fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(dir.path().to_str().unwrap())
    );
}

#[test]
fn hang_can_end() {
    let (_dir, kmsg) = mounted();
    kmsg.push_at(1, 6, "x");
    kmsg.hang_reads(true).unwrap();
    let path = kmsg.path();
    let reader = std::thread::spawn(move || File::open(path).map(drop));
    wait::until_true("parked", wait::PATIENCE, || kmsg.waiting() == 1).unwrap();
    kmsg.hang_reads(false).unwrap();
    assert_eq!(
        reader.join().unwrap().unwrap_err().raw_os_error(),
        Some(libc::EIO)
    );
    let file = nonblocking(kmsg.path());
    assert!(file.as_raw_fd() > 2);
    assert_eq!(record(&file).unwrap(), "6,0,1,-;x\n");
}
