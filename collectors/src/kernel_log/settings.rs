//! `[kernel_log]`.

use crate::settings::Kind;

crate::keys! {
    pub(super) KEYS;
    PATH = "kernel_log.path": Kind::Path, default "\"/dev/kmsg\"", since "0.1.0",
        "The kernel log to read; a file or FIFO in its place holds one record per line.";
    // Whoever may write to /dev/kmsg could have the node drained.
    ACCEPT_USER = "kernel_log.accept_user": Kind::Boolean, default "false", since "0.1.0",
        "Treat lines that programs wrote into the log as the driver's. For tests only.";
}
