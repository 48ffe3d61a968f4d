//! Where the series of a metric are in a list: checks ask for hundreds of metrics.

use collectors::Metric;

/// The places of each metric's series in a list.
#[derive(Debug)]
pub struct Places(Vec<(usize, usize)>);

impl Places {
    /// Those of the series with these metrics, in the order of the list.
    pub fn of(metrics: impl Iterator<Item = &'static Metric>) -> Self {
        let mut places: Vec<_> = metrics.map(address).zip(0..).collect();
        places.sort_unstable();
        Self(places)
    }

    /// The places of a metric's series, in the order of the list.
    pub fn all(&self, metric: &'static Metric) -> impl Iterator<Item = usize> {
        let wanted = address(metric);
        let first = self.0.partition_point(|(address, _)| *address < wanted);
        let from = self.0.get(first..).unwrap_or_default();
        let own = from.iter().take_while(move |(address, _)| *address == wanted);
        own.map(|(_, place)| *place)
    }
}

/// Metrics are compared by address.
fn address(metric: &'static Metric) -> usize {
    std::ptr::from_ref(metric).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{ERRORS, FINE, LEVEL};

    #[test]
    fn each_metric_has_its_places_in_the_order_of_the_list() {
        let places = Places::of([&LEVEL, &ERRORS, &LEVEL].into_iter());
        let of = |metric| places.all(metric).collect::<Vec<_>>();
        assert_eq!(
            (of(&LEVEL), of(&ERRORS), of(&FINE)),
            (vec![0, 2], vec![1], vec![])
        );
    }
}
