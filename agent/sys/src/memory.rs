//! The memory of a process that lives for months beside the other processes of nodewarden.

#![allow(
    unsafe_code,
    reason = "the settings of the allocator and the pages of stack and program have no safe wrapper"
)]

use std::ffi::{c_int, c_void};
use std::ops::Range;

use nix::unistd::{SysconfVar, getpid, gettid, sysconf};

/// Gives what only the start required back to the kernel, and lets all threads share one arena: an arena for each thread
/// would keep what that thread required at its peak. Threads that started before keep theirs.
pub fn settle() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both functions take numbers only, and synchronise with every other use of the allocator.
    unsafe {
        // Where it is refused, or where nothing can be given back, all works as before.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::malloc_trim(0);
    }
    release_stack();
    release_program();
}

/// Size of what stays below the frame of [`release_stack`], for the calls that it makes.
const KEPT: usize = 16 << 10;
/// The most that is given back: the usual limit of a stack.
const MOST: usize = 8 << 20;

/// Gives the pages of the main thread's stack below the calling function back to the kernel: the start's deepest call had
/// many more frames than the loop of a process has. Returns their number; 0 on another thread, whose stack may lie directly
/// above memory of something else.
fn release_stack() -> usize {
    let Some(size) = page_size().filter(|_| gettid() == getpid()) else {
        return 0;
    };
    let here = 0_u8;
    let top = std::ptr::from_ref(&here).addr().saturating_sub(KEPT) / size * size;
    // Page by page: an address without memory ends it, such as the gap that the kernel keeps below a stack.
    let pages = (1..=MOST / size).map(|page| top.saturating_sub(page * size));
    // SAFETY: the page is below every frame of the only thread that uses this stack, and no reference into it exists. As pages
    // are visited without a gap from the stack on, it is one of the stack. A later call finds zeros there, as in memory
    // that the stack has never reached.
    pages
        .take_while(|page| unsafe { give_back(*page..*page + size) })
        .count()
}

/// Unmaps the pages of the program's code and constants. The kernel maps those that are used from now on again, from its
/// cache of the file; those of the start stay unmapped. Returns the size of all.
fn release_program() -> usize {
    let mut segments: Vec<Range<usize>> = Vec::new();
    let to: *mut Vec<Range<usize>> = &raw mut segments;
    // SAFETY: `collect` gets this pointer, which is valid until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(collect), to.cast()) };
    let Some(size) = page_size() else { return 0 };
    let pages = |s: &Range<usize>| s.start / size * size..s.end.div_ceil(size) * size;
    // SAFETY: the segment is not writable, so that its pages have the bytes of the file and are read from there again. The loader
    // writes relocated addresses to other segments only.
    let all = segments
        .iter()
        .map(pages)
        .filter(|s| unsafe { give_back(s.clone()) });
    all.map(|s| s.len()).sum()
}

/// Adds the addresses of the program's segments that are never written. Called for the program first, and ends there.
unsafe extern "C" fn collect(object: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
    // SAFETY: the caller passes a valid object, whose headers have that number, and the pointer of `release_program`.
    let (object, to) = unsafe { (&*object, &mut *to.cast::<Vec<Range<usize>>>()) };
    // SAFETY: as above.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for header in headers {
        let place = usize::try_from(object.dlpi_addr.wrapping_add(header.p_vaddr));
        let length = usize::try_from(header.p_memsz);
        if let (libc::PT_LOAD, Ok(place), Ok(length)) = (header.p_type, place, length)
            && header.p_flags & libc::PF_W == 0
        {
            to.push(place..place.saturating_add(length));
        }
    }
    1
}

fn page_size() -> Option<usize> {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok())
}

/// Whether the kernel took the pages. It refuses addresses without memory.
///
/// # Safety
/// The pages are read from their file, or never read, before they are written again.
unsafe fn give_back(pages: Range<usize>) -> bool {
    let start = std::ptr::without_provenance_mut(pages.start);
    // SAFETY: as above.
    unsafe { libc::madvise(start, pages.len(), libc::MADV_DONTNEED) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with addresses, which the loader writes.
    static WORDS: [&str; 3] = ["a", "b", "c"];

    #[test]
    fn only_the_main_thread_gives_stack_back() {
        // A test has a thread of its own.
        assert_eq!(release_stack(), 0);
    }

    #[test]
    fn code_and_tables_are_the_same_after_their_pages_were_given_back() {
        let words = WORDS.concat();
        assert!(release_program() > 100_000, "the code of this test");
        assert_eq!(WORDS.concat(), words);
    }
}
