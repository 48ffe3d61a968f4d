//! The statistics of a network interface by ioctl(2) (`SIOCETHTOOL`, include/uapi/linux/ethtool.h). Any user may
//! read them. Each call holds RTNL while the driver answers.

mod pages;
mod recorded;

use std::ffi::c_char;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::sys::kept::{DescriptorBudget, Permit};
use pages::Pages;
pub(crate) use recorded::{check as check_recording, fuzz as check};

/// Maximum length of a statistic's name (`ETH_GSTRING_LEN`), including its zero byte.
pub(crate) const NAME: usize = 32;

/// More than any driver has: tens for each of hundreds of queues.
pub(crate) const MOST: u32 = 32 * 1024;
/// Memory for twice this number: another program may add queues between two calls, and the kernel writes all of
/// them. Pages that are not written use no memory.
const ROOM: usize = 2 * MOST as usize;

const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_INFO: u32 = 0x37;
/// `ETH_SS_STATS`.
const STATISTICS: u32 = 1;

/// `struct ethtool_gstrings` and `struct ethtool_stats` up to the data that the kernel fills.
const STRINGS_HEAD: usize = 12;
const STATISTICS_HEAD: usize = 8;

/// The source of statistics: the kernel, a recording or a test. Three calls; the answers may change between them.
pub(crate) trait Ethtool: Send {
    /// The number of statistics.
    ///
    /// # Errors
    /// The kernel's error; `EOPNOTSUPP` if the driver has none.
    fn count(&mut self, netdev: &str) -> Result<u32, Errno>;
    /// Their names, without trailing zeros, replacing the previous ones. There may be more or fewer than `count`.
    ///
    /// # Errors
    /// The kernel's error.
    fn names(&mut self, netdev: &str, count: u32, names: &mut Vec<[u8; NAME]>) -> Result<(), Errno>;
    /// Their values, likewise. If the number differs from `count`, the kernel returns none (since 6.12).
    ///
    /// # Errors
    /// The kernel's error.
    fn values(&mut self, netdev: &str, count: u32, values: &mut Vec<u64>) -> Result<(), Errno>;
}

/// The source in this environment: the kernel, or the recording below this root.
pub(crate) fn asker(recorded: Option<&Path>, budget: &Arc<DescriptorBudget>) -> Box<dyn Ethtool> {
    match recorded {
        Some(root) => Box::new(recorded::RecordedEthtool::new(root)),
        None => Box::new(LazyEthtool {
            permit: budget.take(),
            budget: Arc::clone(budget),
            open: None,
        }),
    }
}

/// A socket that is opened at the first query, within the budget of descriptors. Its permit is taken first.
struct LazyEthtool {
    budget: Arc<DescriptorBudget>,
    permit: Option<Permit>,
    open: Option<OwnedFd>,
}

impl LazyEthtool {
    /// Makes one call. The kernel reads the header of the buffer, and writes its answer there.
    fn call(&mut self, netdev: &str, buffer: &mut Pages) -> Result<(), Errno> {
        if self.permit.is_none() {
            self.permit = Some(self.budget.take().ok_or(Errno::EMFILE)?);
        }
        let fd = match &mut self.open {
            Some(fd) => fd,
            // Any socket works.
            open => {
                let kind = (AddressFamily::Inet, SockType::Datagram);
                open.insert(socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None)?)
            }
        };
        ioctl(fd, netdev, buffer)
    }
}

#[allow(unsafe_code, reason = "there is no other way to make this call")]
fn ioctl(fd: &OwnedFd, netdev: &str, buffer: &mut Pages) -> Result<(), Errno> {
    let mut name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    if netdev.is_empty() || netdev.len() >= name.len() {
        return Err(Errno::ENODEV);
    }
    for (to, byte) in name.iter_mut().zip(netdev.bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: buffer.as_mut_slice().as_mut_ptr().cast(),
        },
    };
    // SAFETY: the request is a complete `ifreq` and outlives the call, and so does the buffer. The kernel writes
    // contiguously from the start of the buffer, as much as the driver has by now. It stops with EFAULT at the page
    // after the buffer, which is not writable.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    Errno::result(result).map(drop)
}

/// A buffer that starts with these numbers.
fn begun(words: &[u32], room: usize) -> Result<Pages, Errno> {
    let mut buffer = Pages::new(words.len() * 4 + room)?;
    for (to, word) in buffer.as_mut_slice().chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    Ok(buffer)
}

/// The number at that offset.
fn word(buffer: &[u8], at: usize) -> u32 {
    let bytes = buffer.get(at..).and_then(|b| b.first_chunk());
    bytes.map_or(0, |b| u32::from_ne_bytes(*b))
}

/// The items after a header, as many as the kernel reports as written.
fn items<const N: usize>(buffer: &[u8], head: usize, count: u32) -> impl Iterator<Item = [u8; N]> + '_ {
    let behind = buffer.get(head..).unwrap_or_default();
    let written = usize::try_from(count).unwrap_or(usize::MAX);
    let all = behind.chunks_exact(N).take(written);
    all.filter_map(|item| item.try_into().ok())
}

impl Ethtool for LazyEthtool {
    fn count(&mut self, netdev: &str) -> Result<u32, Errno> {
        // struct ethtool_sset_info: command, reserved, a 64-bit mask, and one number for each bit of it.
        let mask = (1_u64 << STATISTICS).to_ne_bytes();
        let mut buffer = begun(&[GET_SET_INFO, 0, 0, 0], 4)?;
        if let Some(to) = buffer.as_mut_slice().get_mut(8..16) {
            to.copy_from_slice(&mask);
        }
        self.call(netdev, &mut buffer)?;
        let buffer = buffer.as_slice();
        if buffer.get(8..16) != Some(&mask) {
            return Err(Errno::EOPNOTSUPP);
        }
        match word(buffer, 16) {
            0 => Err(Errno::EOPNOTSUPP),
            count if count > MOST => Err(Errno::E2BIG),
            count => Ok(count),
        }
    }

    fn names(&mut self, netdev: &str, count: u32, names: &mut Vec<[u8; NAME]>) -> Result<(), Errno> {
        let mut buffer = begun(&[GET_STRINGS, STATISTICS, count], ROOM * NAME)?;
        self.call(netdev, &mut buffer)?;
        let buffer = buffer.as_slice();
        names.clear();
        names.extend(items::<NAME>(buffer, STRINGS_HEAD, word(buffer, 8)));
        Ok(())
    }

    fn values(&mut self, netdev: &str, count: u32, values: &mut Vec<u64>) -> Result<(), Errno> {
        let mut buffer = begun(&[GET_STATISTICS, count], ROOM * 8)?;
        self.call(netdev, &mut buffer)?;
        let buffer = buffer.as_slice();
        values.clear();
        let written = items::<8>(buffer, STATISTICS_HEAD, word(buffer, 4));
        values.extend(written.map(u64::from_ne_bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
