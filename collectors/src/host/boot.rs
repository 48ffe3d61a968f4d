//! Which boot this is, and when it began.

use std::time::Instant;

use super::metrics::{BOOT_INFO, BOOT_TIME};
use super::slow::Slow;
use crate::sys::boot;
use crate::{Block, BootId, Device, Env, Error, Subject};

/// The boot of this node.
pub(super) struct Boot {
    env: Env,
    subject: Subject,
    id: Slow<BootId>,
    time: Slow<u64>,
}

impl Boot {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::node(),
            id: Slow::new(),
            time: Slow::new(),
        }
    }
}

impl Device for Boot {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let (now, env) = (Instant::now(), &self.env);
        let id = self.id.get(now, || {
            boot::boot_id(env)
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()
        });
        if let Some(id) = id {
            out.info(&BOOT_INFO, &[&id.0]);
        }
        // The kernel adds up every interrupt of every CPU to answer a read of /proc/stat, and the time stands still
        // but for a step of the clock.
        let time = self.time.get(now, || {
            boot::btime(&env.path("/proc/stat"))
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()
                .flatten()
        });
        out.maybe_u64(&BOOT_TIME, &[], time.copied());
        Ok(())
    }
}
