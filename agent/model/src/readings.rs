//! The readings of all collectors at one moment.

use std::sync::Arc;
use std::time::Duration;

use collectors::device_files::{self, DeviceFiles};
use collectors::runner::Reading;
use collectors::sys::task::Task;
use collectors::{Block, Cadence, Label, Layout, Metric, Part, Series, Spec, Subject, SubjectKind, Value};

use crate::places::Places;

/// A layout, received once. Two readings with the same address have the same layout.
#[derive(Debug)]
pub struct Prepared {
    /// The series.
    pub series: Layout,
    places: Places,
}

impl Prepared {
    /// A new layout.
    pub fn new(series: Layout) -> Self {
        let places = Places::of(series.iter().map(|s| s.metric));
        Self { series, places }
    }
}

/// The last reading of a device, or the reason for its absence.
#[derive(Clone, Debug)]
pub struct DeviceState {
    /// The device.
    pub subject: Subject,
    /// Its series. A failed reading keeps them only so that the layout is not sent again; see [`DeviceState::error`].
    pub layout: Arc<Prepared>,
    /// The values, in the order of the layout.
    pub values: Arc<Vec<Value>>,
    /// Series that the worker dropped, because the collector exceeds its limit.
    pub refused: u64,
    /// The end of the reading, as time since boot (CLOCK_BOOTTIME).
    pub at: Duration,
    /// The duration of the reading.
    pub took: Duration,
    /// The error of the last reading: a word for a label, and the text.
    pub error: Option<(String, String)>,
    /// The error is about the state of the device alone: the other values are of this reading.
    pub is_partial: bool,
    /// The reading that is under way and overdue. The values are of the last one that returned.
    pub late: Option<Late>,
}

/// A reading that exceeds its slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Its start, as time since boot.
    pub since: Duration,
    /// When its worker reported it last, as time since boot.
    pub heard: Duration,
    /// The state and wait channel of its thread.
    pub task: Option<Task>,
}

/// A worker reports its late readings every 5 s.
const REPORTED: Duration = Duration::from_secs(20);

impl Late {
    /// Whether its worker still reports it. One that is stopped says nothing of its threads.
    pub fn is_reported(&self, at: Duration) -> bool {
        at.saturating_sub(self.heard) <= REPORTED
    }

    /// `, state D in wait_for_completion, read /sys/...`: the known part of what the thread waits for.
    pub fn waits(&self) -> String {
        let Some(task) = &self.task else {
            return String::new();
        };
        let mut text = format!(", state {}", task.state);
        for (link, what) in [(" in ", &task.wchan), (", ", &task.call)] {
            if !what.is_empty() {
                text.push_str(link);
                text.push_str(what);
            }
        }
        text
    }
}

/// The state of a collector's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its worker has not reported yet.
    Unknown,
    /// Not on this node.
    NotHere,
    /// Opened.
    Open,
    /// Present and broken: a word for a label, and the text.
    Failed(String, String),
}

/// One collector.
#[derive(Clone, Debug)]
pub struct CollectorState {
    /// Its row.
    pub spec: &'static Spec,
    /// Whether its source is open.
    pub presence: Presence,
    /// Whether its watcher runs (`None`: it has none, or is not open). The error: a word for a label, and the text.
    pub watcher: Option<Result<(), (String, String)>>,
    /// Its devices, by number.
    pub devices: Vec<DeviceState>,
    /// Other overdue calls: to open the source, to list devices, to close a device.
    pub late: Vec<Late>,
}

/// One series of a snapshot, as checks and exposition see it.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The metric.
    pub metric: &'static Metric,
    /// Label values, in the order of [`Metric::labels`].
    pub labels: &'a [Label],
    /// The part: a histogram is several samples.
    pub part: Part,
    /// The value; never [`Value::Absent`].
    pub value: Value,
    /// Its age.
    pub age: Duration,
    /// Its device.
    pub subject: &'a Subject,
}

impl<'a> Sample<'a> {
    /// The value as a real number.
    pub fn as_f64(&self) -> f64 {
        match self.value {
            #[expect(clippy::cast_precision_loss, reason = "a check compares magnitudes")]
            Value::U64(v) => v as f64,
            Value::F64(v) => v,
            Value::Absent => f64::NAN,
        }
    }

    /// The value of one label.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        let at = self.metric.labels.iter().position(|l| *l == name)?;
        self.labels.get(at).map(Label::as_str)
    }
}

