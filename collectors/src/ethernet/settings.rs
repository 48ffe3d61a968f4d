//! `[ethernet]`. Which ports are read is in `[rdma]`.

use crate::settings::Kind;

crate::keys! {
    pub(super) KEYS;
    ENABLED = "ethernet.enabled": Kind::Boolean, default "true", since "0.1.0",
        "Read PFC, pause, FEC and link errors of the Ethernet ports that [rdma] selects, every 30 s, without PFC every 60 s.";
}
