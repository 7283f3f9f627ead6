//! A buffer from the pool against the heap, and the residency and placement of pages against
//! libnuma.
//!
//! Run: `cargo bench --bench memory`
//!
//! libnuma is loaded when it is there (`apt-get install libnuma1`). `numa_move_pages` is the bare
//! system call about addresses that were written down beforehand; `residency` also makes the
//! addresses and counts the answer. `numa_alloc_onnode` maps and binds, and reads nothing back; a
//! `NumaBuffer` is bound, allocated, touched and read back, so the bench touches the rival's pages
//! as well.
//!
//! Targets: a buffer from the pool within 50 ns, the residency of 1 GiB of small pages within 50
//! ms.
//!
//! Measured on 2 CPUs of an AMD EPYC in a virtual machine, Linux 6.18, with nothing else to do,
//! medians: residency takes 0.55 of `numa_move_pages`, 26 ms against 48: both are one walk of the
//! kernel from page to page, which two threads share here (on one CPU the two are alike). The pool
//! takes 10 ns, 0.1 to 0.75 of malloc's time. Buffers on a node: 0.9 to 1.0 of `numa_alloc_onnode`.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rails::{
    bind::memory::{BufferOptions, BufferPool, MemoryPolicy, NumaBuffer, node_of_page},
    topo::{NodeId, NodeSet},
};
use std::{hint::black_box, time::Duration};

fn pool(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("take and give back");
    for bytes in [4 << 10, 64 << 10, 512 << 10] {
        let pool = BufferPool::new(bytes, 64, &BufferOptions::new()).expect("there is room");
        group.bench_function(format!("pool/{} KiB", bytes >> 10), |bencher| {
            bencher.iter(|| drop(black_box(pool.take().expect("none is out"))));
        });
        group.bench_function(format!("malloc/{} KiB", bytes >> 10), |bencher| {
            bencher.iter(|| drop(black_box(Vec::<u8>::with_capacity(bytes))));
        });
        // The reader of a socket needs memory whose pages exist.
        group.bench_function(format!("pool, a byte written to each page/{} KiB", bytes >> 10), |bencher| {
            bencher.iter(|| touch(&mut pool.take().expect("none is out")));
        });
        group.bench_function(format!("malloc, a byte written to each page/{} KiB", bytes >> 10), |bencher| {
            bencher.iter(|| touch(&mut vec![0; bytes]));
        });
    }
    group.finish();
}

fn residency(criterion: &mut Criterion) {
    let buffer = NumaBuffer::new(1 << 30, &BufferOptions::new().prefault(true)).expect("there is a gigabyte");
    let mut group = criterion.benchmark_group("residency of 1 GiB");
    group.sample_size(20).measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(1 << 18));
    group.bench_function("residency", |bencher| bencher.iter(|| buffer.residency().expect("it can be asked")));
    if let Some(numa) = numa() {
        let pages: Vec<*const u8> = buffer.chunks(4096).map(<[u8]>::as_ptr).collect();
        let mut states = vec![0; pages.len()];
        group.bench_function("numa_move_pages", |bencher| bencher.iter(|| numa.status(&pages, &mut states)));
        let ours = buffer.residency().expect("it can be asked");
        let on_first = states.iter().filter(|state| **state == states[0]).count() as u64;
        assert_eq!(ours.pages_on(NodeId(states[0].cast_unsigned())), on_first, "both say the same");
    }
    group.finish();
}

