//! What a stage counts while it runs, and what others read of it.

use super::stats::{StageState, StageStats};
use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU8, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

/// The counters of one stage. Only the stage writes them. On cache lines of their own, of which x86 fetches two at a
/// time.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Meter {
    pub(super) name: String,
    /// The beginning of the pipeline, from which the nanoseconds below are counted.
    zero: Instant,
    items_in: AtomicU64,
    items_out: AtomicU64,
    dropped: AtomicU64,
    starved: AtomicU64,
    blocked: AtomicU64,
    /// One of the constants below.
    waits_for: AtomicU8,
    waits_since: AtomicU64,
    /// [`NEVER`] before that.
    started: AtomicU64,
    ended: AtomicU64,
    /// Its place among the stages that have ended, from 1 on.
    place: AtomicUsize,
    /// Whether a stage beside it ended first.
    is_bereft: AtomicBool,
    /// Whether it dropped its input before the end of it.
    has_stopped_reading: AtomicBool,
}

/// What a stage waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Input,
    Room,
    Buffer,
}

/// A wait that goes on; dropping it ends it.
pub(super) struct Waiting<'m> {
    meter: &'m Meter,
    wait: Wait,
    since: u64,
}

impl Meter {
    pub(super) fn new(name: String, zero: Instant) -> Arc<Self> {
        let count = || AtomicU64::new(0);
        Arc::new(Self {
            name,
            zero,
            items_in: count(),
            items_out: count(),
            dropped: count(),
            starved: count(),
            blocked: count(),
            waits_for: AtomicU8::new(NOTHING),
            waits_since: count(),
            started: AtomicU64::new(NEVER),
            ended: AtomicU64::new(NEVER),
            place: AtomicUsize::new(0),
            is_bereft: AtomicBool::new(false),
            has_stopped_reading: AtomicBool::new(false),
        })
    }

    pub(super) fn start(&self) {
        self.started.store(self.now(), Release);
    }

    /// Notes the end. `ended` counts the stages that have.
    pub(super) fn end(&self, ended: &AtomicUsize) {
        self.place.store(ended.fetch_add(1, AcqRel) + 1, Release);
        self.ended.store(self.now(), Release);
    }

    pub(super) fn place(&self) -> usize {
        self.place.load(Acquire)
    }

    pub(super) fn count_in(&self) {
        add(&self.items_in, 1);
    }

    pub(super) fn count_out(&self) {
        add(&self.items_out, 1);
    }

    pub(super) fn count_dropped(&self) {
        add(&self.dropped, 1);
    }

    /// A stage beside it has ended before it could.
    pub(super) fn is_left(&self) {
        self.is_bereft.store(true, Release);
    }

    pub(super) fn was_left(&self) -> bool {
        self.is_bereft.load(Acquire)
    }

    pub(super) fn stops_reading(&self) {
        self.has_stopped_reading.store(true, Release);
    }

    pub(super) fn stopped_reading(&self) -> bool {
        self.has_stopped_reading.load(Acquire)
    }

    /// Begins a wait.
    pub(super) fn wait(&self, wait: Wait) -> Waiting<'_> {
        let since = self.now();
        self.waits_since.store(since, Relaxed);
        self.waits_for.store(wait as u8 + 1, Release);
        Waiting { meter: self, wait, since }
    }

    pub(super) fn waits_for(&self) -> Option<Wait> {
        [Wait::Input, Wait::Room, Wait::Buffer].into_iter().find(|wait| *wait as u8 + 1 == self.waits_for.load(Acquire))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Acquire) != NEVER
    }

    /// The items that it has received and sent: progress is a change of these.
    pub(super) fn items(&self) -> (u64, u64) {
        (self.items_in.load(Acquire), self.items_out.load(Acquire))
    }

    /// The counters now. They are read one after the other, so they may be a few items apart.
    pub(super) fn read(&self) -> StageStats {
        let [started, ended] = [&self.started, &self.ended].map(|time| time.load(Acquire));
        let until = if ended == NEVER { self.now() } else { ended };
        let waits_for = self.waits_for();
        let goes_on = until.saturating_sub(self.waits_since.load(Relaxed));
        let so_far = |sum: &AtomicU64, does: bool| sum.load(Relaxed) + if does { goes_on } else { 0 };
        let starved = so_far(&self.starved, waits_for == Some(Wait::Input));
        let blocked = so_far(&self.blocked, waits_for.is_some_and(|wait| wait != Wait::Input));
        let busy = until.saturating_sub(started).saturating_sub(starved + blocked);
        let state = match waits_for {
            _ if started == NEVER => StageState::New,
            _ if ended != NEVER => StageState::Ended,
            None => StageState::Busy,
            Some(Wait::Input) => StageState::Starved,
            Some(Wait::Room | Wait::Buffer) => StageState::Blocked,
        };
        StageStats {
            stage: self.name.clone(),
            state,
            items_in: self.items_in.load(Relaxed),
            items_out: self.items_out.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            busy: if started == NEVER { Duration::ZERO } else { Duration::from_nanos(busy) },
            starved: Duration::from_nanos(starved),
            blocked: Duration::from_nanos(blocked),
            buffers: None,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let sum = match self.wait {
            Wait::Input => &self.meter.starved,
            Wait::Room | Wait::Buffer => &self.meter.blocked,
        };
        self.meter.waits_for.store(NOTHING, Release);
        add(sum, self.meter.now().saturating_sub(self.since));
    }
}

/// Adds to a counter that only the calling thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Release);
}

const NOTHING: u8 = 0;
const NEVER: u64 = u64::MAX;
