//! Slurm: what state the own node is in, what may be done to it, and doing it.

pub mod argv;
pub mod decide;
pub mod find;
pub mod here;
pub mod memory;
pub mod parse;
pub mod proof;
pub mod scontrol;
pub mod state;
pub mod texts;
pub mod words;
pub mod write;

pub use write::Slurm;
