//! The allocator of a process that lives for months beside the other processes of nodewarden.

#![allow(unsafe_code, reason = "the settings of the allocator have no safe wrapper")]

/// Gives what only a start required back to the kernel, and lets all threads share one arena: an arena for each thread
/// would keep what that thread required at its peak. Threads that started before keep theirs.
pub fn settle() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both functions take numbers only, and synchronise with every other use of the allocator.
    unsafe {
        // Where it is refused, or where nothing can be given back, all works as before.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::malloc_trim(0);
    }
}
