//! Events of sources without numbers of their own.

use super::boot;
use crate::{BootId, Event, EventBody};

/// The number of the last event. The first is the time since boot, in microseconds, so that numbers of the next run are higher.
#[derive(Debug, Default)]
pub(crate) struct Numbered(u64);

impl Numbered {
    /// An event that is seen now, with the next number.
    pub(crate) fn event(&mut self, boot: &BootId, count: u64, text: String, body: EventBody) -> Event {
        let now = u64::try_from(boot::boottime().as_micros()).unwrap_or(u64::MAX);
        self.0 = now.max(self.0 + 1);
        Event {
            boot: boot.clone(),
            seq: self.0,
            at_us: u64::try_from(boot::monotonic().as_micros()).unwrap_or(u64::MAX),
            history: false,
            count,
            text,
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_also_within_a_microsecond_and_from_run_to_run() {
        let number = |numbered: &mut Numbered| {
            let event = numbered.event(&BootId::default(), 1, String::new(), EventBody::Progress);
            event.seq
        };
        let mut first = Numbered::default();
        let ahead = number(&mut first) + 1_000_000_000;
        let mut numbered = Numbered(ahead);
        assert_eq!(
            [number(&mut numbered), number(&mut numbered)],
            [ahead + 1, ahead + 2]
        );
        let last = number(&mut first);
        std::thread::sleep(std::time::Duration::from_micros(10));
        assert!(number(&mut Numbered::default()) > last);
    }
}
