//! Zeroed memory with an inaccessible page after it: for calls in which the kernel writes without a length limit.
//! Unmapped as a whole, while an allocator would keep it.

use std::ptr::NonNull;

use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};

/// The memory.
pub(super) struct Pages {
    start: NonNull<u8>,
    /// Length of the accessible pages.
    length: usize,
    /// Length including the inaccessible page.
    mapped: usize,
}

impl Pages {
    /// At least `bytes` bytes, in whole pages. Pages that are not written use no memory.
    ///
    /// # Errors
    /// The errors of mmap(2) and mprotect(2).
    #[allow(unsafe_code, reason = "memory that is mapped here")]
    pub(super) fn new(bytes: usize) -> Result<Self, Errno> {
        let page = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|size| usize::try_from(size).ok());
        let page = page.ok_or(Errno::EINVAL)?;
        let length = bytes.max(1).checked_next_multiple_of(page);
        let length = length.ok_or(Errno::ENOMEM)?;
        let mapped = length.checked_add(page).ok_or(Errno::ENOMEM)?;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: without an address or MAP_FIXED this maps unused addresses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::ENOMEM)?;
        let pages = Self {
            start,
            length,
            mapped,
        };
        // SAFETY: the last page of the mapping, at a multiple of the page size. No slice extends to it.
        let guarded = unsafe {
            libc::mprotect(
                start.as_ptr().add(length).cast(),
                mapped - length,
                libc::PROT_NONE,
            )
        };
        Errno::result(guarded).map(|_| pages)
    }

    #[allow(unsafe_code, reason = "memory that was mapped here")]
    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: these bytes were mapped, zeroed and readable, and stay so as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    #[allow(unsafe_code, reason = "memory that was mapped here")]
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, also writable; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pages {
    #[allow(unsafe_code, reason = "memory that was mapped here")]
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, unmapped once; no borrow is left. It cannot fail for an existing mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_memory_is_zeroed_and_as_much_as_was_asked_for() {
        for bytes in [1, 4096, 65_537, 2 << 20] {
            let mut pages = Pages::new(bytes).unwrap();
            assert!(pages.as_slice().len() >= bytes && pages.as_slice().iter().all(|b| *b == 0));
            pages.as_mut_slice().fill(7);
            assert!(pages.as_slice().iter().all(|b| *b == 7));
        }
        assert_eq!(Pages::new(usize::MAX).map(drop), Err(Errno::ENOMEM));
    }

    /// The kernel receives a length beyond the end of the memory.
    #[test]
    #[allow(unsafe_code, reason = "a kernel that writes beyond the end")]
    #[allow(clippy::disallowed_methods, reason = "any file that returns endless bytes")]
    fn the_kernel_writes_up_to_the_end_and_no_further() {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut pages = Pages::new(1).unwrap();
        pages.as_mut_slice().fill(7);
        let length = pages.as_slice().len();
        let from = pages.as_mut_slice().as_mut_ptr();
        // SAFETY: the page after the end is not writable, which this test shows.
        let read = unsafe { libc::read(zero.as_raw_fd(), from.cast(), length + 1) };
        assert!(
            read == -1 || usize::try_from(read).unwrap() <= length,
            "{read} of {length}"
        );
        // SAFETY: the range starts at that page.
        let read = unsafe { libc::read(zero.as_raw_fd(), from.wrapping_add(length).cast(), 1) };
        assert_eq!((read, Errno::last()), (-1, Errno::EFAULT));
    }
}
