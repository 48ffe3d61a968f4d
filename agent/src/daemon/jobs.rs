//! Where what jobs have used is kept: their lines and the sums of those that run.

mod keeper;
mod kept;

pub use keeper::Keeper;
pub use kept::{kept, recall, restore, start};

#[cfg(test)]
mod tests;
