//! Slurm in the terms of [`model::scheduler`]: what slurmctld says of a node ([`parse`], [`words`]), whose reason it has
//! ([`texts`]), what may be written ([`decide`]), and how slurmd is started ([`argv`]). Pure: no I/O, no clock, no
//! randomness.

#![forbid(unsafe_code)]

pub mod action;
pub mod argv;
pub mod decide;
pub mod describe;
pub mod parse;
pub mod proof;
pub mod settings;
pub mod state;
pub mod texts;
pub mod words;

pub use describe::describe;
pub use settings::Settings;
