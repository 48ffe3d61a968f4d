//! Parsed snapshots, shared by all checks.

pub(crate) mod by_metric;
pub mod gpu;
pub(crate) mod gpu_part;
pub(crate) mod gpu_process;
pub(crate) mod group;
pub mod host;
pub mod known;
pub mod links;
pub(crate) mod mounts;
pub(crate) mod node;
pub mod port;

/// The value, if all have it. `None`: there are none, or one is unreadable.
pub(crate) fn equal<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values
        .all(|value| value.as_ref() == Some(&first))
        .then_some(first)
}
