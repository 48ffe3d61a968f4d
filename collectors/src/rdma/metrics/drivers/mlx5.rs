//! mlx5/counters.c: its words are those of all ([`super::hw`]).

use super::Driver;

pub(super) static DRIVER: Driver = Driver {
    names: &["mlx5_core", "mlx5_core.sf", "mlx5_ib"],
    // A port of an e-switch has either these or those without.
    prefix: Some("vport_"),
    ..Driver::PLAIN
};
