//! The work of all tries of a batch.

use crate::{batch::Batch, progress::Progress};
use rails_transfer::{How, LackingGuarantee, Observer, Outcome, Reason, RelPath, SendSummary, Totals};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Counts the work of all tries of a batch, and shows the progress of each.
#[derive(Debug)]
pub(crate) struct Tally {
    progress: Arc<Progress>,
    work: Mutex<Work>,
}

#[derive(Debug, Default)]
struct Work {
    /// When the first try began.
    begun: Option<Instant>,
    tries: u32,
    /// Whether the try under way has moved bytes or settled an entry.
    progressed: bool,
    /// The bytes that moved in earlier tries, and in the one under way. Those of holes count, as
    /// an [`Observer`] is not told that they were not sent.
    bytes_earlier: u64,
    bytes_now: u64,
    /// The files of which bytes were sent, and the offset of the first.
    started: HashMap<RelPath, u64>,
}

impl Tally {
    /// A tally that shows each try there.
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, work: Mutex::default() }
    }

    /// A try begins.
    pub(crate) fn begin(&self) {
        let mut work = self.work();
        work.begun.get_or_insert_with(Instant::now);
        work.tries += 1;
        work.bytes_earlier += std::mem::take(&mut work.bytes_now);
        self.progress.begin_again();
    }

    /// Whether a try has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.work().tries > 0
    }

    /// Whether there was progress since the last call.
    pub(crate) fn take_progress(&self) -> bool {
        std::mem::take(&mut self.work().progressed)
    }

    /// How many times the batch had to begin again.
    pub(crate) fn begun_again(&self) -> u32 {
        self.work().tries.saturating_sub(1)
    }

    /// The time since the first try began.
    pub(crate) fn time(&self) -> Duration {
        self.work().begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    /// Counts the work of earlier tries in the result of the last one.
    pub(crate) fn complete(&self, batch: &mut Batch<SendSummary>) {
        if self.begun_again() == 0 {
            return;
        }
        batch.time = self.time();
        let work = self.work();
        let Ok(summary) = &mut batch.summary else { return };
        summary.bytes_sent += work.bytes_earlier;
        for file in summary.files.iter_mut().filter(|file| file.how == How::AlreadyThere) {
            if let Some(resumed_at) = work.started.get(&file.path) {
                file.how = How::Sent { resumed_at: *resumed_at };
            }
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_first(&self) -> bool {
        self.begun_again() == 0
    }
}

impl Observer for Tally {
    fn totals(&self, totals: &Totals) {
        self.progress.totals(totals);
    }

    fn started(&self, path: &RelPath, size: u64, resumed_at: u64) {
        self.work().started.entry(path.clone()).or_insert(resumed_at);
        self.progress.started(path, size, resumed_at);
    }

    fn moved(&self, path: &RelPath, bytes: u64) {
        let mut work = self.work();
        work.bytes_now += bytes;
        work.progressed = true;
        drop(work);
        self.progress.moved(path, bytes);
    }

    fn spared(&self, path: &RelPath, bytes: u64) {
        self.work().progressed = true;
        self.progress.spared(path, bytes);
    }

    fn finished(&self, path: &RelPath, size: u64, outcome: Outcome<'_>) {
        if !matches!(outcome, Outcome::Failed(_)) {
            self.work().progressed = true;
        }
        self.progress.finished(path, size, outcome);
    }

    fn skipped(&self, source: &Path, reason: &Reason) {
        if self.is_first() {
            self.progress.skipped(source, reason);
        }
    }

    fn unreadable(&self, reason: &Reason) {
        if self.is_first() {
            self.progress.unreadable(reason);
        }
    }

    fn fewer_streams(&self, streams: usize, reason: &Reason) {
        self.progress.fewer_streams(streams, reason);
    }

    fn lacking(&self, lacking: &LackingGuarantee) {
        self.progress.lacking(lacking);
    }
}
