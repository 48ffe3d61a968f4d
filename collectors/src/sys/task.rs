//! State and wait channel of this process's own threads: what a blocked call is waiting for.

use serde::{Deserialize, Serialize};

use super::root;

/// One thread as `/proc/self/task/TID` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Thread id.
    pub tid: i32,
    /// The thread's name (`comm`).
    pub name: String,
    /// The state letter of `/proc/PID/task/TID/stat`: R, S, D, ...
    pub state: char,
    /// The wait channel (`wchan`), empty where the kernel shows none.
    pub wchan: String,
}

/// State and wait channel of one of our threads. `None`: it has ended.
pub fn read(tid: i32) -> Option<Task> {
    let base = format!("/proc/self/task/{tid}");
    let stat = root::read_text(format!("{base}/stat").as_ref()).ok().flatten()?;
    let (name, state) = parse_stat(&stat)?;
    let wchan = root::read_text(format!("{base}/wchan").as_ref())
        .ok()
        .flatten()
        .unwrap_or_default();
    let wchan = if wchan == "0" { String::new() } else { wchan };
    Some(Task {
        tid,
        name,
        state,
        wchan,
    })
}

/// The calling thread's id.
pub fn own_tid() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// The name may hold spaces and parentheses, so the state is what follows the last `)`.
fn parse_stat(stat: &str) -> Option<(String, char)> {
    let open = stat.find('(')?;
    let close = stat.rfind(')')?;
    let name = stat.get(open + 1..close)?.to_owned();
    let state = stat.get(close + 1..)?.trim_start().chars().next()?;
    Some((name, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_state() {
        assert_eq!(parse_stat("12 (a) b) D 1 2"), Some(("a) b".to_owned(), 'D')));
        assert_eq!(parse_stat("12 (a"), None);
    }

    #[test]
    fn the_calling_thread_is_running() {
        let task = read(own_tid()).unwrap();
        assert_eq!(task.state, 'R');
    }
}
