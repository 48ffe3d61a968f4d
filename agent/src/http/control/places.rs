//! Places on the control socket: some for everybody, a few of them per user, and some kept back for those who may give
//! orders, so that nobody can lock them out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::http::places::{Slot, Slots};

/// Connections of everybody.
pub(super) const SHARED: usize = 32;

/// The most of them of one user who may only look.
pub(super) const PER_USER: usize = 8;

/// Connections of root, the daemon's own user and the operators.
pub(super) const RESERVED: usize = 16;

/// How many places each user holds.
type Users = Rc<RefCell<HashMap<u32, usize>>>;

/// The free places.
#[derive(Clone)]
pub(super) struct Places {
    shared: Slots,
    reserved: Slots,
    users: Users,
}

/// A place, given back when dropped.
pub(super) struct Place {
    _slot: Slot,
    user: Option<(u32, Users)>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            shared: Slots::new(SHARED),
            reserved: Slots::new(RESERVED),
            users: Rc::default(),
        }
    }

    /// A place for a user. `trusted`: may give orders.
    pub(super) fn take(&self, uid: u32, trusted: bool) -> Option<Place> {
        if trusted {
            let slot = self.reserved.take().or_else(|| self.shared.take())?;
            return Some(Place {
                _slot: slot,
                user: None,
            });
        }
        let mut users = self.users.borrow_mut();
        if users.get(&uid).is_some_and(|held| *held >= PER_USER) {
            return None;
        }
        let slot = self.shared.take()?;
        *users.entry(uid).or_default() += 1;
        Some(Place {
            _slot: slot,
            user: Some((uid, Rc::clone(&self.users))),
        })
    }
}

impl Drop for Place {
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
        let places = Places::new();
        let all = |uid| {
            (0..100)
                .filter_map(|_| places.take(uid, false))
                .collect::<Vec<Place>>()
        };
        let first = all(1000);
        assert_eq!(first.len(), PER_USER, "one user has few");
        let many: Vec<Vec<Place>> = (1001..1100).map(all).collect();
        assert_eq!(many.iter().map(Vec::len).sum::<usize>(), SHARED - PER_USER);
        assert!(places.take(2000, false).is_none());
        let trusted: Vec<Place> = (0..100).filter_map(|_| places.take(0, true)).collect();
        assert_eq!(trusted.len(), RESERVED, "theirs are bounded, too");
        drop((first, many, trusted));
        assert!(places.users.borrow().is_empty());
        let all: Vec<Place> = (0..100).filter_map(|_| places.take(0, true)).collect();
        assert_eq!(all.len(), RESERVED + SHARED);
    }
}
