//! Lines that the kernel begins with the name of a process. Any user chooses that name, and the file name at the end of some
//! of them: neither may be read as the message of a driver.

/// The longest name, in bytes (`TASK_COMM_LEN` without its end).
const NAME: usize = 15;

/// What the kernel prints directly behind the name; `%` is a number. A process and its number in brackets suffice: the lines
/// are those of segfaults, signal frames, vsyscalls, memfd_create() and, on arm64, of every unhandled exception.
const BEHIND: [&str; 19] = [
    "[%]: ",
    "[%] ",
    " (%): VmData ",
    " (%): attempted to duplicate ",
    " (%): drop_caches: ",
    " (%): /proc/",
    " (%): Using ",
    "(%): Attempt to set a LOCK_MAND ",
    " (%) used greatest stack depth",
    " (pid %) is setting ",
    "/%: reached RLIMIT_SIGPENDING",
    "/%: potentially unexpected fatal signal ",
    " invoked oom-killer: ",
    ": page allocation ",
    ": vmalloc",
    ": sending ioctl ",
    " calls setitimer() with ",
    " uses obsolete (PF_INET",
    " wrote to ",
];

/// Prefixes of source files that print nothing but such lines.
const BEFORE: [&[u8]; 2] = [b"traps: ", b"umip: "];

/// What the line of a process says behind the name. None: another line.
pub(super) fn said(text: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = BEFORE.iter().find_map(|head| text.strip_prefix(*head)) {
        return Some(behind_name(rest).unwrap_or(rest));
    }
    behind_name(text).filter(|_| !names_a_blocked_task(text))
}

fn behind_name(text: &[u8]) -> Option<&[u8]> {
    // The last: the name itself may look like that, and what the kernel prints behind it does not a second time.
    (0..=NAME)
        .rev()
        .filter_map(|at| text.get(at..))
        .find(|rest| BEHIND.iter().any(|form| begins(rest, form.as_bytes())))
}

/// `INFO: task NAME:PID blocked`: a name in this line must not hide it.
fn names_a_blocked_task(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"INFO: task ") else {
        return false;
    };
    (0..=NAME)
        .filter_map(|at| rest.get(at..))
        .any(|rest| begins(rest, b":% blocked "))
}

fn begins(text: &[u8], form: &[u8]) -> bool {
    let Some(number) = form.iter().position(|b| *b == b'%') else {
        return text.starts_with(form);
    };
    let (before, behind) = form.split_at(number);
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (Some(rest), Some(behind)) = (rest.get(digits..), behind.get(1..)) else {
        return false;
    };
    digits > 0 && rest.starts_with(behind)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
