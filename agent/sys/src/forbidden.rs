//! What a process that was taken over could try. docs/security.md shows the table, and `cargo xtask e2e walls` tries each act
//! with the ids, capabilities, filters and Landlock rules of each process.

/// One act.
#[derive(Debug)]
pub struct Act {
    /// Its name in the test.
    pub name: &'static str,
    /// The text of the document.
    pub what: &'static str,
    /// Names of the processes that can do it. All others get an error.
    pub may: &'static [&'static str],
}

const fn act(name: &'static str, what: &'static str, may: &'static [&'static str]) -> Act {
    Act { name, what, may }
}

/// All acts, and who can do them.
#[rustfmt::skip]
pub static ACTS: &[Act] = &[
    act("read-secret", "open a file of root with mode 0600", &["parent", "proc", "debugfs", "nvme"]),
    act("read-memory", "open the memory of another nodewarden process to read", &["parent", "proc"]),
    act("write-memory", "`process_vm_writev` into it", &[]),
    act("ptrace", "`PTRACE_SEIZE` it", &[]),
    act("signal", "send it a signal", &["parent"]),
    act("take-descriptor", "take a descriptor from it (`pidfd_getfd`)", &[]),
    act("send-descriptor", "send a descriptor (`sendmsg`)", &["parent", "nvidia", "slurm", "mmpmon"]),
    act("exec", "start a program", &["parent"]),
    act("fork", "start a process", &["parent"]),
    act("become-root", "`setresuid(0, 0, 0)`", &["parent"]),
    act("mount", "mount a filesystem", &[]),
    act("unmount", "unmount a filesystem", &[]),
    act("namespace", "create a user namespace", &[]),
    act("module", "load a kernel module", &[]),
    act("program", "load a BPF program", &[]),
    act("device", "create a device file", &[]),
    act("io-uring", "create a ring of io_uring", &[]),
    act("tcp", "connect to a TCP port of this node", &["parent"]),
    act("udp", "create a UDP socket", &["parent", "rdma"]),
    act("packet", "create a packet socket", &[]),
    act("netlink", "create a netlink socket to RDMA", &["parent", "rdma"]),
    act("listen", "listen on a socket", &["parent", "daemon"]),
    act("order", "`clear` an incident on the control socket", &["parent"]),
    act("own-drain", "create a file in the parent's folder of the state directory", &["parent"]),
    act("slots", "create a file in the folder of lock slots", &["parent"]),
    act("state", "create a file in the state directory", &["parent", "daemon"]),
    act("run", "create a file in the run directory", &["parent", "daemon"]),
    act("remove", "remove a file of root from the run directory", &["parent"]),
    act("tmp", "create a file in `/tmp`", &["parent", "nvidia"]),
    act("etc", "create a file in `/etc`", &["parent"]),
];
