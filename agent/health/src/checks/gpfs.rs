//! What the checks of GPFS's commands share: one output counts as one reading, however often its file is read, and none where
//! the commands are off.

use std::time::Duration;

use collectors::Subject;
use collectors::gpfs::command_metrics::TIMESTAMP;
use collectors::gpfs::commands::{self, Command};

use super::{Check, expected};
use crate::condition::Judged;
use crate::judge::Judge;
use model::snapshot::{Presence, Sample};

/// The collector.
pub(super) const COLLECTOR: &str = "gpfs";

/// The last output of a command that was seen.
#[derive(Debug, Default)]
pub(super) struct LastOutput {
    /// Its time, as the bits of seconds since the epoch.
    written: Option<u64>,
    /// The time since boot of the first reading that had it.
    at: Duration,
    /// The time of the last output that was there while the daemon did not answer, in the same form.
    of_outage: Option<u64>,
}

impl LastOutput {
    /// When the output behind a sample was first read, as time since boot.
    pub(super) fn read_at(&mut self, judge: &Judge<'_>, command: &Command, sample: &Sample<'_>) -> Duration {
        let read = judge.read_at(sample);
        // A recording has no times: each reading counts.
        let Some(written) = written(judge, command) else {
            return read;
        };
        if self.written.replace(written) != Some(written) {
            self.at = read;
        }
        self.at
    }
    /// The daemon does not answer now.
    pub(super) fn in_outage(&mut self, judge: &Judge<'_>, command: &Command) {
        self.of_outage = written(judge, command).or(self.of_outage);
    }

    /// Whether the output is one of an outage: it says nothing about the daemon that answers again.
    pub(super) fn is_of_outage(&self, judge: &Judge<'_>, command: &Command) -> bool {
        self.of_outage.is_some() && self.of_outage == written(judge, command)
    }
}

/// When the output of a command was written, as the bits of seconds since the epoch. `None`: no output, or a recording.
fn written(judge: &Judge<'_>, command: &Command) -> Option<u64> {
    let mut times = judge.snapshot.samples(&TIMESTAMP);
    let written = times.find(|time| time.label("command") == Some(command.name));
    written.map(|time| time.as_f64().to_bits())
}

/// Whether no output of commands is read: both keys are unset. Not where the collector has not listed its devices.
pub(super) fn is_off(judge: &Judge<'_>) -> bool {
    let Some(collector) = judge.snapshot.collector(COLLECTOR) else {
        return false;
    };
    let has = |subject: &Subject| collector.devices.iter().any(|device| device.subject == *subject);
    collector.presence == Presence::Open && has(&Subject::node()) && !has(&commands::subject())
}

/// The conditions of a check while the commands are off: nothing would end them.
pub(super) fn over<'a>(judge: &Judge<'a>, check: &'static Check) -> Vec<Judged<'a>> {
    let keys = judge.bad.iter().cloned();
    keys.map(|key| expected::unexpected(judge, check, key, Subject::node()))
        .collect()
}
