//! `[kernel_log]`.

use crate::settings::Kind;

crate::keys! {
    pub(super) KEYS;
    PATH = "kernel_log.path": Kind::Path, default "\"/dev/kmsg\"", since "0.1.0",
        "The kernel log to read; a FIFO in its place has one record per line. Not a regular file:\n\
         after its end the log counts as unreadable, and the verdict is unknown.";
    // Any program that may write to /dev/kmsg could cause a drain of the node.
    ACCEPT_USER = "kernel_log.accept_user": Kind::Boolean, default "false", since "0.1.0",
        "Accept lines that programs wrote to the log as driver messages. For tests only.";
}
