//! Calls of the driver about one GPU: each query at most once per reading, and never again if the driver does not
//! support it. After the driver reported that the GPU is gone, no query is sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::gpu::metrics as m;
use crate::gpu::metrics::row::CALLS;
use crate::sys::nvml::{Code, Handle, Library};
use crate::{Block, Histogram};

/// A query: the function, and its variant.
pub(super) type NvmlQuery = (&'static str, u32);

/// After this number of consecutive failed answers at the start of a reading, the GPU counts as unavailable. A
/// driver whose firmware does not answer takes up to 60 s for each.
const GIVE_UP: u32 = 2;

/// A call that failed after this time waited for firmware that does not answer, as would the next ones: the driver waits 6 s to 60 s
/// for it. A time-out that came at once is that of one value.
const SLOW_FAILURE: Duration = Duration::from_secs(5);

/// Durations of calls since the device is known.
#[derive(Debug)]
struct Took {
    buckets: Vec<u64>,
    sum: f64,
    count: u64,
}

/// Calls the driver about one GPU.
pub(super) struct Caller {
    pub(super) library: &'static Library,
    pub(super) handle: Handle,
    refused: Vec<NvmlQuery>,
    took: Took,
    answered: bool,
    failed: u32,
    gone: Option<Code>,
    /// Values of this reading without an answer, by reason. Unsupported ones do not count.
    unread: BTreeMap<&'static str, u64>,
    /// A query was rejected for lack of a permission.
    is_denied: bool,
    /// The queries that were rejected for lack of a permission when they were last sent.
    denied: Vec<NvmlQuery>,
    /// In this reading one was, and not the time before.
    is_newly_denied: bool,
}

impl Caller {
    pub(super) fn new(library: &'static Library, handle: Handle) -> Self {
        Self {
            library,
            handle,
            refused: Vec::new(),
            took: Took {
                buckets: vec![0; CALLS.bounds().len()],
                sum: 0.0,
                count: 0,
            },
            answered: false,
            failed: 0,
            gone: None,
            unread: BTreeMap::new(),
            is_denied: false,
            denied: Vec::new(),
            is_newly_denied: false,
        }
    }

    /// Continues with another handle, as after a scan, or after refusals: every query is allowed again.
    pub(super) fn renew(&mut self, handle: Handle) {
        self.handle = handle;
        if self.is_denied() && self.gone.is_none() {
            // Nothing was answered, so no query is known to be refused for itself: if only some are refused now, the permission came
            // back between them.
            self.denied.clear();
        }
        self.forget();
    }

    /// Allows every query again.
    pub(super) fn forget(&mut self) {
        self.refused.clear();
        self.is_denied = false;
    }

    /// Allows queries about instances again: a new instance may have the number of a removed one.
    pub(super) fn forget_instances(&mut self) {
        let about_instances = [
            "GetMemoryInfo",
            "GetMigDeviceHandleByIndex",
            "GpmSampleAlloc",
            "GpmSampleGet",
            "GpmMetricsGet",
        ];
        self.refused.retain(|(name, _)| !about_instances.contains(name));
    }

    /// Allows this query again.
    pub(super) fn retry(&mut self, question: NvmlQuery) {
        self.refused.retain(|refused| *refused != question);
    }

    /// Starts a reading.
    pub(super) fn begin(&mut self) {
        self.answered = false;
        self.failed = 0;
        self.gone = None;
        self.unread.clear();
        self.is_newly_denied = false;
    }

    /// Why the GPU is unavailable, if it is.
    pub(super) fn gone(&self) -> Option<Code> {
        self.gone
    }

    /// Whether the GPU answered a query of this reading and is available.
    pub(super) fn has_answered(&self) -> bool {
        self.answered && self.gone.is_none()
    }

    /// Whether nothing was answered in this reading, for lack of a permission.
    pub(super) fn is_denied(&self) -> bool {
        self.is_denied && !self.answered
    }

    /// Whether a query was rejected in this reading for lack of a permission that was there before. Such a refusal may end as it
    /// began, unlike that of a query that never had it.
    pub(super) fn is_newly_denied(&self) -> bool {
        self.is_newly_denied
    }

    /// A value that one call returned with others has this return code.
    pub(super) fn note_value(&mut self, code: Code) {
        if !code.is_unsupported() {
            *self.unread.entry(code.reason()).or_default() += 1;
        }
    }

    /// The number of values of this reading without an answer.
    pub(super) fn push_unread(&self, gpu: &str, out: &mut Block) {
        for (reason, count) in &self.unread {
            out.u64(&m::UNREAD_VALUES, &[gpu, reason], *count);
        }
    }

    /// Queries the GPU. `None`: no answer, now or ever.
    pub(super) fn ask<T>(
        &mut self,
        question: NvmlQuery,
        call: impl FnOnce(&Library, Handle) -> Result<T, Code>,
    ) -> Option<T> {
        let handle = self.handle;
        self.ask_about(question, |library| call(library, handle)).ok()?
    }

    /// As [`Self::ask`], for an instance, whose end is not that of the GPU: its return code is passed on.
    pub(super) fn ask_about<T>(
        &mut self,
        question: NvmlQuery,
        call: impl FnOnce(&Library) -> Result<T, Code>,
    ) -> Result<Option<T>, Code> {
        if self.gone.is_some() || self.refused.contains(&question) {
            return Ok(None);
        }
        let began = Instant::now();
        let answer = call(self.library);
        let took = began.elapsed();
        self.took.add(took.as_secs_f64());
        match answer {
            Ok(value) => {
                self.answered = true;
                self.denied.retain(|denied| *denied != question);
                Ok(Some(value))
            }
            Err(code) => {
                self.note(question, code, took);
                Err(code)
            }
        }
    }

    fn note(&mut self, question: NvmlQuery, code: Code, took: Duration) {
        if code.is_unsupported() {
            self.refused.push(question);
            if code == Code::NO_PERMISSION {
                self.is_denied = true;
                if !self.denied.contains(&question) {
                    self.denied.push(question);
                    self.is_newly_denied = true;
                }
            }
            return;
        }
        self.note_value(code);
        tracing::debug!(call = question.0, %code, "no answer");
        self.failed += 1;
        let hopeless = !self.answered && self.failed >= GIVE_UP;
        if code.is_lost() || code.is_uninitialized() || took >= SLOW_FAILURE || hopeless {
            self.gone = Some(code);
        }
    }

    /// Whether the driver ever rejected this query as unsupported.
    pub(super) fn is_refused(&self, question: NvmlQuery) -> bool {
        self.refused.contains(&question)
    }

    /// Durations of calls so far.
    pub(super) fn took(&self) -> Histogram<'_> {
        Histogram {
            buckets: &self.took.buckets,
            sum: self.took.sum,
            count: self.took.count,
        }
    }
}

impl Took {
    fn add(&mut self, seconds: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(CALLS.bounds()) {
            *bucket += u64::from(seconds <= *bound);
        }
        self.sum += seconds;
        self.count += 1;
    }
}
