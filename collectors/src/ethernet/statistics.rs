//! A driver's statistics as names with their values. They come by three calls, and nothing holds the answers together:
//! only where all speak of the same number, and the names are the same before and behind the values, are they one answer.
//! mlx5 has names for the priorities with PFC alone: moving PFC from one to another changes names, and leaves their number
//! and their places as they are.

use nix::errno::Errno;

use super::error::CallError;
use crate::rdma::text::Reason;
use crate::sys::ethtool::{Ethtool, MOST, NAME};

/// What was read last. Kept for its memory.
#[derive(Default)]
pub(super) struct Statistics {
    names: Vec<[u8; NAME]>,
    values: Vec<u64>,
    again: Vec<[u8; NAME]>,
}

impl Statistics {
    /// Asks for all of them; once more where the answers do not fit together.
    pub(super) fn read(&mut self, kernel: &mut dyn Ethtool, netdev: &str) -> Result<(), CallError> {
        for _ in 0..2 {
            if self.read_once(kernel, netdev).map_err(CallError::of)? {
                return Ok(());
            }
        }
        Err(CallError::Refused(Reason::Malformed))
    }

    /// Whether the answers fit together.
    fn read_once(&mut self, kernel: &mut dyn Ethtool, netdev: &str) -> Result<bool, Errno> {
        let count = kernel.count(netdev)?;
        if count > MOST {
            return Err(Errno::E2BIG);
        }
        kernel.names(netdev, count, &mut self.names)?;
        kernel.values(netdev, count, &mut self.values)?;
        let all = usize::try_from(count).unwrap_or(usize::MAX);
        if self.names.len() != all || self.values.len() != all {
            return Ok(false);
        }
        kernel.names(netdev, count, &mut self.again)?;
        Ok(self.names == self.again)
    }

    /// Names and values. What is no text is left out.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let named = self.names.iter().zip(&self.values);
        named.filter_map(|(name, value)| Some((text(name)?, *value)))
    }
}

/// Up to its first zero. Some kernels have a space behind `tx_pause_storm_warning_events`.
fn text(name: &[u8; NAME]) -> Option<&str> {
    let name = name.split(|b| *b == 0).next()?;
    let name = std::str::from_utf8(name).ok()?.trim();
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}
