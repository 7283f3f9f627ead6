//! Datasets in files of this machine.

use super::Peer;
use crate::{
    aside::aside,
    catalogue::{Catalogue, PublishedDataset},
    description::{DatasetDescription, DatasetEntry},
    node::{Node, OpenGrid, Upstream},
    storage::{ReadTicket, Storage, StorageError},
    wire::{Denial, DenialReason, Urgency},
};
use rails_array::Selection;
use rails_cache::{BlockId, Fault, pattern::Path};
use rails_multirail::error::with_causes;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

/// The datasets of a catalogue, read by the threads of a storage.
pub(crate) struct Local {
    node: Weak<Node>,
    catalogue: RwLock<Catalogue>,
    storage: Arc<Storage>,
    /// One for each generation of a dataset, by the dataset's name.
    upstreams: Mutex<HashMap<String, Arc<FileUpstream>>>,
    read: UnboundedSender<Read>,
    landing: JoinHandle<()>,
}

/// A block that was read.
struct Read {
    grid: Arc<OpenGrid>,
    block: BlockId,
    upstream: Arc<FileUpstream>,
    outcome: Result<Vec<u8>, StorageError>,
}

/// The files of one generation of a dataset.
struct FileUpstream {
    dataset: Arc<PublishedDataset>,
    storage: Arc<Storage>,
    read: UnboundedSender<Read>,
    /// Reads that have not ended.
    tickets: Mutex<HashMap<BlockId, ReadTicket>>,
    itself: Weak<Self>,
}

impl Local {
    pub(crate) fn new(node: &Arc<Node>, catalogue: Catalogue, storage: Storage, runtime: &Handle) -> Arc<Self> {
        let (read, reads) = unbounded_channel();
        Arc::new_cyclic(|local: &Weak<Self>| Self {
            node: Arc::downgrade(node),
            catalogue: RwLock::new(catalogue),
            storage: Arc::new(storage),
            upstreams: Mutex::default(),
            read,
            landing: runtime.spawn(land(local.clone(), reads)),
        })
    }

    /// The datasets that a peer may read.
    pub(super) fn list(&self, peer: &Peer) -> Vec<DatasetEntry> {
        let catalogue = self.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        let datasets = catalogue.datasets().filter(|dataset| peer.may_read(dataset.readers()));
        datasets.map(|dataset| entry(dataset.description())).collect()
    }

    pub(super) fn may_read(&self, dataset: &str, peer: &Peer) -> bool {
        self.dataset(dataset).is_some_and(|dataset| peer.may_read(dataset.readers()))
    }

    /// The facts about a dataset, after a look at its files.
    pub(super) async fn describe(&self, dataset: &str, peer: &Peer) -> Result<Arc<DatasetDescription>, Denial> {
        let unknown = || Denial { reason: DenialReason::Unknown, text: "there is no such dataset".into() };
        // A peer that may not read a dataset does not learn that there is one.
        let known = self.dataset(dataset).filter(|known| peer.may_read(known.readers())).ok_or_else(unknown)?;
        let source = |text| Denial { reason: DenialReason::Source, text };
        let checked = {
            let known = Arc::clone(&known);
            aside(move || match known.check() {
                Ok(()) => Ok(None),
                // Whatever has happened to the files, opening them again says more.
                Err(_) => known.reopen().map(Some),
            })
        };
        let now = match checked.await {
            Ok(None) => known,
            Ok(Some(next)) => {
                let now = self.replaced(next);
                // Others may read what is there now.
                if !peer.may_read(now.readers()) {
                    return Err(unknown());
                }
                now
            }
            Err(error) => {
                tracing::warn!(dataset, error = with_causes(&error), "a dataset cannot be opened again");
                return Err(source(with_causes(&error)));
            }
        };
        Ok(Arc::new(now.description().clone()))
    }

    /// The place of a dataset's blocks; `None` if the dataset has another generation by now.
    pub(super) fn upstream(&self, description: &DatasetDescription) -> Option<Arc<dyn Upstream>> {
        let dataset = self.dataset(&description.name)?;
        if dataset.description().generation != description.generation {
            return None;
        }
        let mut upstreams = self.upstreams();
        if let Some(known) = upstreams.get(dataset.name())
            && Arc::ptr_eq(&known.dataset, &dataset)
        {
            return Some(known.clone());
        }
        let new = Arc::new_cyclic(|itself| FileUpstream {
            dataset: Arc::clone(&dataset),
            storage: Arc::clone(&self.storage),
            read: self.read.clone(),
            tickets: Mutex::default(),
            itself: itself.clone(),
        });
        upstreams.insert(dataset.name().to_owned(), new.clone());
        Some(new)
    }

