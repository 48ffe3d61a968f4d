//! Which boot this is, and when it began.

use std::path::Path;
use std::time::Instant;

use super::metrics::{BOOT_INFO, BOOT_TIME};
use super::slow::Slow;
use crate::sys::{boot, root};
use crate::{Block, BootId, Device, Env, Error, Subject};

/// The line of the start time comes behind one line per CPU and one number per interrupt: far down on a large node.
const MAX_STAT: u64 = 4 * 1024 * 1024;

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
            boot_time(&env.path("/proc/stat"))
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()
                .flatten()
        });
        out.maybe_u64(&BOOT_TIME, &[], time.copied());
        Ok(())
    }
}

/// `btime` of /proc/stat: seconds since the epoch. `Ok(None)`: no such file.
fn boot_time(path: &Path) -> Result<Option<u64>, Error> {
    let Some(bytes) = root::read_bytes(path, MAX_STAT)? else {
        return Ok(None);
    };
    if bytes.len() as u64 >= MAX_STAT {
        // Cut off, perhaps within the number.
        return Err(Error::parse(path.display().to_string(), "", "less than 4 MiB"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    match line.map(|number| number.trim().parse()) {
        Some(Ok(btime)) => Ok(Some(btime)),
        _ => Err(Error::parse(
            path.display().to_string(),
            line.unwrap_or("no such line"),
            "a line `btime SECONDS`",
        )),
    }
}
