//! What each job uses of this node, from its first reading to its last: one line when it has ended.

mod book;
mod counters;
mod ended;
mod hidden;
mod line;
mod looks;
mod meters;
mod running;
mod sight;
mod view;
mod xids;

pub use book::Book;
pub use ended::Epilog;
pub use hidden::{Hidden, MaxJobs};
pub use line::{End, GpuUse, Line, RESULTS};
pub use looks::{Looks, asked};
pub use view::JobsView;

#[cfg(test)]
mod tests;
