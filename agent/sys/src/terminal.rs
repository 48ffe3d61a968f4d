//! The terminal behind a descriptor.

#![allow(unsafe_code, reason = "the size of a terminal is an ioctl")]

use std::os::fd::{AsFd, AsRawFd};

/// Columns and lines of the terminal. `None`: it is none, or does not say.
pub fn size(fd: impl AsFd) -> Option<(u16, u16)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize, and the pointer is to one that lives until the call returns.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terminal_has_no_size() {
        assert_eq!(size(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
