//! How many connections the control socket has: some for all users, a few of them per user, and some reserved for those
//! who may give orders, so that other users cannot lock them out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of all users together.
pub(super) const SHARED: usize = 32;

/// The most of them of one user who may not give orders.
pub(super) const PER_USER: usize = 8;

/// Connections of root, the daemon's own user and the operators.
pub(super) const RESERVED: usize = 16;

/// How many connections each user has.
type HeldByUser = Rc<RefCell<HashMap<u32, usize>>>;

/// The free connections.
#[derive(Clone)]
pub(super) struct ControlLimits {
    shared: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    users: HeldByUser,
}

/// One connection, given back when dropped.
pub(super) struct ControlPermit {
    _permit: OwnedSemaphorePermit,
    user: Option<(u32, HeldByUser)>,
}

impl ControlLimits {
    pub(super) fn new() -> Self {
        Self {
            shared: Arc::new(Semaphore::new(SHARED)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
            users: Rc::default(),
        }
    }

    /// A connection for a user. `trusted`: may give orders.
    pub(super) fn take(&self, uid: u32, trusted: bool) -> Option<ControlPermit> {
        if trusted {
            let permit = free(&self.reserved).or_else(|| free(&self.shared))?;
            return Some(ControlPermit {
                _permit: permit,
                user: None,
            });
        }
        let mut users = self.users.borrow_mut();
        if users.get(&uid).is_some_and(|held| *held >= PER_USER) {
            return None;
        }
        let permit = free(&self.shared)?;
        *users.entry(uid).or_default() += 1;
        Some(ControlPermit {
            _permit: permit,
            user: Some((uid, Rc::clone(&self.users))),
        })
    }
}

fn free(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(semaphore).try_acquire_owned().ok()
}

impl Drop for ControlPermit {
    fn drop(&mut self) {
        let Some((uid, users)) = &self.user else { return };
        let mut users = users.borrow_mut();
        if let Some(held) = users.get_mut(uid) {
            *held -= 1;
            if *held == 0 {
                users.remove(uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_lock_nobody_out() {
        let limits = ControlLimits::new();
        let all = |uid| {
            (0..100)
                .filter_map(|_| limits.take(uid, false))
                .collect::<Vec<ControlPermit>>()
        };
        let first = all(1000);
        assert_eq!(first.len(), PER_USER, "one user has few");
        let many: Vec<Vec<ControlPermit>> = (1001..1100).map(all).collect();
        assert_eq!(many.iter().map(Vec::len).sum::<usize>(), SHARED - PER_USER);
        assert!(limits.take(2000, false).is_none());
        let trusted: Vec<ControlPermit> = (0..100).filter_map(|_| limits.take(0, true)).collect();
        assert_eq!(trusted.len(), RESERVED, "theirs are bounded, too");
        drop((first, many, trusted));
        assert!(limits.users.borrow().is_empty());
        let all: Vec<ControlPermit> = (0..100).filter_map(|_| limits.take(0, true)).collect();
        assert_eq!(all.len(), RESERVED + SHARED);
    }
}