impl CollectorState {
    /// The greatest age of a reading that is shown: freshness or period, plus deadline.
    pub fn max_age(&self) -> Duration {
        let cadence = match self.spec.cadence {
            Cadence::OnDemand { .. } => Duration::from_secs(20),
            Cadence::Every(period) => period * 2,
        };
        cadence + self.spec.deadline
    }

    /// The greatest age of a device's last reading while its worker reads.
    pub fn read_within(&self) -> Duration {
        match self.spec.cadence {
            Cadence::OnDemand { .. } => self.max_age(),
            Cadence::Every(period) => period + self.spec.deadline,
        }
    }

    /// Whether the source is open, its watcher runs, and every device's last reading is good and not past its deadline.
    /// `None`: not on this node, or no report yet.
    pub fn up(&self, at: Duration) -> Option<bool> {
        match self.presence {
            Presence::Unknown | Presence::NotHere => None,
            Presence::Failed(..) => Some(false),
            // Open so that it sees later hot-plug; no device yet.
            Presence::Open if self.devices.is_empty() && self.watcher.is_none() => None,
            // Just opened: the first reading is on its way.
            Presence::Open if self.devices.iter().any(DeviceState::is_new) => None,
            Presence::Open => Some(
                self.watcher.as_ref().is_none_or(Result::is_ok)
                    && self.devices.iter().all(|d| self.device_up(d, at) == Some(true)),
            ),
        }
    }

    /// Whether one of its devices can be read: its last reading is complete and fresh, and none is past its deadline. A
    /// slow device is up. `None`: no report yet.
    pub fn device_up(&self, device: &DeviceState, at: Duration) -> Option<bool> {
        // A silent worker counts as a failed one.
        let is_fresh = device.shown(at, self.max_age());
        let is_up = device.error.is_none() && is_fresh && !self.is_overdue(device, at);
        (!device.is_new()).then_some(is_up)
    }

    /// Whether a reading of the device is past its deadline.
    pub fn is_overdue(&self, device: &DeviceState, at: Duration) -> bool {
        let late = device.late.as_ref();
        late.is_some_and(|l| at.saturating_sub(l.since) >= self.spec.deadline)
    }
}

impl CollectorState {
    /// The series that are shown at that time: of the last reading that returned, also while the next one is late.
    pub fn shown(&self, at: Duration) -> impl Iterator<Item = Sample<'_>> {
        self.samples_of(at, |_| true)
    }

    /// The shown series of devices that are not late: what checks may judge.
    pub fn samples(&self, at: Duration) -> impl Iterator<Item = Sample<'_>> {
        self.samples_of(at, |d| d.late.is_none())
    }

    fn samples_of(&self, at: Duration, wanted: fn(&DeviceState) -> bool) -> impl Iterator<Item = Sample<'_>> {
        self.devices_of(at, wanted).flat_map(move |d| d.samples(at))
    }

    fn devices_of(
        &self,
        at: Duration,
        wanted: fn(&DeviceState) -> bool,
    ) -> impl Iterator<Item = &DeviceState> {
        let max_age = self.max_age();
        self.devices
            .iter()
            .filter(move |d| d.shown(at, max_age) && wanted(d))
    }

    /// As [`Self::samples_of`], of one metric.
    fn samples_with(
        &self,
        metric: &'static Metric,
        at: Duration,
        wanted: fn(&DeviceState) -> bool,
    ) -> impl Iterator<Item = Sample<'_>> {
        let devices = self.devices_of(at, wanted);
        devices.flat_map(move |d| {
            d.layout
                .places
                .all(metric)
                .filter_map(move |place| d.sample(place, at))
        })
    }
}

impl DeviceState {
    /// The result of one reading, which ended at this time since boot.
    pub fn of(reading: Reading<'_>, block: &Block, at: Duration) -> Self {
        let error = match (reading.result, block.fault()) {
            (Err(e), _) => Some((e.reason().to_owned(), e.to_string())),
            (Ok(()), Some(fault)) => Some((fault.reason.to_owned(), fault.text.clone())),
            (Ok(()), None) => None,
        };
        Self {
            subject: reading.subject.clone(),
            layout: Arc::new(Prepared::new(block.layout().to_vec())),
            values: Arc::new(block.values().to_vec()),
            refused: block.refused(),
            at,
            took: reading.took,
            error,
            is_partial: block.fault().is_some(),
            late: None,
        }
    }

