//! What the kernel knows of its own clock, by clock_adjtime(2) without any change. It needs no capability.

#![allow(unsafe_code, reason = "clock_adjtime has no safe wrapper")]

use std::io;
use std::mem;

use super::root;
use crate::{Env, Error};

/// The state of the system clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Whether a daemon synchronizes it, as far as that daemon says so to the kernel.
    pub(crate) is_synchronized: bool,
    /// Maximum error, in microseconds. It grows by 500 ppm from one correction to the next, up to 16 s.
    pub(crate) max_error: u64,
}

/// In the root of a recording, instead of the call: its result and the maximum error in microseconds.
const RECORDED: &str = "/clock_adjtime";

/// Reads the clock. `Ok(None)`: the recording, or another tree than the kernel's own, does not have it.
///
/// # Errors
/// EPERM or ENOSYS from a filter of system calls, or a recording that cannot be read.
pub(crate) fn read(env: &Env) -> Result<Option<Clock>, Error> {
    // The tree may be of another machine.
    if env.is_live() && !env.is_tree() {
        return live().map(Some).map_err(|e| Error::io(RECORDED.as_ref(), e));
    }
    let path = env.path(RECORDED);
    let text = root::read_text(&path)?;
    text.map(|text| recorded(&text).ok_or_else(|| Error::parse(path.display().to_string(), &text, FORM)))
        .transpose()
}

const FORM: &str = "`RESULT MICROSECONDS`";

fn recorded(text: &str) -> Option<Clock> {
    let (result, max_error) = text.trim().split_once(' ')?;
    clock(result.parse().ok()?, max_error.parse().ok()?)
}

fn live() -> io::Result<Clock> {
    // SAFETY: all of its fields are integers.
    let mut timex: libc::timex = unsafe { mem::zeroed() };
    timex.modes = 0;
    // SAFETY: the kernel reads and writes one `timex`, which lives over the call. Without a mode it changes nothing.
    let result = unsafe { libc::clock_adjtime(libc::CLOCK_REALTIME, &raw mut timex) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    clock(result, timex.maxerror).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `None`: an error below 0.
fn clock(result: libc::c_int, max_error: libc::c_long) -> Option<Clock> {
    Some(Clock {
        is_synchronized: result != libc::TIME_ERROR,
        max_error: max_error.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernel_answers_without_a_right() {
        let found = match live() {
            Ok(found) => found,
            // The filter of a container.
            Err(e) => {
                return assert!(
                    matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)),
                    "{e}"
                );
            }
        };
        assert!(found.max_error <= 16_000_000, "{found:?}");
    }

    #[test]
    fn a_recorded_result_of_5_is_not_synchronized() {
        let clock = |is_synchronized, max_error| {
            Some(Clock {
                is_synchronized,
                max_error,
            })
        };
        assert_eq!(recorded("0 1500\n"), clock(true, 1500));
        // A leap second is due today.
        assert_eq!(recorded("1 1500"), clock(true, 1500));
        assert_eq!(recorded("5 16000000"), clock(false, 16_000_000));
        for odd in ["", "5", "5 ", "5 -1", "x 1", "0 1 2"] {
            assert_eq!(recorded(odd), None, "{odd:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left(text in "[0-9 x\\n-]{0,30}") {
            recorded(&text);
        }
    }
}
