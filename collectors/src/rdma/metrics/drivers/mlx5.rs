//! mlx5/counters.c: the common names ([`super::hw`]).

use super::Driver;

pub(super) static DRIVER: Driver = Driver {
    names: &["mlx5_core", "mlx5_core.sf", "mlx5_ib"],
    // An e-switch port has either prefixed or plain names.
    prefix: Some("vport_"),
    ..Driver::PLAIN
};
