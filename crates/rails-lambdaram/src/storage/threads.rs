//! The reading threads, and the one that begins reads.

use super::{
    assembly::Assembly,
    beside::Binding,
    error::StorageError,
    figures::StorageFigures,
    files::DatasetFiles,
    open_files::OpenFiles,
    options::StorageOptions,
    queue::Deed,
    shared::{Done, Next, ReadTicket, Request, Shared},
};
use crate::{catalogue::PublishedDataset, wire::Urgency};
use rails_array::Region;
use rails_bind::limits::name_thread_limits;
use rails_formats::{
    plan::{MergeLimits, RegionPlan, plan_region},
    reader::{NoThread, PlanFiles, PoolOptions, ReadPool, Reading},
};
use std::{
    cell::Cell,
    collections::HashMap,
    fmt, io,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

/// Threads that read regions of datasets out of files.
///
/// A thread beside them begins the reads: it plans one when there is room, so that memory is taken
/// for twice as many regions as there are threads, and no more. A read that waits takes some
/// hundred bytes; the caller limits their number.
///
/// Dropping this cancels the reads that wait, and waits for those that run, unless one of its own
/// threads drops it.
pub struct Storage {
    shared: Arc<Shared>,
    threads: usize,
    refused_threads: Option<String>,
    beginner: Option<JoinHandle<()>>,
}

impl Storage {
    /// Starts the threads.
    ///
    /// A thread that the system refuses, and a place that it refuses, are no errors: the
    /// [`figures`](Self::figures) tell.
    ///
    /// # Errors
    /// [`NoThread`], if there is none at all.
    pub fn new(options: StorageOptions) -> Result<Self, NoThread> {
        let binding = Arc::new(Binding::beside(&options.beside));
        let bound = Arc::clone(&binding);
        let max_plans = options.threads.saturating_mul(NonZeroUsize::new(4).expect("the number is not 0"));
        let pool =
            ReadPool::new(&PoolOptions::default().threads(options.threads).max_plans(max_plans).on_start(move |_| {
                IS_OWN.set(true);
                bound.bind_thread();
            }));
        let pool = pool.map_err(|refused| name_thread_limits(refused.error))?;
        let refused_threads = pool.refusal().map(|error| {
            let error = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            name_thread_limits(error).to_string()
        });
        let threads = pool.threads();
        if let Some(refusal) = &refused_threads {
            tracing::warn!(threads, wanted = options.threads, refusal, "some reading threads are refused");
        }
        let files = OpenFiles::new(options.max_open_files.map(NonZeroUsize::get));
        let shared = Arc::new(Shared::new(files, binding, threads));
        let beginner = Arc::clone(&shared);
        let run = move || {
            IS_OWN.set(true);
            begin_reads(&beginner, pool);
        };
        let beginner = thread::Builder::new().name("reads".into()).spawn(run).map_err(name_thread_limits)?;
        Ok(Self { shared, threads, refused_threads, beginner: Some(beginner) })
    }

    /// Reads a region of the array of that number: its elements in C order and this machine's order
    /// of bytes. `done` is called once, on a reading thread or the one that begins reads, never on
    /// the caller's; it should return soon, for the thread reads nothing meanwhile.
    ///
    /// All elements are of the dataset's generation, or the read fails.
    pub fn read(
        &self,
        dataset: &Arc<PublishedDataset>,
        array: usize,
        region: &Region,
        urgency: Urgency,
        done: impl FnOnce(Result<Vec<u8>, StorageError>) + Send + 'static,
    ) -> ReadTicket {
        let (dataset, region) = (Arc::clone(dataset), region.clone());
        self.shared.push(urgency, Request { dataset, array, region, done: Box::new(done) })
    }

    /// Makes a read one of demand, if it has not begun.
    pub fn raise(&self, ticket: &ReadTicket) {
        ticket.raise();
    }

    /// Closes the open files of a dataset that is not read any more: one that has a next
    /// generation. A read opens them again.
    pub fn forget(&self, dataset: &PublishedDataset) {
        self.shared.files.forget(dataset);
    }

    /// What has been measured.
    pub fn figures(&self) -> StorageFigures {
        let refused_threads = self.refused_threads.clone();
        StorageFigures { threads: self.threads, refused_threads, ..self.shared.figures() }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.shared.close();
        let beginner = self.beginner.take().expect("only dropping takes it");
        // The receiver of a read may be the last owner, and its thread cannot wait for itself.
        if !IS_OWN.get() {
            beginner.join().expect("the thread that begins reads catches the panics of their receivers");
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

/// Begins, drops and cancels reads until the storage is closed.
fn begin_reads(shared: &Arc<Shared>, pool: ReadPool) {
    let mut readings: HashMap<u64, Reading> = HashMap::new();
    loop {
        match shared.next() {
            Next::Deed(Deed::Begin(number, request)) => {
                if let Some(reading) = begin(shared, &pool, number, request) {
                    readings.insert(number, reading);
                }
            }
            Next::Deed(Deed::Drop(request)) => tell(request.done, StorageError::Cancelled),
            // The handle stays until the read has ended.
            Next::Deed(Deed::Cancel(number)) => {
                if let Some(reading) = readings.get(&number) {
                    reading.cancel();
                }
            }
            Next::Ended(numbers) => numbers.iter().for_each(|number| drop(readings.remove(number))),
            Next::Closed => break,
        }
    }
}

/// Plans a read and gives it to the threads; `None`, if it has failed.
fn begin(shared: &Arc<Shared>, pool: &ReadPool, number: u64, request: Request) -> Option<Reading> {
    let Request { dataset, array, region, done } = request;
    let plan = match plan(shared, &dataset, array, &region) {
        Ok(plan) => Arc::new(plan),
        Err(error) => {
            shared.ended(number, Instant::now(), None);
            tell(done, error);
            return None;
        }
    };
    let assembly = Assembly::new(number, Arc::clone(&plan), Arc::clone(shared), done);
    let files: Arc<dyn PlanFiles> = Arc::new(DatasetFiles { dataset, shared: Arc::clone(shared) });
    let reading = pool.begin(&plan, &files, move |event| assembly.take(event));
    Some(reading.expect("the queue gives the pool fewer plans than it takes"))
}

fn plan(
    shared: &Shared,
    dataset: &PublishedDataset,
    array: usize,
    region: &Region,
) -> Result<RegionPlan, StorageError> {
    let missing = || StorageError::NoArray { dataset: dataset.name().into(), array };
    let array = dataset.array(array).ok_or_else(missing)?;
    // The gap is what a request costs, whatever the share of gaps.
    let limits =
        MergeLimits::default().max_gap_bytes(shared.gap_bytes(dataset.device())).max_over_read_percent(u32::MAX);
    Ok(plan_region(array, region, &limits)?)
}

/// Tells the receiver of a read that has not begun. A panic is its own.
fn tell(done: Done, error: StorageError) {
    let _ = catch_unwind(AssertUnwindSafe(|| done(Err(error))));
}

thread_local! {
    /// Whether the thread is one of a storage.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}
