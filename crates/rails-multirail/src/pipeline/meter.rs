//! The counters of a stage.

use super::{
    stats::{StageState, StageStats},
    sync::AtomicWaker,
};
use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

/// The counters of one stage. Only the stage writes them. On cache lines of their own, of which x86
/// fetches two at a time.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Meter {
    pub(super) name: String,
    /// The instant from which the nanoseconds below are counted.
    zero: Instant,
    items_in: AtomicU64,
    items_out: AtomicU64,
    dropped: AtomicU64,
    /// The input's waits.
    starved: Waits,
    /// The output's waits.
    blocked: Waits,
    /// The start; [`NEVER`] before it.
    started: AtomicU64,
    ended: AtomicU64,
    /// The stage's place among those that have ended, from 1 on.
    place: AtomicUsize,
    /// Whether a stage beside this one ended first.
    neighbour_ended: AtomicBool,
    /// Whether the stage has heard the end of its input, or dropped it there.
    has_read_all: AtomicBool,
    /// Whether the stage dropped its input before the end of it.
    has_stopped_reading: AtomicBool,
    /// Wakes the task that joins the pipeline.
    joiner: Arc<AtomicWaker>,
}

/// The waits of one end of a stage, in one word, so that a wait is counted once at any moment: two
/// bits that say which wait goes on, if any, and below them the nanoseconds of all waits. While one
/// goes on, its beginning is taken off those, modulo two to the 62nd, so that adding the time of
/// the reading gives the sum.
#[derive(Debug)]
struct Waits {
    word: AtomicU64,
    /// The greatest sum that was read: a thread that is held up between reading the clock and
    /// writing the word writes a smaller one.
    max_read: AtomicU64,
}

/// The cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Input,
    Room,
    Buffer,
}

/// A wait that goes on; dropping it ends it.
pub(super) struct WaitGuard<'m> {
    meter: &'m Meter,
    wait: Wait,
}

/// A wait for a buffer: equal to another reading of it only while the same wait goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BufferWait(u64);

impl Meter {
    pub(super) fn new(name: String, zero: Instant, joiner: Arc<AtomicWaker>) -> Arc<Self> {
        let count = || AtomicU64::new(0);
        Arc::new(Self {
            name,
            zero,
            items_in: count(),
            items_out: count(),
            dropped: count(),
            starved: Waits::new(),
            blocked: Waits::new(),
            started: AtomicU64::new(NEVER),
            ended: AtomicU64::new(NEVER),
            place: AtomicUsize::new(0),
            neighbour_ended: AtomicBool::new(false),
            has_read_all: AtomicBool::new(false),
            has_stopped_reading: AtomicBool::new(false),
            joiner,
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

    /// Notes that a stage beside this one has ended first.
    pub(super) fn mark_neighbour_ended(&self) {
        self.neighbour_ended.store(true, Release);
    }

    pub(super) fn neighbour_has_ended(&self) -> bool {
        self.neighbour_ended.load(Acquire)
    }

    pub(super) fn mark_read_all(&self) {
        self.has_read_all.store(true, Release);
    }

    pub(super) fn has_read_all(&self) -> bool {
        self.has_read_all.load(Acquire)
    }

    /// Notes the stop, and has the joiner look.
    pub(super) fn mark_stopped_reading(&self) {
        self.has_stopped_reading.store(true, Release);
        self.joiner.wake();
    }

    pub(super) fn has_stopped_reading(&self) -> bool {
        self.has_stopped_reading.load(Acquire)
    }

    /// Begins a wait.
    pub(super) fn wait(&self, wait: Wait) -> WaitGuard<'_> {
        self.waits(wait).begin(wait, self.now());
        WaitGuard { meter: self, wait }
    }

    fn waits(&self, wait: Wait) -> &Waits {
        match wait {
            Wait::Input => &self.starved,
            Wait::Room | Wait::Buffer => &self.blocked,
        }
    }

    /// Whether the stage waits for room in its output or for a buffer.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.goes_on().is_some()
    }

    /// The stage's wait for a buffer, if that goes on.
    pub(super) fn buffer_wait(&self) -> Option<BufferWait> {
        let word = self.blocked.word.load(Acquire);
        (Waits::wait_of(word) == Some(Wait::Buffer)).then_some(BufferWait(word))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Acquire) != NEVER
    }

    /// The time of the stage's end.
    pub(super) fn ended_at(&self) -> Option<Instant> {
        let ended = self.ended.load(Acquire);
        (ended != NEVER).then(|| self.zero + Duration::from_nanos(ended))
    }

    pub(super) fn items_in(&self) -> u64 {
        self.items_in.load(Acquire)
    }

    pub(super) fn items_out(&self) -> u64 {
        self.items_out.load(Acquire)
    }