fn lay(criterion: &mut Criterion) {
    const BYTES: usize = 4 << 20;
    let node = node_of_page(&[1]).expect("the kernel says where a page lies");
    let strict = BufferOptions::new().policy(MemoryPolicy::Bind(NodeSet::single(node)));
    let preferred = BufferOptions::new().policy(MemoryPolicy::Preferred(node));
    let mut group = criterion.benchmark_group("4 MiB on a node");
    group.bench_function("NumaBuffer, strict: made, looked at, read back", |bencher| {
        bencher.iter(|| NumaBuffer::new(BYTES, &strict).expect("there is room"));
    });
    group.bench_function("NumaBuffer, preferred: made, read back", |bencher| {
        bencher.iter(|| NumaBuffer::new(BYTES, &preferred.clone().prefault(true)).expect("there is room"));
    });
    group.bench_function("NumaBuffer, preferred: policy alone", |bencher| {
        bencher.iter(|| NumaBuffer::new(BYTES, &preferred).expect("there is room"));
    });
    if let Some(numa) = numa() {
        group.bench_function("numa_alloc_onnode, touched", |bencher| {
            bencher.iter(|| touch(numa.alloc_onnode(BYTES, node.0).bytes()));
        });
        group.bench_function("numa_alloc_onnode: policy alone", |bencher| {
            bencher.iter(|| numa.alloc_onnode(BYTES, node.0));
        });
    }
    group.bench_function("rebind 4 MiB that are there already", |bencher| {
        let bind = MemoryPolicy::Bind(NodeSet::single(node));
        let make = || NumaBuffer::new(BYTES, &strict).expect("there is room");
        bencher.iter_batched_ref(
            make,
            |buffer| buffer.rebind(&bind).expect("there is room").moved,
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn touch(bytes: &mut [u8]) {
    bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    black_box(bytes);
}

/// The rival, or a message that it is missing.
fn numa() -> Option<sys::Numa> {
    let numa = sys::Numa::load();
    if let Err(error) = &numa {
        eprintln!("\n!!! libnuma is not compared with: {error} !!!\n");
    }
    numa.ok()
}

/// The three calls of libnuma that are compared with.
mod sys {
    #![allow(unsafe_code)]

    use libloading::Library;
    use std::{
        ffi::{c_int, c_ulong, c_void},
        ptr, slice,
    };

    type MovePages = unsafe extern "C" fn(c_int, c_ulong, *const *const u8, *const c_int, *mut c_int, c_int) -> c_int;
    type AllocOnNode = unsafe extern "C" fn(usize, c_int) -> *mut c_void;
    type Free = unsafe extern "C" fn(*mut c_void, usize);

    pub(super) struct Numa {
        move_pages: MovePages,
        alloc_onnode: AllocOnNode,
        free: Free,
        /// Keeps the memory that the pointers point into.
        _library: Library,
    }

    /// Memory of `numa_alloc_onnode`, until it goes to `numa_free`.
    pub(super) struct Allocated<'a> {
        numa: &'a Numa,
        start: *mut u8,
        bytes: usize,
    }

    impl Numa {
        pub(super) fn load() -> Result<Self, libloading::Error> {
            // SAFETY: libnuma's initializer reads the machine's nodes and does nothing else (libnuma.c,
            // `numa_init`), and the types are those of its numa.h (version 2).
            unsafe {
                let library = Library::new("libnuma.so.1")?;
                Ok(Self {
                    move_pages: *library.get(b"numa_move_pages\0")?,
                    alloc_onnode: *library.get(b"numa_alloc_onnode\0")?,
                    free: *library.get(b"numa_free\0")?,
                    _library: library,
                })
            }
        }

        pub(super) fn status(&self, pages: &[*const u8], states: &mut [c_int]) {
            assert_eq!(pages.len(), states.len());
            // SAFETY: two arrays of that many elements, the second exclusively borrowed; without nodes nothing
            // moves.
            let result = unsafe {
                (self.move_pages)(0, pages.len() as c_ulong, pages.as_ptr(), ptr::null(), states.as_mut_ptr(), 0)
            };
            assert_eq!(result, 0);
        }

        pub(super) fn alloc_onnode(&self, bytes: usize, node: u32) -> Allocated<'_> {
            // SAFETY: any size and node may be asked for.
            let start = unsafe { (self.alloc_onnode)(bytes, node.cast_signed()) };
            assert!(!start.is_null());
            Allocated { numa: self, start: start.cast(), bytes }
        }
    }

    impl Allocated<'_> {
        pub(super) fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: `numa_alloc_onnode` gave that many zeroed bytes, and `self` alone has them.
            unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
        }
    }

    impl Drop for Allocated<'_> {
        fn drop(&mut self) {
            // SAFETY: the address and the size that `numa_alloc_onnode` was called with.
            unsafe { (self.numa.free)(self.start.cast(), self.bytes) };
        }
    }
}

criterion_group!(benches, pool, residency, lay);
criterion_main!(benches);
