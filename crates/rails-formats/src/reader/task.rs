//! One plan that threads carry out, part by part.

use super::{
    error::ReadError,
    fetch::{fetch, keyed_below},
    source::{Root, Source},
};
use crate::{manifest::ObjectPath, plan::RegionPlan};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The files of a plan, opened by the thread that reads them.
pub trait PlanFiles: Send + Sync {
    /// Opens the file of a number, or lends one that is open. It may block.
    ///
    /// # Errors
    /// Any [`ReadError`]; it ends the plan.
    fn numbered(&self, object: u32) -> Result<Arc<Source>, ReadError>;

    /// The root of chunks in files without a number; `None` refuses them.
    fn root(&self) -> Option<&Root>;

    /// Opens the file of a chunk that has no number; `None`, if it is not there. It may block. By
    /// default it is opened below the [`root`](Self::root).
    ///
    /// # Errors
    /// Any [`ReadError`]; it ends the plan.
    fn keyed(&self, path: &ObjectPath) -> Result<Option<Source>, ReadError> {
        keyed_below(self.root(), path)
    }
}

/// News of a plan that is carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadEvent {
    /// Some of the region has been read.
    Part(ReadPart),
    /// The plan has ended, and nothing comes after this. It comes once.
    Ended(Result<(), ReadFailure>),
}

/// A part of a region that has been read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadPart {
    /// The bytes of a read.
    Read {
        /// The number of the read in [`RegionPlan::reads`].
        number: usize,
        /// The bytes, as the file has them.
        bytes: Vec<u8>,
    },
    /// A chunk that was fetched whole.
    Chunk {
        /// The number of the fetch in [`RegionPlan::fetches`].
        fetch: usize,
        /// The number of the chunk in the fetch.
        chunk: usize,
        /// The elements in this machine's order of bytes; `None` for a chunk that is not stored.
        elements: Option<Vec<u8>>,
    },
}

/// The cause for which a plan has not been carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFailure {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The plan was cancelled, or its pool was dropped.
    #[error("the plan was cancelled")]
    Cancelled,
    /// A reading thread, or the receiver of its news, panicked.
    #[error("a thread panicked while it read")]
    Panicked,
}

/// A plan that is being carried out. Dropping it cancels the parts that have not begun.
#[derive(Debug)]
pub struct Reading {
    task: Arc<Task>,
}

/// A plan, and its progress.
pub(super) struct Task {
    plan: Arc<RegionPlan>,
    files: Arc<dyn PlanFiles>,
    on_event: Box<dyn Fn(ReadEvent) + Send + Sync>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The first part that has not begun.
    next: usize,
    running: usize,
    failure: Option<ReadFailure>,
    has_ended: bool,
}

impl ReadPart {
    /// Copies the part to its places in the memory of the region.
    ///
    /// # Panics
    /// If the part is of another plan, or `goal` has not the size of the region.
    pub fn scatter(&self, plan: &RegionPlan, goal: &mut [u8]) {
        match self {
            Self::Read { number, bytes } => plan.reads()[*number].scatter(bytes, goal, plan.dtype()),
            Self::Chunk { fetch, chunk, elements } => {
                let chunk = &plan.fetches()[*fetch].chunks[*chunk];
                match elements {
                    Some(elements) => chunk.scatter(elements, goal),
                    None => plan.fill(chunk, goal),
                }
            }
        }
    }
}

impl Reading {
    pub(super) fn new(task: Arc<Task>) -> Self {
        Self { task }
    }

    /// Cancels the parts that have not begun. Those that have begun are still reported.
    pub fn cancel(&self) {
        self.task.cancel();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.cancel();
    }
}

impl Task {
    pub(super) fn new(
        plan: Arc<RegionPlan>,
        files: Arc<dyn PlanFiles>,
        on_event: Box<dyn Fn(ReadEvent) + Send + Sync>,
    ) -> Self {
        Self { plan, files, on_event, progress: Mutex::default() }
    }

    /// Begins the next part, which the caller has to [`run`](Self::run); `None`, if all have begun.
    pub(super) fn take(&self) -> Option<usize> {
        let mut progress = self.progress();
        if progress.next >= self.parts() {
            return None;
        }
        progress.next += 1;
        progress.running += 1;
        Some(progress.next - 1)
    }

    /// Carries out a part that was taken, and reports it. A panic ends the plan.
    pub(super) fn run(&self, part: usize) {
        let result = catch_unwind(AssertUnwindSafe(|| self.read(part)));
        let failure = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(ReadFailure::Read(error)),
            Err(_) => Some(ReadFailure::Panicked),
        };
        let mut progress = self.progress();
        progress.running -= 1;
        if let Some(failure) = failure {
            progress.failure.get_or_insert(failure);
            progress.next = self.parts();
        }
        self.end_if_done(progress);
    }

    /// Cancels the parts that have not begun.
    pub(super) fn cancel(&self) {
        let mut progress = self.progress();
        if progress.next < self.parts() {
            progress.next = self.parts();
            progress.failure.get_or_insert(ReadFailure::Cancelled);
        }
        self.end_if_done(progress);
    }

    /// Whether the plan has no parts.
    pub(super) fn is_empty(&self) -> bool {
        self.parts() == 0
    }

    /// Whether parts have not begun.
    pub(super) fn has_more(&self) -> bool {
        self.progress().next < self.parts()
    }

    /// Ends a plan without parts.
    pub(super) fn end(&self) {
        self.end_if_done(self.progress());
    }

    fn end_if_done(&self, mut progress: MutexGuard<'_, Progress>) {
        if progress.has_ended || progress.running > 0 || progress.next < self.parts() {
            return;
        }
        progress.has_ended = true;
        let failure = progress.failure.take();
        // The receiver may cancel, which takes the lock.
        drop(progress);
        let event = ReadEvent::Ended(failure.map_or(Ok(()), Err));
        // A receiver that panics now has got all its news.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.on_event)(event)));
    }

    fn parts(&self) -> usize {
        self.plan.reads().len() + self.plan.fetches().len()
    }

    fn read(&self, part: usize) -> Result<(), ReadError> {
        let report = |part| (self.on_event)(ReadEvent::Part(part));
        if let Some(read) = self.plan.reads().get(part) {
            let bytes = self.files.numbered(read.object)?.read(read.range.clone())?;
            report(ReadPart::Read { number: part, bytes });
            return Ok(());
        }
        let number = part - self.plan.reads().len();
        let mut chunk = 0;
        let numbered = |object| self.files.numbered(object);
        let keyed = |path: &ObjectPath| self.files.keyed(path);
        fetch(self.plan.dtype(), &self.plan.fetches()[number], numbered, keyed, |_, elements| {
            report(ReadPart::Chunk { fetch: number, chunk, elements });
            chunk += 1;
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing panics while it holds the lock.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("progress", &self.progress).finish_non_exhaustive()
    }
}
