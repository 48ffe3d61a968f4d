//! The Ethernet below RoCE ports: priority flow control, pause, forward error correction, the link's errors, and how the
//! port is set up. Every call here holds the kernel's one lock of network configuration (RTNL), and some cost tens of
//! commands of the firmware: see docs/decisions/0010-ethernet-statistics.md.

pub mod metrics;

use std::time::Duration;

use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};

/// The ethernet collector.
pub static SPEC: Spec = Spec {
    name: "ethernet",
    domain: &domain::RDMA,
    metrics: metrics::METRICS,
    events: false,
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(30)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |_| Ok(()),
    open,
};

fn open(_: &Env, _: &Settings) -> Result<Option<Source>, Error> {
    Ok(None)
}
