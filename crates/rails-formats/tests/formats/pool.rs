//! Plans carried out by several threads.

use crate::arrays::{self, expected};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::{DataType, Endianness},
    manifest::{Manifest, ObjectPath},
    plan::{MergeLimits, RegionPlan, plan_region},
    raw::Raw,
    reader::{PlanFiles, PoolOptions, QueueFull, ReadError, ReadEvent, ReadFailure, ReadPool, Root, Source},
};
use std::{
    fs,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};
use tempfile::TempDir;

/// A file of 64 by 4 elements.
struct Files {
    root: Root,
    opened: AtomicUsize,
    /// Each opening takes one of these, if there is a gate.
    gate: Option<Mutex<mpsc::Receiver<()>>>,
}

impl PlanFiles for Files {
    fn numbered(&self, _: u32) -> Result<Arc<Source>, ReadError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if let Some(gate) = &self.gate {
            gate.lock().unwrap().recv().expect("the test opens the gate");
        }
        self.root.source(&ObjectPath::new("a.bin").unwrap()).map(Arc::new)
    }

    fn root(&self) -> Option<&Root> {
        Some(&self.root)
    }
}

/// The folder, its array's manifest and elements.
fn file() -> (TempDir, Manifest, ndarray::ArrayD<arrays::Element>) {
    let array = arrays::array(&[64, 4], 7);
    let folder = tempfile::tempdir().unwrap();
    let whole = Region::whole(&Shape::new([64, 4]).unwrap());
    fs::write(folder.path().join("a.bin"), expected(&array, &whole, DataType::Int32)).unwrap();
    let raw = Raw {
        offset: 0,
        dtype: DataType::Int32,
        endianness: Endianness::NATIVE,
        shape: whole.shape().clone(),
        dimensions: vec![],
    };
    let manifest = raw.index("v", ObjectPath::new("a.bin").unwrap(), 64 * 4 * 4).unwrap();
    (folder, manifest, array)
}

/// A plan of 64 reads, for each row has a gap before it.
fn plan(manifest: &Manifest) -> (Arc<RegionPlan>, Region) {
    let region = Region::new([0, 1], Shape::new([64, 2]).unwrap()).unwrap();
    let plan = plan_region(manifest.array("v").unwrap(), &region, &MergeLimits::default()).unwrap();
    assert_eq!(plan.reads().len(), 64);
    (Arc::new(plan), region)
}

fn files(folder: &TempDir) -> Arc<Files> {
    Arc::new(Files { root: Root::open(folder.path()).unwrap(), opened: AtomicUsize::new(0), gate: None })
}

/// Files that are opened as often as the sender says.
fn gated(folder: &TempDir) -> (Arc<Files>, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel();
    let gate = Some(Mutex::new(receiver));
    (Arc::new(Files { root: Root::open(folder.path()).unwrap(), opened: AtomicUsize::new(0), gate }), sender)
}

fn pool(threads: usize, plans: usize) -> ReadPool {
    let [threads, plans] = [threads, plans].map(|count| NonZeroUsize::new(count).unwrap());
    ReadPool::new(&PoolOptions::default().threads(threads).max_plans(plans)).unwrap()
}

#[test]
fn a_pool_reads_what_one_thread_reads() {
    let (folder, manifest, array) = file();
    let (plan, region) = plan(&manifest);
    let files: Arc<dyn PlanFiles> = files(&folder);
    for threads in [1, 4] {
        let pool = pool(threads, 1);
        std::thread::scope(|scope| {
            // More plans than the queue takes wait for room.
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut goal = vec![0; plan.bytes() as usize];
                    pool.read(&plan, &files, &mut goal).unwrap();
                    assert_eq!(goal, expected(&array, &region, DataType::Int32));
                });
            }
        });
    }
}

#[test]
fn a_plan_without_parts_ends_at_once() {
    let (folder, manifest, _) = file();
    let nothing = Region::new([0, 0], Shape::new([0, 4]).unwrap()).unwrap();
    let plan = plan_region(manifest.array("v").unwrap(), &nothing, &MergeLimits::default()).unwrap();
    let files: Arc<dyn PlanFiles> = files(&folder);
    pool(1, 1).read(&Arc::new(plan), &files, &mut []).unwrap();
}

