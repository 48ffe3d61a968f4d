//! The device programs of a cgroup, by bpf(2) (include/uapi/linux/bpf.h). Listing them needs CAP_NET_ADMIN (since Linux
//! 6.9 CAP_SYS_ADMIN is enough), reading them CAP_SYS_ADMIN.

mod helped;
mod recorded;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::helper;
use crate::{Env, domain};

const GET_FD_BY_ID: libc::c_long = 13;
const INFO_BY_FD: libc::c_long = 15;
const QUERY: libc::c_long = 16;
/// `BPF_CGROUP_DEVICE`.
const DEVICE: u32 = 6;
/// `BPF_PROG_TYPE_CGROUP_DEVICE`.
const OF_DEVICES: u32 = 15;
/// A cgroup has one program, or a few if several managers attach their own.
const MOST_PROGRAMS: usize = 64;
/// Enough for 16,000 devices; `xlated_prog_len` shows when a program is longer.
const MOST_BYTES: usize = 128 * 1024;
/// `BPF_OBJ_NAME_LEN`
const NAME_BYTES: usize = 16;
/// Limit of [`encode`], in bytes.
pub(super) const MOST_ENCODED: usize = NAME_BYTES + 1 + MOST_BYTES;

/// The kernel's description of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// `prog_name`: up to 15 characters.
    pub(crate) name: String,
    /// Its instructions. `None`: the kernel does not show them (kernel.kptr_restrict and net.core.bpf_jit_harden).
    pub(crate) code: Option<Vec<u8>>,
}

/// The source of programs: the kernel, or a recording.
pub(crate) trait Programs: Send {
    /// The ids of the device programs that are attached to a cgroup itself, not to one above it.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` without the capability, `EINVAL` without BPF for cgroups.
    fn attached(&mut self, cgroup: &Path) -> Result<Vec<u32>, Errno>;
    /// A program that `cgroup` has.
    ///
    /// # Errors
    /// The kernel's error; `ENOENT` if it is gone by now.
    fn read(&mut self, cgroup: &Path, id: u32) -> Result<Program, Errno>;
}

/// The source of programs in this environment.
pub(crate) fn programs(env: &Env) -> Box<dyn Programs> {
    if !env.is_live() {
        return Box::new(recorded::RecordedPrograms::new(&env.sysroot));
    }
    match helper::of(&domain::BPF) {
        Some(helper) => Box::new(helped::HelpedPrograms(helper)),
        None => Box::new(LivePrograms::default()),
    }
}

fn folder(cgroup: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(cgroup, flags, Mode::empty())
}

/// The ids of the device programs of an open cgroup.
///
/// # Errors
/// As [`Programs::attached`].
pub(super) fn attached_to(folder: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let mut ids = [0_u32; MOST_PROGRAMS];
    let mut attr = Attr::default();
    attr.word(0, raw(folder)?);
    attr.word(4, DEVICE);
    attr.address(16, ids.as_mut_ptr().expose_provenance());
    attr.word(24, u32::try_from(MOST_PROGRAMS).map_err(|_| Errno::EOVERFLOW)?);
    attr.call(QUERY)?;
    let count = usize::try_from(attr.read(24)).map_err(|_| Errno::EOVERFLOW)?;
    Ok(ids.iter().copied().take(count).collect())
}

/// A program as bytes: its name, filled with zeros; whether its instructions are shown; the instructions.
pub(super) fn encode(program: &Program) -> Vec<u8> {
    let mut bytes: Vec<u8> = program.name.bytes().take(NAME_BYTES).collect();
    bytes.resize(NAME_BYTES, 0);
    bytes.push(u8::from(program.code.is_some()));
    bytes.extend(program.code.iter().flatten());
    bytes
}

/// Of the kernel, with the rights of this process.
#[derive(Default)]
pub(super) struct LivePrograms {
    /// Reused, never cleared: the kernel returns how much of it is valid.
    code: Vec<u64>,
}

