//! A stand-in for NVIDIA's management library, `libnvidia-ml.so.1`: the real C interface, played from a scenario.
//!
//! As a shared library it is what a program loads. As a Rust library it is what a test writes to that library and reads
//! from it: [`control`] and [`counts`]. README.md says what scenarios look like.

mod abi;
mod call;
pub mod control;
pub mod counts;
pub mod field_ids;
pub mod functions;
mod map;
pub mod place;
pub mod scenario;
mod state;
