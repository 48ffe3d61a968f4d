//! Drops root: groups, ids, capabilities, bounding set. First thing after exec, before any thread.

#![allow(unsafe_code, reason = "capset and prctl have no safe wrapper here")]

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

/// `struct __user_cap_header_struct` of linux/capability.h.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct` of linux/capability.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: two words of 32 bits per set.
const VERSION_3: u32 = 0x2008_0522;

/// Whether this process is root, and so has rights to drop.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Becomes `uid` and `gid` with the capabilities of `mask` only, permanently. A capability removed by a unit or
/// container is missing, and reads that need it report that. Without root only no_new_privs is set: the process keeps
/// the rights of its user.
///
/// # Errors
/// The first system call that fails; the caller must not go on.
pub fn drop_to(uid: u32, gid: u32, mask: u64) -> io::Result<()> {
    if is_root() {
        prctl::set_keepcaps(true)?;
        setgroups(&[])?;
        drop_bounding(mask)?;
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        set_capabilities(mask & permitted()?)?;
        prctl::set_keepcaps(false)?;
    }
    prctl::set_no_new_privs()?;
    Ok(())
}

/// Keeps only the capabilities of `mask`, permanently, and the user. Without root nothing changes.
///
/// # Errors
/// The first system call that fails; the process then has more capabilities than it should.
pub fn keep(mask: u64) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    // In a container without CAP_SETPCAP the bounding set stays as it is.
    let bounded = drop_bounding(mask);
    set_capabilities(mask & permitted()?)?;
    bounded
}

/// Lets this process read `/proc/self/task/TID/syscall` of its own threads, which belongs to root after a change of
/// ids. Processes with the same ids may read it and trace this process too, and core dumps are enabled.
///
/// # Errors
/// Of prctl(2).
pub fn show_own_calls() -> io::Result<()> {
    Ok(prctl::set_dumpable(true)?)
}

/// No core dump of this process, also where `fs.suid_dumpable` is 2. A limit of 1 is too short for a file, and the kernel does not
/// start the program of a pipe then; with a limit of 0 it does (fs/coredump.c, `do_coredump`).
///
/// # Errors
/// Of prlimit(2): the limit is 0 already, and may not be raised.
pub fn forbid_core_dumps() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, 1, 1)?)
}

fn drop_bounding(keep: u64) -> io::Result<()> {
    for bit in 0..64 {
        // SAFETY: PR_CAPBSET_READ and PR_CAPBSET_DROP take one integer and touch no memory.
        let present = unsafe { libc::prctl(libc::PR_CAPBSET_READ, bit, 0, 0, 0) };
        if present < 0 {
            // Past the last capability of this kernel.
            break;
        }
        if present == 1 && keep & (1 << bit) == 0 {
            // SAFETY: as above.
            if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, bit, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

const OWN: CapHeader = CapHeader {
    version: VERSION_3,
    pid: 0,
};

/// The permitted capabilities.
fn permitted() -> io::Result<u64> {
    let none = CapData {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    };
    let (header, mut data) = (OWN, [none; 2]);
    // SAFETY: header and data have the layout of linux/capability.h for version 3 and live over the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let [low, high] = data.map(|word| u64::from(word.permitted));
    Ok(high << 32 | low)
}

fn set_capabilities(mask: u64) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the mask")]
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let word = |bits| CapData {
        effective: bits,
        permitted: bits,
        inheritable: 0,
    };
    let (header, data) = (OWN, [word(low), word(high)]);
    // SAFETY: header and data have the layout of linux/capability.h for version 3 and live over the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