impl Programs for LivePrograms {
    fn attached(&mut self, cgroup: &Path) -> Result<Vec<u32>, Errno> {
        attached_to(&folder(cgroup)?)
    }

    fn read(&mut self, _: &Path, id: u32) -> Result<Program, Errno> {
        self.program(id)
    }
}

impl LivePrograms {
    /// A device program by its number, whichever cgroup has it.
    ///
    /// # Errors
    /// As [`Programs::read`].
    pub(super) fn program(&mut self, id: u32) -> Result<Program, Errno> {
        let mut attr = Attr::default();
        attr.word(0, id);
        let fd = attr.call(GET_FD_BY_ID)?;
        let program = owned(fd)?;
        self.code.resize(MOST_BYTES / 8, 0);
        let most = u32::try_from(MOST_BYTES).map_err(|_| Errno::EOVERFLOW)?;
        let mut info = Attr::default();
        info.word(20, most);
        info.address(32, self.code.as_mut_ptr().expose_provenance());
        let mut attr = Attr::default();
        attr.word(0, raw(&program)?);
        attr.word(4, u32::try_from(size_of::<Attr>()).map_err(|_| Errno::EOVERFLOW)?);
        attr.address(8, info.0.as_mut_ptr().expose_provenance());
        attr.call(INFO_BY_FD)?;
        if info.read(0) != OF_DEVICES {
            return Err(Errno::EINVAL);
        }
        let length = info.read(20);
        if length > most {
            return Err(Errno::E2BIG);
        }
        let is_shown = info.read(32) != 0 || info.read(36) != 0;
        let words = self.code.iter().flat_map(|word| word.to_ne_bytes());
        let code = words.take(usize::try_from(length).map_err(|_| Errno::EOVERFLOW)?);
        Ok(Program {
            name: info.name(64),
            code: (is_shown && length > 0).then(|| code.collect()),
        })
    }
}

fn raw(fd: &OwnedFd) -> Result<u32, Errno> {
    u32::try_from(fd.as_raw_fd()).map_err(|_| Errno::EBADF)
}

/// `union bpf_attr`, or `struct bpf_prog_info`: the kernel accepts a longer one if the rest is zero, and fills a
/// shorter one up to its length.
#[repr(C, align(8))]
struct Attr([u8; 128]);

impl Default for Attr {
    fn default() -> Self {
        Self([0; 128])
    }
}

impl Attr {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (to, byte) in self.0.iter_mut().skip(at).zip(bytes) {
            *to = *byte;
        }
    }

    fn word(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_ne_bytes());
    }

    fn address(&mut self, at: usize, value: usize) {
        self.put(at, &(value as u64).to_ne_bytes());
    }

    fn read(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        for (to, byte) in word.iter_mut().zip(self.0.iter().skip(at)) {
            *to = *byte;
        }
        u32::from_ne_bytes(word)
    }

    /// [`NAME_BYTES`] up to a zero.
    fn name(&self, at: usize) -> String {
        let bytes = self.0.iter().skip(at).take(NAME_BYTES).copied();
        let text: Vec<u8> = bytes.take_while(|b| *b != 0).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    #[allow(unsafe_code, reason = "no small library offers these 3 calls")]
    fn call(&mut self, command: libc::c_long) -> Result<libc::c_long, Errno> {
        // SAFETY: the kernel reads and writes at most this many bytes of the attribute, which has that length. The
        // addresses in it point to buffers that outlive the call and have the lengths beside them: 64 words behind
        // `prog_ids`, 128 bytes behind `info`, MOST_BYTES behind `xlated_prog_insns`. Their provenance is exposed, as the kernel
        // writes through them.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size_of::<Self>()) };
        Errno::result(result)
    }
}

#[allow(unsafe_code, reason = "the kernel returns a number")]
fn owned(fd: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just created this descriptor (with O_CLOEXEC) for this call, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests;