#[test]
fn cancelling_leaves_what_has_begun() {
    let (folder, manifest, _) = file();
    let (plan, _) = plan(&manifest);
    let (files, gate) = gated(&folder);
    let pool = pool(2, 1);
    let (sender, events) = mpsc::channel();
    let shared: Arc<dyn PlanFiles> = files.clone();
    let send = move |event| sender.send(event).unwrap();
    let reading = pool.begin(&plan, &shared, send).unwrap();
    gate.send(()).unwrap();
    assert!(matches!(events.recv().unwrap(), ReadEvent::Part(_)));
    // Both threads wait in the next parts.
    while files.opened.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now();
    }
    reading.cancel();
    (0..2).for_each(|_| gate.send(()).unwrap());
    let [second, third, end] = [(), (), ()].map(|()| events.recv().unwrap());
    assert!(matches!((second, third), (ReadEvent::Part(_), ReadEvent::Part(_))));
    assert!(matches!(end, ReadEvent::Ended(Err(ReadFailure::Cancelled))));
    drop(reading);
    drop(pool);
    assert!(events.recv().is_err());
    assert_eq!(files.opened.load(Ordering::Relaxed), 3);
}

#[test]
fn the_queue_is_limited_on_both_sides() {
    let (folder, manifest, _) = file();
    let (plan, _) = plan(&manifest);
    let (files, gate) = gated(&folder);
    let pool = pool(1, 2);
    let shared: Arc<dyn PlanFiles> = files;
    let begin = || pool.begin(&plan, &shared, |_| ());
    let readings = [begin().unwrap(), begin().unwrap()];
    assert!(matches!(begin().unwrap_err(), QueueFull { max_plans: 2, .. }));
    drop(readings);
    // The part that has begun waits for the gate.
    gate.send(()).unwrap();
    gate.send(()).unwrap();
    drop(pool);
}

#[test]
fn cancelled_plans_leave_the_queue() {
    let (folder, manifest, _) = file();
    let (plan, _) = plan(&manifest);
    let (files, gate) = gated(&folder);
    let pool = pool(1, 1);
    let shared: Arc<dyn PlanFiles> = files.clone();
    let begin = || pool.begin(&plan, &shared, |_| ());
    let first = begin().unwrap();
    while files.opened.load(Ordering::Relaxed) < 1 {
        std::thread::yield_now();
    }
    first.cancel();
    drop(begin().unwrap());
    let last = begin();
    assert!(matches!(begin(), Err(QueueFull { max_plans: 1, .. })));
    drop(last.unwrap());
    gate.send(()).unwrap();
}

/// A receiver of news, whose end is seen.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_receiver_uses_the_pool_as_it_goes() {
    let (folder, manifest, _) = file();
    let (plan, _) = plan(&manifest);
    let (files, gate) = gated(&folder);
    let pool = Arc::new(pool(1, 2));
    let shared: Arc<dyn PlanFiles> = files.clone();
    let first = pool.begin(&plan, &shared, |_| ()).unwrap();
    while files.opened.load(Ordering::Relaxed) < 1 {
        std::thread::yield_now();
    }
    let (sender, gone) = mpsc::channel();
    let begin = {
        let (pool, plan, shared) = (Arc::clone(&pool), Arc::clone(&plan), Arc::clone(&shared));
        move || drop(pool.begin(&plan, &shared, |_| ()))
    };
    let receiver = OnDrop(move || {
        begin();
        sender.send(()).unwrap();
    });
    let second = pool.begin(&plan, &shared, move |_| {
        let _ = &receiver;
    });
    drop(second.unwrap());
    first.cancel();
    gate.send(()).unwrap();
    // The second plan was cancelled before its first part, so the queue was its last owner.
    gone.recv_timeout(Duration::from_secs(10)).expect("no thread waits for itself");
}

