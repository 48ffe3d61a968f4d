//! The batches of one GPU. All fields are read by one call; if that call fails and the GPU answers others, by one call for each
//! group. GB200 fails as a whole if ECC errors and counts of NVLink 5 are in one call: <https://github.com/NVIDIA/DCGM/issues/265>

use crate::nvidia::call::{Caller, NvmlQuery};
use crate::sys::nvml::{Batch, Code, FieldValue, Wanted};

/// Fields that share a call after the call with all fields failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldGroup {
    /// The GPU as a whole.
    Gpu,
    /// Links, without [`Self::Counts`].
    Links,
    /// Counts of NVLink 5.
    Counts,
}

impl FieldGroup {
    const ALL: [Self; 3] = [Self::Gpu, Self::Links, Self::Counts];

    /// The group of a field of links, by its id: NVML_FI_DEV_NVLINK_COUNT_*.
    pub(super) const fn of_link(field: u32) -> Self {
        match field {
            201..=222 | 235..=250 => Self::Counts,
            _ => Self::Links,
        }
    }

    const fn query(self) -> NvmlQuery {
        let variant = match self {
            Self::Gpu => 1,
            Self::Links => 2,
            Self::Counts => 3,
        };
        ("GetFieldValues", variant)
    }
}

/// The query of all groups.
const ALL_GROUPS: NvmlQuery = ("GetFieldValues", 0);

/// One field.
#[derive(Debug)]
pub(super) struct BatchItem {
    pub(super) wanted: Wanted,
    pub(super) group: FieldGroup,
    /// Needed only if the item before it is not offered.
    pub(super) is_spare: bool,
}

/// Where an item is: the call, and the position in its batch.
type Place = (usize, usize);

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It failed, or was not sent.
    Failed,
    /// The driver does not support it.
    Refused,
    Answered,
}

/// One call.
struct FieldCall {
    query: NvmlQuery,
    batch: Batch,
    /// No field was removed yet.
    fresh: bool,
    outcome: Outcome,
}

/// The batches of one GPU.
pub(super) struct Batches {
    items: Vec<BatchItem>,
    /// The place of each item; `None`: not offered.
    places: Vec<Option<Place>>,
    calls: Vec<FieldCall>,
}

impl FieldCall {
    fn send(&mut self, caller: &mut Caller) {
        if self.batch.is_empty() {
            return;
        }
        let batch = &mut self.batch;
        let answer = caller.ask(self.query, |library, device| library.fields(device, batch));
        self.outcome = match answer {
            Some(()) => Outcome::Answered,
            None if caller.is_refused(self.query) => Outcome::Refused,
            None => Outcome::Failed,
        };
    }
}

impl Batches {
    pub(super) fn new(items: Vec<BatchItem>) -> Self {
        let mut batches = Self {
            places: Vec::new(),
            calls: Vec::new(),
            items,
        };
        batches.arrange(&[(ALL_GROUPS, &FieldGroup::ALL)]);
        batches
    }

    /// Makes a call for each list of groups, with every field: an earlier call may have left out some.
    fn arrange(&mut self, calls: &[(NvmlQuery, &[FieldGroup])]) {
        self.places = vec![None; self.items.len()];
        self.calls.clear();
        for (call, (query, groups)) in calls.iter().enumerate() {
            let mut wanted = Vec::new();
            for (item, place) in self.items.iter().zip(&mut self.places) {
                if groups.contains(&item.group) {
                    *place = Some((call, wanted.len()));
                    wanted.push(item.wanted);
                }
            }
            self.calls.push(FieldCall {
                query: *query,
                batch: Batch::new(&wanted),
                fresh: true,
                outcome: Outcome::Failed,
            });
        }
    }

    /// Sends the first call of a reading, which shows whether the GPU answers.
    pub(super) fn read(&mut self, caller: &mut Caller) {
        for call in &mut self.calls {
            call.outcome = Outcome::Failed;
        }
        if let Some(first) = self.calls.first_mut() {
            first.send(caller);
        }
    }

    /// Sends the other calls. Later than the first, so that calls which fail together do not make a GPU unavailable that
    /// answers everything else.
    pub(super) fn read_rest(&mut self, caller: &mut Caller) {
        let has_one_call = self.calls.len() == 1;
        let is_failed = |c: &FieldCall| !c.batch.is_empty() && c.outcome != Outcome::Answered;
        let has_failed = self.calls.iter().any(is_failed);
        let is_mixed = self.items.iter().any(|item| item.group != FieldGroup::Gpu);
        if has_one_call && has_failed && is_mixed && caller.has_answered() {
            self.split(caller);
            return;
        }
        for call in self.calls.iter_mut().skip(1) {
            call.send(caller);
        }
    }

    /// Sends a call for each group from now on.
    fn split(&mut self, caller: &mut Caller) {
        self.arrange(
            &FieldGroup::ALL
                .each_ref()
                .map(|group| (group.query(), std::slice::from_ref(group))),
        );
        for call in &mut self.calls {
            call.send(caller);
        }
        // If every group is refused, the mix of fields is not the reason: each is asked once more at the next reading.
        if self.calls.iter().all(|c| c.outcome != Outcome::Answered) {
            for call in &self.calls {
                caller.retry(call.query);
            }
        }
    }

    fn call_of(&self, at: usize) -> Option<(&FieldCall, usize)> {
        let (call, place) = (*self.places.get(at)?)?;
        Some((self.calls.get(call)?, place))
    }

    /// The answer to that item, or its return code.
    pub(super) fn get(&self, at: usize) -> Result<FieldValue, Code> {
        let (call, place) = self.call_of(at).ok_or(Code::NOT_SUPPORTED)?;
        match call.outcome {
            Outcome::Answered => call.batch.get(place),
            Outcome::Refused => Err(Code::NOT_SUPPORTED),
            Outcome::Failed => Err(Code::NOT_READY),
        }
    }

    /// Whether the call of that item was answered. An item that is not offered needs none.
    pub(super) fn is_answered(&self, at: usize) -> bool {
        let call = self.call_of(at);
        call.is_none_or(|(call, _)| call.outcome == Outcome::Answered)
    }

    /// Removes fields that are not offered, and those that another one stands for.
    pub(super) fn shrink(&mut self) {
        let is_due = |c: &FieldCall| c.fresh && c.outcome == Outcome::Answered;
        if !self.calls.iter().any(is_due) {
            return;
        }
        let due: Vec<bool> = self.calls.iter().map(is_due).collect();
        let mut wanted = vec![Vec::new(); self.calls.len()];
        let mut places = self.places.clone();
        let mut before = false;
        for (at, (item, place)) in self.items.iter().zip(&mut places).enumerate() {
            let offered = !self.get(at).is_err_and(Code::is_unsupported);
            let needed = offered && !(item.is_spare && before);
            // The field before it may be in another call, which did not answer.
            before = offered && self.is_answered(at);
            if let Some((call, _)) = *place
                && due.get(call) == Some(&true)
                && let Some(wanted) = wanted.get_mut(call)
            {
                *place = needed.then_some((call, wanted.len()));
                if needed {
                    wanted.push(item.wanted);
                }
            }
        }
        self.places = places;
        for ((call, due), wanted) in self.calls.iter_mut().zip(due).zip(wanted) {
            if due {
                call.batch = Batch::new(&wanted);
                call.fresh = false;
            }
        }
    }
}
