//! How a process confines itself, once, before it reads anything that another process wrote: system call filter, and
//! for some processes Landlock.

use std::sync::OnceLock;

use crate::landlock::{self, FileAccess};
use crate::memory;
use crate::seccomp::{self, policy};

/// What confines a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether its system calls are filtered. `None`: this process does not confine itself.
    pub seccomp: Option<bool>,
    /// Whether Landlock confines it. `None`: not meant to.
    pub landlock: Option<bool>,
    /// Why a part is missing.
    pub missing: Vec<String>,
}

static OWN: OnceLock<Sandbox> = OnceLock::new();

/// What confines the calling process.
pub fn own() -> Sandbox {
    OWN.get().cloned().unwrap_or_default()
}

/// Confines the calling process, permanently, as far as the kernel can, and settles its memory. `process` is a name of [`crate::processes`].
/// Call it before the first thread: Landlock confines the calling thread and those that it starts.
pub fn enter(process: &str, files: Option<&FileAccess>) -> Sandbox {
    let mut sandbox = Sandbox::default();
    if let Some(files) = files {
        let done = landlock::apply(files);
        sandbox.landlock = Some(done.is_ok());
        sandbox
            .missing
            .extend(done.err().map(|e| format!("no Landlock for {process}: {e}")));
    }
    let done = seccomp::apply(policy::of(process));
    sandbox.seccomp = Some(done.is_ok());
    sandbox.missing.extend(
        done.err()
            .map(|e| format!("no system call filter for {process}: {e}")),
    );
    memory::settle();
    // A second call of one process changes no answer.
    OWN.get_or_init(|| sandbox).clone()
}
