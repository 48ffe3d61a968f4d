//! What parent and daemon cost. Read where pages are written, because the core's thread opens no file.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use model::figures::Figures;

use crate::figures;

/// How often they are weighed, at most: to add up memory costs more than a scrape.
const WEIGH: Duration = Duration::from_secs(60);

/// The processes and their figures.
pub(super) type Weighed = Vec<(&'static str, Figures)>;

/// The last figures, and when they were read.
#[derive(Debug, Default)]
pub(super) struct Weights(RefCell<Option<(Instant, Weighed)>>);

impl Weights {
    /// Figures that are at most a minute old.
    pub(super) fn of_now(&self) -> Weighed {
        let mut last = self.0.borrow_mut();
        if let Some((at, weighed)) = last.as_ref()
            && at.elapsed() < WEIGH
        {
            return weighed.clone();
        }
        let all = [("parent", figures::parent()), ("daemon", figures::own())];
        let weighed: Weighed = all.into_iter().filter_map(|(name, f)| Some((name, f?))).collect();
        *last = Some((Instant::now(), weighed.clone()));
        weighed
    }
}
