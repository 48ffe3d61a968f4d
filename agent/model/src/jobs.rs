//! What each job uses of this node, from its first reading to its last: one line when it has ended.

mod book;
mod counters;
mod ended;
mod epilog;
mod hidden;
mod line;
mod looks;
mod meters;
mod running;
mod sight;
mod view;
mod written;
mod xids;

pub use book::Book;
pub use hidden::{Hidden, MaxJobs};
pub use line::{GpuUse, Line, RESULTS, Unread};
pub use looks::{Looks, asked};
pub use view::JobsView;

#[cfg(test)]
mod tests;
