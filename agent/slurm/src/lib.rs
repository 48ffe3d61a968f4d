//! Maps Slurm to [`model::scheduler`]: node descriptions ([`parse`], [`sinfo`], [`words`]), authors of reasons
//! ([`texts`]), the copy of a drain's record ([`extra`]), allowed writes ([`decide`]) and the arguments of slurmd
//! ([`slurmd_args`]). Pure: no I/O, no clock, no randomness.

#![forbid(unsafe_code)]

pub mod action;
pub mod decide;
pub mod describe;
pub mod extra;
pub mod guard;
pub mod parse;
pub mod proof;
pub mod settings;
pub mod sinfo;
pub mod slurmd_args;
pub mod state;
pub mod texts;
pub mod words;

pub use describe::describe;
pub use settings::Settings;