    /// The counters at this moment. They are read one after the other, so they may be a few items
    /// apart.
    pub(super) fn read(&self) -> StageStats {
        let [started, ended] = [&self.started, &self.ended].map(|time| time.load(Acquire));
        let now = || if ended == NEVER { self.now() } else { ended };
        let [starved, blocked] = [&self.starved, &self.blocked].map(|waits| waits.read(now));
        // Read after the waits, which are within it.
        let alive = now().saturating_sub(started);
        let [starved_for, blocked_for] = [starved.0, blocked.0].map(|time| time.min(alive));
        let busy = alive.saturating_sub(starved_for + blocked_for);
        let state = match (starved.1, blocked.1) {
            _ if started == NEVER => StageState::New,
            _ if ended != NEVER => StageState::Ended,
            (_, Some(_)) => StageState::Blocked,
            (Some(_), None) => StageState::Starved,
            (None, None) => StageState::Busy,
        };
        StageStats {
            stage: self.name.clone(),
            state,
            items_in: self.items_in.load(Relaxed),
            items_out: self.items_out.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            busy: Duration::from_nanos(busy),
            starved: Duration::from_nanos(starved_for),
            blocked: Duration::from_nanos(blocked_for),
            buffers: None,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.meter.waits(self.wait).end(self.meter.now());
    }
}

impl Waits {
    fn new() -> Self {
        Self { word: AtomicU64::new(0), max_read: AtomicU64::new(0) }
    }

    /// Only the end's task calls this, and [`end`](Self::end). A wait whose future was leaked ends
    /// here.
    fn begin(&self, wait: Wait, now: u64) {
        self.end(now);
        let sum = self.word.load(Relaxed);
        self.word.store(sum.wrapping_sub(now) & NANOS | (wait as u64 + 1) << NANOS.count_ones(), Release);
    }

    fn end(&self, now: u64) {
        let word = self.word.load(Relaxed);
        if Self::wait_of(word).is_some() {
            self.word.store(word.wrapping_add(now) & NANOS, Release);
        }
    }

    fn goes_on(&self) -> Option<Wait> {
        Self::wait_of(self.word.load(Acquire))
    }

    /// The nanoseconds of all waits, and the one that goes on.
    fn read(&self, now: impl Fn() -> u64) -> (u64, Option<Wait>) {
        let mut word = self.word.load(Acquire);
        loop {
            // A time at which the word was this one: earlier or later, the sum would be another.
            let now = now();
            let again = self.word.load(Acquire);
            if again == word {
                let wait = Self::wait_of(word);
                let sum = if wait.is_some() { word.wrapping_add(now) & NANOS } else { word };
                return (self.max_read.fetch_max(sum, AcqRel).max(sum), wait);
            }
            word = again;
        }
    }

    fn wait_of(word: u64) -> Option<Wait> {
        [Wait::Input, Wait::Room, Wait::Buffer].into_iter().find(|wait| *wait as u64 + 1 == word >> NANOS.count_ones())
    }
}

/// Adds to a counter that only the calling thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Release);
}

/// The bits of nanoseconds in a word of waits: 146 years.
const NANOS: u64 = (1 << 62) - 1;
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_both_ends_are_apart() {
        let meter = Meter::new("stage".to_owned(), Instant::now(), Arc::default());
        meter.start();
        let input = meter.wait(Wait::Input);
        let buffer = meter.wait(Wait::Buffer);
        drop(input);
        assert_eq!(meter.read().state, StageState::Blocked);
        let starved = meter.read().starved;
        let first = meter.buffer_wait();
        assert!(first.is_some());
        assert_eq!(meter.buffer_wait(), first, "it is the same wait");
        drop(buffer);
        assert_eq!((meter.buffer_wait(), meter.read().starved), (None, starved));
        drop(meter.wait(Wait::Room));
        assert_eq!(meter.read().state, StageState::Busy);
    }

    #[test]
    fn a_wait_counts_once_at_any_moment() {
        let waits = Waits::new();
        for (begin, end) in [(10, 15), (20, 27)] {
            let before = waits.read(|| begin).0;
            waits.begin(Wait::Buffer, begin);
            assert_eq!(waits.read(|| begin), (before, Some(Wait::Buffer)));
            assert_eq!(waits.read(|| end), (before + end - begin, Some(Wait::Buffer)));
            waits.end(end);
            assert_eq!(waits.read(|| end + 100), (before + end - begin, None));
        }
    }

    /// Figures only grow while the stage goes from wait to wait.
    #[test]
    fn figures_never_go_back() {
        let meter = Meter::new("stage".to_owned(), Instant::now(), Arc::default());
        meter.start();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let stage = std::thread::spawn({
            let meter = meter.clone();
            move || {
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    drop(meter.wait(Wait::Input));
                    drop(meter.wait(Wait::Room));
                }
            }
        });
        let mut last = meter.read();
        for _ in 0..100_000 {
            let next = meter.read();
            assert!(next.starved >= last.starved && next.blocked >= last.blocked, "{last:?}, {next:?}");
            last = next;
        }
        drop(stop);
        stage.join().unwrap();
    }
}
