//! Asks Slurm and writes to it, as root: finds the own slurmd, proves the node, runs scontrol.

mod disk;
pub mod find;
mod guard;
pub mod here;
pub mod memory;
pub mod scontrol;
pub mod seen;
mod stop;
pub mod write;

pub use write::Slurm;
