//! mlx5/counters.c: the common names ([`super::hw`]).

use super::RdmaDriver;

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["mlx5_core", "mlx5_core.sf", "mlx5_ib"],
    // An e-switch port has either prefixed or plain names.
    prefix: Some("vport_"),
    ..RdmaDriver::PLAIN
};
