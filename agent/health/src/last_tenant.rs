//! Who had a GPU last, and what ran on it then: what is left behind is known by it.

use std::collections::{BTreeMap, BTreeSet};

/// GPUs, and parts of them, that are kept.
const MAX: usize = 512;

/// The jobs that had a GPU, or a part of one, when it was read last with any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Their numbers.
    pub jobs: Vec<String>,
    /// The processes that were on it.
    pub processes: BTreeSet<String>,
}

/// The last tenant of each.
#[derive(Debug, Default)]
pub struct Tenancies(BTreeMap<String, Tenant>);

impl Tenancies {
    /// A GPU is a job's.
    pub fn let_to(&mut self, place: &str, tenant: Tenant) {
        if self.0.len() < MAX || self.0.contains_key(place) {
            self.0.insert(place.to_owned(), tenant);
        }
    }

    /// Who had it last.
    pub fn of(&self, place: &str) -> Option<&Tenant> {
        self.0.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(job: &str) -> Tenant {
        Tenant {
            jobs: vec![job.to_owned()],
            ..Tenant::default()
        }
    }

    #[test]
    fn the_last_tenant_counts_and_there_is_room_for_every_gpu() {
        let mut tenancies = Tenancies::default();
        for job in 0..3 * MAX {
            tenancies.let_to(&format!("gpu {}", job % (2 * MAX)), tenant(&job.to_string()));
        }
        assert_eq!(tenancies.of("gpu 0"), Some(&tenant(&(2 * MAX).to_string())));
        assert_eq!(tenancies.of("gpu 600"), None);
        assert_eq!(tenancies.0.len(), MAX);
    }
}
