//! What the cluster's limit and a pause make of drains.

use super::metrics::*;
use exposition::Writer;
use health::view::View;
use model::scheduler::HeldBy;

pub(super) fn families(view: &View, w: &mut Writer<'_>) {
    w.family(&DRAIN_HELD, |f| {
        for by in HeldBy::ALL {
            f.u64(&[by.word()], u64::from(view.drain.held == Some(by)));
        }
    });
    w.family(&PAUSED, |f| f.u64(&[], u64::from(view.pause.is_some())));
    w.family(&PAUSES, |f| f.u64(&[], view.pauses));
    let Some(guard) = &view.drain.guard else { return };
    let of = [guard.partition.as_str(), guard.pool.as_str()];
    w.family(&GUARD_SLOTS, |f| f.u64(&of, guard.slots));
    w.family(&GUARD_TAKEN, |f| f.u64(&of, guard.taken));
    w.family(&GUARD_STANDING, |f| {
        if let Some(standing) = guard.standing {
            f.u64(&of[..1], standing);
        }
    });
    w.family(&GUARD_STANDING_LIMIT, |f| f.u64(&of[..1], guard.most));
    w.family(&GUARD_DIFFERS, |f| f.u64(&[], u64::from(guard.differs)));
}