#[test]
fn a_panic_of_a_going_receiver_ends_no_thread() {
    let (folder, manifest, _) = file();
    let (plan, region) = plan(&manifest);
    let (files, gate) = gated(&folder);
    let pool = pool(1, 1);
    let shared: Arc<dyn PlanFiles> = files.clone();
    let receiver = OnDrop(|| panic!("the receiver panics, which is part of the test"));
    let reading = pool.begin(&plan, &shared, move |_| {
        let _ = &receiver;
    });
    while files.opened.load(Ordering::Relaxed) < 1 {
        std::thread::yield_now();
    }
    drop(reading.unwrap());
    gate.send(()).unwrap();
    (0..64).for_each(|_| gate.send(()).unwrap());
    let mut goal = vec![0; region.elements() as usize * 4];
    pool.read(&plan, &shared, &mut goal).unwrap();
}

#[test]
fn dropping_a_pool_ends_its_plans() {
    let (folder, manifest, _) = file();
    let (plan, _) = plan(&manifest);
    let (files, gate) = gated(&folder);
    let shared: Arc<dyn PlanFiles> = files.clone();
    let pool = pool(1, 2);
    let (sender, events) = mpsc::channel();
    let begin = |pool: &ReadPool| {
        let sender = sender.clone();
        pool.begin(&plan, &shared, move |event| sender.send(event).unwrap()).unwrap()
    };
    let readings = [begin(&pool), begin(&pool)];
    while files.opened.load(Ordering::Relaxed) < 1 {
        std::thread::yield_now();
    }
    let is_cancelled = |event| matches!(event, ReadEvent::Ended(Err(ReadFailure::Cancelled)));
    std::thread::scope(|scope| {
        scope.spawn(|| drop(pool));
        // The second plan ends at once, and the first one with the part that has begun.
        assert!(is_cancelled(events.recv().unwrap()));
        gate.send(()).unwrap();
        assert!(matches!(events.recv().unwrap(), ReadEvent::Part(_)));
        assert!(is_cancelled(events.recv().unwrap()));
    });
    drop(readings);
    assert_eq!(files.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn the_first_error_ends_a_plan() {
    let (folder, manifest, _) = file();
    let (plan, _) = plan(&manifest);
    fs::File::options().write(true).open(folder.path().join("a.bin")).unwrap().set_len(100).unwrap();
    let shared = files(&folder);
    let files: Arc<dyn PlanFiles> = shared.clone();
    let error = pool(1, 1).read(&plan, &files, &mut vec![0; plan.bytes() as usize]).unwrap_err();
    assert!(matches!(error, ReadFailure::Read(ReadError::Short { .. })), "{error}");
    // The wanted elements of six rows are there.
    assert_eq!(shared.opened.load(Ordering::Relaxed), 7);
}

#[test]
fn reads_behind_the_end_take_no_memory() {
    let (folder, ..) = file();
    let manifest = Raw::bytes(1 << 60).index("v", ObjectPath::new("a.bin").unwrap(), 1 << 60).unwrap();
    let whole = Region::whole(&Shape::new([1 << 60]).unwrap());
    let plan = Arc::new(plan_region(manifest.array("v").unwrap(), &whole, &MergeLimits::default()).unwrap());
    let files: Arc<dyn PlanFiles> = files(&folder);
    let (sender, events) = mpsc::channel();
    let pool = pool(1, 1);
    let _reading = pool.begin(&plan, &files, move |event| sender.send(event).unwrap()).unwrap();
    let event = events.recv().unwrap();
    assert!(matches!(event, ReadEvent::Ended(Err(ReadFailure::Read(ReadError::Short { .. })))), "{event:?}");
}

#[test]
fn a_panic_ends_a_plan_and_no_thread() {
    let (folder, manifest, _) = file();
    let (plan, region) = plan(&manifest);
    let files: Arc<dyn PlanFiles> = files(&folder);
    let pool = pool(1, 1);
    let (sender, ends) = mpsc::channel();
    let on_event = move |event| match event {
        ReadEvent::Ended(result) => sender.send(result).unwrap(),
        _ => panic!("the receiver panics, which is part of the test"),
    };
    let reading = pool.begin(&plan, &files, on_event).unwrap();
    assert!(matches!(ends.recv().unwrap(), Err(ReadFailure::Panicked)));
    drop(reading);
    let mut goal = vec![0; region.elements() as usize * 4];
    pool.read(&plan, &files, &mut goal).unwrap();
}
