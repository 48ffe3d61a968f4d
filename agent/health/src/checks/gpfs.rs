//! What the checks of GPFS's commands share: one output counts as one reading, however often its file is read.

use std::time::Duration;

use collectors::gpfs::command_metrics::TIMESTAMP;
use collectors::gpfs::commands::Command;

use crate::judge::Judge;
use model::snapshot::Sample;

/// The last output of a command that was seen.
#[derive(Debug, Default)]
pub(super) struct LastOutput {
    /// Its time, as the bits of seconds since the epoch.
    written: Option<u64>,
    /// The time since boot of the first reading that had it.
    at: Duration,
}

impl LastOutput {
    /// When the output behind a sample was first read, as time since boot.
    pub(super) fn read_at(&mut self, judge: &Judge<'_>, command: &Command, sample: &Sample<'_>) -> Duration {
        let read = judge.read_at(sample);
        let mut times = judge.snapshot.samples(&TIMESTAMP);
        let written = times.find(|time| time.label("command") == Some(command.name));
        // A recording has no times: each reading counts.
        let Some(written) = written.map(|time| time.as_f64().to_bits()) else {
            return read;
        };
        if self.written.replace(written) != Some(written) {
            self.at = read;
        }
        self.at
    }
}
