//! The effects of the engine, in order, until the event loop carries them out. An effect behind a store waits for the
//! result of the store, so that no act precedes the record of its intent. A store that hangs delays an act by 2 s.

use std::collections::VecDeque;
use std::time::Duration;

use health::audit::Entry;
use health::verdict::Verdict;
use health::{Effect, Query, Record};
use model::scheduler::{Action, ActionId};

/// How long a record may take to reach the disk before the daemon goes on without it.
pub const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// What the loop is to do next.
#[derive(Debug)]
pub enum EffectStep {
    /// Hand this to the store thread.
    Store(Record),
    /// Ask the parent.
    Look,
    /// Ask the parent.
    Act(ActionId, Action),
    /// Add it to the audit trail.
    Audit(Box<Entry>),
    /// Publish it.
    Publish(Verdict),
    /// Answer the oldest order.
    Answer(Result<String, String>),
}

/// The queue of effects.
#[derive(Debug, Default)]
pub struct EffectQueue {
    queue: VecDeque<Effect>,
    /// The record that has not answered, and when it is given up.
    storing: Option<(u64, Duration)>,
    /// A record that was given up and still lies with the store thread: until it answers, further ones fail at once.
    hung: Option<u64>,
}

impl EffectQueue {
    /// Adds what a step of the engine wants.
    pub fn push(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if matches!(effect, Effect::Store(_)) {
                self.supersede();
            }
            self.queue.push_back(effect);
        }
    }

    /// A record holds all that one still waiting before it holds: that one need not be written, unless an act or an
    /// answer comes between.
    fn supersede(&mut self) {
        let bars = |e: &Effect| matches!(e, Effect::Act(..) | Effect::Answer(_));
        let after = self.queue.iter().rposition(bars).map_or(0, |at| at + 1);
        let mut at = 0;
        self.queue.retain(|e| {
            at += 1;
            at <= after || !matches!(e, Effect::Store(_))
        });
    }

    /// The next thing to do, if it may be done now. `Err(number)`: a record failed without being tried.
    pub fn next(&mut self, now: Duration) -> Option<Result<EffectStep, u64>> {
        if self.storing.is_some() {
            return None;
        }
        Some(Ok(match self.queue.pop_front()? {
            Effect::Store(record) if self.hung.is_some() => return Some(Err(record.number)),
            Effect::Store(record) => {
                self.storing = Some((record.number, now + STORE_PATIENCE));
                EffectStep::Store(record)
            }
            Effect::Look(Query::Node) => EffectStep::Look,
            Effect::Act(id, action) => EffectStep::Act(id, action),
            Effect::Audit(entry) => EffectStep::Audit(entry),
            Effect::Publish(verdict) => EffectStep::Publish(verdict),
            Effect::Answer(answer) => EffectStep::Answer(answer),
        }))
    }

    /// The store thread has answered. Whether it is news: an answer after its time was taken for a failure.
    pub fn stored(&mut self, number: u64) -> bool {
        if self.hung == Some(number) {
            self.hung = None;
        }
        let awaited = self.storing.is_some_and(|(n, _)| n == number);
        if awaited {
            self.storing = None;
        }
        awaited
    }

    /// The record whose time is over, if there is one.
    pub fn overdue(&mut self, now: Duration) -> Option<u64> {
        let (number, _) = self.storing.filter(|(_, until)| now >= *until)?;
        self.storing = None;
        self.hung = Some(number);
        Some(number)
    }

    /// When [`EffectQueue::overdue`] is to be asked.
    pub fn deadline(&self) -> Option<Duration> {
        self.storing.map(|(_, until)| until)
    }

    /// Whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.storing.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    fn store(number: u64) -> Effect {
        Effect::Store(Record {
            number,
            json: Arc::from("{}"),
        })
    }

    fn acts(effects: &mut EffectQueue, now: Duration) -> bool {
        matches!(effects.next(now), Some(Ok(EffectStep::Look)))
    }

    #[test]
    fn an_act_waits_for_the_store_before_it() {
        let mut effects = EffectQueue::default();
        effects.push(vec![store(1), Effect::Look(Query::Node)]);
        assert!(matches!(effects.next(SECOND), Some(Ok(EffectStep::Store(_)))));
        assert!(effects.next(SECOND).is_none());
        assert!(effects.stored(1));
        assert!(acts(&mut effects, SECOND));
        assert!(effects.is_idle());
    }

    #[test]
    fn a_newer_record_takes_the_place_of_one_that_waits() {
        let mut effects = EffectQueue::default();
        effects.push(vec![store(1)]);
        assert!(matches!(effects.next(SECOND), Some(Ok(EffectStep::Store(r))) if r.number == 1));
        // While the first is written: two that only count, one with an act, two more.
        effects.push(vec![store(2), Effect::Look(Query::Node)]);
        let incident = model::scheduler::IncidentId("aaaaaaaa".to_owned());
        let act = Effect::Act(
            ActionId(1),
            Action::Undrain {
                incident,
                is_ordered: false,
                lifts: Vec::new(),
            },
        );
        effects.push(vec![store(3), act]);
        effects.push(vec![store(4)]);
        effects.push(vec![store(5)]);
        let mut done = Vec::new();
        assert!(effects.stored(1));
        while let Some(Ok(step)) = effects.next(SECOND) {
            done.push(match step {
                EffectStep::Store(record) => {
                    assert!(effects.stored(record.number));
                    format!("store {}", record.number)
                }
                EffectStep::Act(..) => "act".to_owned(),
                _ => "other".to_owned(),
            });
        }
        assert_eq!(done, ["other", "store 3", "act", "store 5"]);
    }

    #[test]
    fn a_hung_disk_holds_an_act_up_for_two_seconds_and_later_ones_not_at_all() {
        let mut effects = EffectQueue::default();
        effects.push(vec![store(1), Effect::Look(Query::Node)]);
        assert!(effects.next(SECOND).is_some());
        assert_eq!(effects.overdue(SECOND * 2), None);
        assert_eq!(effects.overdue(SECOND * 3), Some(1));
        assert!(acts(&mut effects, SECOND * 3));
        effects.push(vec![store(2), Effect::Look(Query::Node)]);
        assert!(matches!(effects.next(SECOND * 4), Some(Err(2))));
        assert!(acts(&mut effects, SECOND * 4));
        // The disk comes back: the late answer is no news, and records are tried again.
        assert!(!effects.stored(1));
        effects.push(vec![store(3)]);
        assert!(matches!(effects.next(SECOND * 5), Some(Ok(EffectStep::Store(_)))));
    }
}
