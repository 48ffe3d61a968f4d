//! The limit on drains over the whole cluster. A drain slot is a reservation without nodes: slurmctld gives a name out
//! once, and frees it automatically when its time ends. The pause is such a reservation too.
//!
//! Pure: the parent runs the commands ([`reservation`], [`slot`]), and this module reads their answers.

pub mod limits;
pub mod partition;
pub mod reservation;
pub mod slot;
pub mod table;

pub use limits::{Limits, Settings};
