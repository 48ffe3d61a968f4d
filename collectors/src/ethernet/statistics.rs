//! A driver's statistics as names with values. They need 3 separate calls. So the answers are consistent only if all 3
//! agree on the count, and the names are the same before and after the values. mlx5 has names only for priorities with
//! PFC: moving PFC to another priority changes names, but neither their count nor their positions.

use nix::errno::Errno;

use super::error::CallError;
use crate::rdma::text::Reason;
use crate::sys::ethtool::{Ethtool, MOST, NAME};

/// The last values read. Kept to reuse its memory.
#[derive(Default)]
pub(super) struct Statistics {
    names: Vec<[u8; NAME]>,
    values: Vec<u64>,
    again: Vec<[u8; NAME]>,
}

impl Statistics {
    /// Reads all statistics; repeats once if the answers are inconsistent.
    pub(super) fn read(&mut self, kernel: &mut dyn Ethtool, netdev: &str) -> Result<(), CallError> {
        for _ in 0..2 {
            if self.read_once(kernel, netdev).map_err(CallError::of)? {
                return Ok(());
            }
        }
        Err(CallError::Refused(Reason::Malformed))
    }

    /// Whether the answers are consistent.
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

    /// Names and values. A name that is not text is omitted.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let named = self.names.iter().zip(&self.values);
        named.filter_map(|(name, value)| Some((text(name)?, *value)))
    }
}

/// The text up to its first zero byte. Some kernels add a space after `tx_pause_storm_warning_events`.
fn text(name: &[u8; NAME]) -> Option<&str> {
    let name = name.split(|b| *b == 0).next()?;
    let name = std::str::from_utf8(name).ok()?.trim();
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}
