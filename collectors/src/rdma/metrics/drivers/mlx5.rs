//! mlx5/counters.c: its words are those of all ([`super::hw`]).

use super::RdmaDriver;

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["mlx5_core", "mlx5_core.sf", "mlx5_ib"],
    // A port of an e-switch has either these or those without.
    prefix: Some("vport_"),
    ..RdmaDriver::PLAIN
};
