//! The files of a dataset, lent to a plan, and the time that a request to them takes.

use super::{open_files::OpenFiles, shared::Shared};
use crate::catalogue::PublishedDataset;
use rails_formats::{
    manifest::ObjectPath,
    reader::{PlanFiles, ReadError, Root, Source},
};
use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

/// The files of a dataset.
pub(super) struct DatasetFiles {
    pub(super) dataset: Arc<PublishedDataset>,
    pub(super) shared: Arc<Shared>,
}

impl DatasetFiles {
    fn open_files(&self) -> &OpenFiles {
        &self.shared.files
    }
}

impl PlanFiles for DatasetFiles {
    fn numbered(&self, object: u32) -> Result<Arc<Source>, ReadError> {
        let source = self.open_files().numbered(&self.dataset, object)?;
        REQUEST.set(Some(Request { device: source.generation().device, began: Instant::now() }));
        Ok(source)
    }

    fn root(&self) -> Option<&Root> {
        Some(self.dataset.root())
    }

    fn keyed(&self, path: &ObjectPath) -> Result<Option<Source>, ReadError> {
        self.open_files().keyed(&self.dataset, path)
    }
}

/// The device and the time of the request that this thread has begun last, once.
pub(super) fn take_request() -> Option<(u64, Duration)> {
    REQUEST.take().map(|request| (request.device, request.began.elapsed()))
}

#[derive(Debug, Clone, Copy)]
struct Request {
    device: u64,
    began: Instant,
}

thread_local! {
    /// A reading thread asks for the file of a part, reads, and reports: all on its own.
    static REQUEST: Cell<Option<Request>> = const { Cell::new(None) };
}