    fn samples(&self, at: Duration) -> impl Iterator<Item = Sample<'_>> {
        let both = self.layout.series.iter().zip(self.values.iter());
        both.filter_map(move |(series, value)| self.sample_of(series, *value, at))
    }

    /// The series at this place of the layout.
    fn sample(&self, place: usize, at: Duration) -> Option<Sample<'_>> {
        self.sample_of(self.layout.series.get(place)?, *self.values.get(place)?, at)
    }

    fn sample_of<'a>(&'a self, series: &'a Series, value: Value, at: Duration) -> Option<Sample<'a>> {
        (value != Value::Absent).then(|| Sample {
            metric: series.metric,
            labels: &series.labels,
            part: series.part,
            value,
            age: at.saturating_sub(self.at),
            subject: &self.subject,
        })
    }

    /// Whether no report has come yet, not even that it is late.
    pub fn is_new(&self) -> bool {
        self.at == Duration::ZERO && self.error.is_none() && self.late.is_none()
    }

    /// Whether its values are shown: the last reading that returned has values and is fresh.
    pub fn shown(&self, at: Duration, max_age: Duration) -> bool {
        (self.error.is_none() || self.is_partial) && at.saturating_sub(self.at) <= max_age
    }

    /// Whether its values are shown and no reading is overdue.
    pub fn is_current(&self, at: Duration, max_age: Duration) -> bool {
        self.shown(at, max_age) && self.late.is_none()
    }
}

/// The readings of all collectors at one moment.
#[derive(Clone, Debug)]
pub struct Readings {
    /// When they were taken together, as time since boot.
    pub at: Duration,
    /// Collectors, in the order of [`collectors::COLLECTORS`]. Snapshots share those that did not change.
    pub collectors: Vec<Arc<CollectorState>>,
}

impl Readings {
    /// The state of one collector.
    pub fn collector(&self, name: &str) -> Option<&CollectorState> {
        let found = self.collectors.iter().find(|c| c.spec.name == name);
        found.map(Arc::as_ref)
    }

    /// As [`Self::collector`], to be changed.
    pub fn collector_mut(&mut self, name: &str) -> Option<&mut CollectorState> {
        self.collectors_mut().find(|c| c.spec.name == name)
    }

    /// The collectors, to be changed: one that another snapshot shares is copied first.
    pub fn collectors_mut(&mut self) -> impl Iterator<Item = &mut CollectorState> {
        self.collectors.iter_mut().map(Arc::make_mut)
    }

    /// Every shown series of one collector.
    pub fn shown_of(&self, name: &str) -> impl Iterator<Item = Sample<'_>> {
        let found = self.collector(name).into_iter();
        found.flat_map(|c| c.shown(self.at))
    }

    /// Every shown series of `metric`.
    pub fn shown<'a>(&'a self, metric: &'static Metric) -> impl Iterator<Item = Sample<'a>> {
        let all = self.collectors.iter();
        all.flat_map(move |c| c.samples_with(metric, self.at, |_| true))
    }

    /// Every shown series.
    pub fn all_shown(&self) -> impl Iterator<Item = Sample<'_>> {
        self.collectors.iter().flat_map(|c| c.shown(self.at))
    }

    /// Every series of devices of a kind that checks may judge.
    pub fn samples_of_kind(&self, kind: SubjectKind) -> impl Iterator<Item = Sample<'_>> {
        let of_kind = move |d: &&DeviceState| d.subject.kind == kind;
        self.collectors.iter().flat_map(move |c| {
            let devices = c.devices_of(self.at, |d| d.late.is_none()).filter(of_kind);
            devices.flat_map(|d| d.samples(self.at))
        })
    }

    /// Every series of one collector that checks may judge.
    pub fn samples_of(&self, name: &str) -> impl Iterator<Item = Sample<'_>> {
        let found = self.collector(name).into_iter();
        found.flat_map(|c| CollectorState::samples(c, self.at))
    }

    /// Every series of the collectors of GPUs that checks may judge, with the device files of each.
    pub fn samples_of_gpus(&self) -> impl Iterator<Item = (&'static DeviceFiles, Sample<'_>)> {
        let of = |files: &'static DeviceFiles| self.samples_of(files.collector).map(move |s| (files, s));
        device_files::ALL.into_iter().flat_map(of)
    }

    /// Every series of `metric` that checks may judge, with its labels.
    pub fn samples<'a>(&'a self, metric: &'static Metric) -> impl Iterator<Item = Sample<'a>> {
        let all = self.collectors.iter();
        all.flat_map(move |c| c.samples_with(metric, self.at, |d| d.late.is_none()))
    }

    /// Every series that checks may judge.
    pub fn all_samples(&self) -> impl Iterator<Item = (&CollectorState, Sample<'_>)> {
        let all = self.collectors.iter().map(Arc::as_ref);
        all.flat_map(|c| CollectorState::samples(c, self.at).map(move |s| (c, s)))
    }
}
