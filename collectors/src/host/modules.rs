//! The kernel modules that are loaded, as one series: a series each would be 200 that hardly ever change.

use std::collections::BTreeSet;
use std::time::Instant;

use super::metrics::MODULES_INFO;
use super::slow::Slow;
use crate::sys::root;
use crate::{Block, Device, Env, Error, Subject, SubjectKind};

/// A distribution's kernel with everything loaded has some hundred lines of a hundred bytes.
const MOST: u64 = 1 << 20;

/// The loaded modules.
pub(super) struct Modules {
    env: Env,
    subject: Subject,
    names: Slow<String>,
}

impl Modules {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Node, "modules"),
            names: Slow::new(),
        }
    }
}

impl Device for Modules {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let path = self.env.path("/proc/modules");
        let names = self.names.get(Instant::now(), || {
            let table = root::read_lossy_within(&path, MOST)
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()??;
            live(&table)
        });
        if let Some(names) = names {
            out.info(&MODULES_INFO, &[names]);
        }
        Ok(())
    }
}

/// The modules whose initialisation has ended, by name, with commas between them. The kernel lists the latest first.
/// `None`: a line has another form, so what is missing is unknown.
fn live(table: &str) -> Option<String> {
    let mut names = BTreeSet::new();
    for line in table.lines() {
        // name size references users state address [taints]
        let mut fields = line.split(' ');
        let (name, state) = (fields.next()?, fields.nth(3)?);
        match state {
            "Live" => names.insert(name),
            "Loading" | "Unloading" => false,
            _ => return None,
        };
    }
    Some(names.into_iter().collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_modules_that_are_ready_count() {
        let table = "nvidia_peermem 20480 0 - Live 0x0000000000000000 (OE)\n\
                     mlx5_ib 512000 2 - Loading 0x0000000000000000\n\
                     gdrdrv 40960 0 - Unloading 0x0000000000000000\n\
                     ib_core 528384 9 rdma_cm,ib_ipoib, Live 0x0000000000000000";
        assert_eq!(live(table).as_deref(), Some("ib_core,nvidia_peermem"));
        assert_eq!(live("").as_deref(), Some(""), "all are built in");
        for cut in ["ib_core", "ib_core 1 2 -", "ib_core 1 2 - Odd 0x0"] {
            assert_eq!(live(cut), None, "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left(text in "[a-z0-9 ,\\n-]{0,80}") {
            live(&text);
        }
    }
}