    pub(super) fn path(&self) -> Path {
        path_of(&self.storage)
    }

    /// The reasons why files, and arrays of Zarr folders, were left out.
    pub(super) fn left_out(&self) -> Vec<String> {
        let catalogue = self.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        // Each of these errors names its path, and that of an array its array.
        let files = catalogue.refused().iter().map(|refused| with_causes(&refused.error));
        let of_dataset = |dataset: &Arc<PublishedDataset>| {
            let path = dataset.path().display().to_string();
            dataset.refused().iter().map(|error| format!("{path}: {}", with_causes(error))).collect::<Vec<_>>()
        };
        files.chain(catalogue.datasets().flat_map(of_dataset)).collect()
    }

    fn dataset(&self, name: &str) -> Option<Arc<PublishedDataset>> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner).dataset(name)
    }

    /// Takes the next generation of a dataset, unless somebody else has taken one.
    fn replaced(&self, next: PublishedDataset) -> Arc<PublishedDataset> {
        let next = Arc::new(next);
        let mut catalogue = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        let now = catalogue.dataset(next.name());
        match now {
            Some(now) if now.description().generation >= next.description().generation => now,
            _ => {
                catalogue.replace(Arc::clone(&next));
                next
            }
        }
    }

    fn upstreams(&self) -> MutexGuard<'_, HashMap<String, Arc<FileUpstream>>> {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.landing.abort();
    }
}

/// Gives the node the blocks that were read.
async fn land(local: Weak<Local>, mut reads: UnboundedReceiver<Read>) {
    while let Some(Read { grid, block, upstream, outcome }) = reads.recv().await {
        upstream.tickets().remove(&block);
        let Some(node) = local.upgrade().and_then(|local| local.node.upgrade()) else { return };
        match outcome {
            Ok(bytes) => {
                // A block that nobody wants any more is dropped.
                let _ = node.land(block, &bytes, crate::crc(&bytes)).await;
            }
            Err(error) => {
                let fault = error.fault();
                if fault == Fault::Changed {
                    node.outdate(&grid);
                }
                node.fail(block, fault, &with_causes(&error).into());
            }
        }
    }
}

impl FileUpstream {
    fn tickets(&self) -> MutexGuard<'_, HashMap<BlockId, ReadTicket>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstream for FileUpstream {
    fn fetch(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId], urgency: Urgency) {
        let Some(upstream) = self.itself.upgrade() else { return };
        // A read that ends at once finds its ticket.
        let mut tickets = self.tickets();
        for &block in blocks {
            let done = {
                let (grid, upstream, read) = (Arc::clone(grid), Arc::clone(&upstream), self.read.clone());
                // A node that has ended wants no block.
                move |outcome| drop(read.send(Read { grid, block, upstream, outcome }))
            };
            let region = grid.region(block.index);
            let ticket = self.storage.read(&self.dataset, grid.key.array as usize, &region, urgency, done);
            tickets.insert(block, ticket);
        }
    }

    fn raise(&self, _: &Arc<OpenGrid>, blocks: &[BlockId]) {
        let tickets = self.tickets();
        blocks.iter().filter_map(|block| tickets.get(block)).for_each(|ticket| self.storage.raise(ticket));
    }

    fn recall(&self, _: &Arc<OpenGrid>) {}

    fn reading(&self, _: &Arc<OpenGrid>, _: &Selection) {}

    fn close(&self, _: &Arc<OpenGrid>) {}

    fn path(&self) -> Path {
        path_of(&self.storage)
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("catalogue", &self.catalogue).finish_non_exhaustive()
    }
}

impl fmt::Debug for FileUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileUpstream").field("dataset", &self.dataset.name()).finish_non_exhaustive()
    }
}

fn path_of(storage: &Storage) -> Path {
    let figures = storage.figures();
    Path {
        round_trip: Duration::ZERO,
        storage_latency: figures.latency.unwrap_or(DEFAULT_LATENCY),
        bytes_per_second: figures.bytes_per_second.unwrap_or(DEFAULT_RATE),
    }
}

fn entry(description: &DatasetDescription) -> DatasetEntry {
    let bytes = description.arrays.iter().map(|array| {
        let description = &array.description;
        description.shape.elements().saturating_mul(description.dtype.bytes())
    });
    DatasetEntry {
        name: description.name.clone(),
        arrays: u32::try_from(description.arrays.len()).unwrap_or(u32::MAX),
        bytes: bytes.fold(0, u64::saturating_add),
    }
}

/// Before the first read: those of a disk of a virtual machine.
const DEFAULT_LATENCY: Duration = Duration::from_millis(1);
const DEFAULT_RATE: u64 = 500_000_000;
