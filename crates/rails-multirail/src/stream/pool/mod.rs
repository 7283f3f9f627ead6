//! A pool of buffers for chunks, kept by the node of their memory, and for large messages.

mod placed;
mod shelf;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use placed::Placed;
use rails_bind::memory::{BufferOptions, MemoryPolicy, NumaBuffer};
use rails_proto::messages::MessageBuffer;
use rails_topo::{NodeId, NodeSet};
use shelf::{Fit, Shelf};
use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// The pool of a stream's buffers. A buffer comes back to it when the application has dropped the
/// buffer's content.
///
/// # The node of a buffer
/// The rail's thread that allocates a chunk's buffer is the first to write to it, so its pages come
/// from the node of the rail's memory policy. A buffer comes back for the rails of that node, from
/// any thread that drops it. (Rails of one node share the kept buffers: lanes are busy in turn, and
/// with separate lists each lane would evict the buffers that another has just given back.) A
/// buffer of 128 KiB or more has its own mapping, so that its pages are new ones. Smaller buffers
/// come from the heap, and lie on the rail's node too, unless the allocator reuses pages of a
/// thread that has ended. If the node has no free page, the kernel takes one of another node: a
/// preferring policy evicts no page cache.
///
/// # The size of the pool
/// Kept buffers fit into the unused part of the window
/// ([`Session::memory_held`](rails_proto::session::Session::memory_held) gives the used
/// part), so that both together are at most a window. A buffer is longer than its chunk by less
/// than 1/64, or by a page if it is mapped: lengths are rounded up to one of 64 steps in each
/// doubling. The pool also hands out a longer kept buffer while the bytes wasted in this way are
/// less than 1/64 of the window. It frees a buffer that was not used [for 5 to 10 seconds](IDLE).
#[derive(Debug)]
pub(crate) struct Pool {
    window: u64,
    /// Bytes of the window that hold data.
    held: AtomicU64,
    /// A copy of `PoolState::kept` that is read without the lock.
    seen: AtomicU64,
    state: Mutex<PoolState>,
    /// Notified when the first buffer comes into an empty pool.
    pub(crate) keeps: Notify,
}

#[derive(Debug, Default)]
struct PoolState {
    /// The kept buffers, by owner.
    shelves: BTreeMap<Owner, Shelf>,
    /// The bytes of all kept buffers.
    kept: u64,
    /// The sum of `Home::waste` over the buffers in use.
    wasted: u64,
    /// How often [`Pool::give_back_idle`] has run.
    round: u64,
}

/// The rails that use a buffer again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// The rails whose threads' pages come from that node; `None` if it is unknown.
    Node(Option<NodeId>),
    /// All rails: each receives a part of a message.
    All,
    /// All rails, with the pages interleaved over these nodes.
    Interleaved(Vec<u32>),
}

/// The memory of a buffer.
#[derive(Debug)]
enum Memory {
    Heap(Box<[u8]>),
    Mapped(NumaBuffer),
}

/// A buffer for one chunk. It returns to its pool when it, or the last [`Bytes`] made of it, is
/// dropped.
pub(crate) struct ChunkBuffer {
    /// `None` after it has returned.
    memory: Option<Memory>,
    length: usize,
    home: Option<Home>,
}

/// A buffer's way back to its pool. The pool goes with its stream, even if the application still
/// holds buffers.
#[derive(Debug)]
struct Home {
    pool: Weak<Pool>,
    owner: Owner,
    /// The bytes by which the buffer is longer than a new one would have been.
    waste: u64,
}

impl Pool {
    /// An empty pool for a stream with that window.
    pub(crate) fn new(window: u64) -> Arc<Self> {
        Arc::new(Self {
            window,
            held: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            state: Mutex::default(),
            keeps: Notify::new(),
        })
    }

    /// A buffer of `length` bytes for a lane on the calling thread, whose pages come from `node`.
    /// The buffer may contain the bytes of its last use.
    pub(crate) fn chunk(self: &Arc<Self>, node: Option<NodeId>, length: usize) -> ChunkBuffer {
        // A tiny chunk is copied together with its neighbours, or read at once: its buffer is not worth
        // keeping.
        if length < SMALLEST {
            return ChunkBuffer { memory: Some(Memory::Heap(vec![0; length].into())), length, home: None };
        }
        let (memory, home) = self.take(Owner::Node(node), length, || new(length, &MemoryPolicy::Default));
        ChunkBuffer { memory: Some(memory), length, home: Some(home) }
    }

    /// A buffer for a message of `length` bytes. The pages of a large one are interleaved over the
    /// nodes in `round`, if given.
    pub(crate) fn message(self: &Arc<Self>, length: usize, round: Option<&NodeSet>) -> MessageBuffer {
        if length < MAPPED {
            return MessageBuffer::zeroed(length);
        }
        let round = round.filter(|_| length >= MIN_INTERLEAVED);
        let owner = round.map_or(Owner::All, |nodes| Owner::Interleaved(nodes.iter().map(|node| node.0).collect()));
        let policy = round.map_or(MemoryPolicy::Default, |nodes| MemoryPolicy::Interleave(nodes.clone()));
        match self.take(owner, length, || new(length, &policy)) {
            (Memory::Mapped(memory), home) => MessageBuffer::placed(Placed::new(memory.into_part(), length, home)),
            (Memory::Heap(_), _) => MessageBuffer::zeroed(length),
        }
    }

    /// Notes how many bytes of the window hold data.
    pub(crate) fn note_held(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
    }

    /// Frees kept buffers until they fit into the unused part of the window.
    pub(crate) fn make_room(&self) {
        // Every lane calls this after every chunk, and mostly there is room.
        if self.bytes_kept() <= self.room() {
            return;
        }
        let mut state = self.lock();
        let gone = state.shrink_to(self.room());
        self.unlock(state);
        drop(gone);
    }

    /// Frees the buffers that were not used since the last call but one; `false` if the pool is
    /// empty now.
    pub(crate) fn give_back_idle(&self) -> bool {
        let mut state = self.lock();
        let round = state.round;
        let gone: Vec<Memory> = state.shelves.values_mut().flat_map(|shelf| shelf.remove_before(round)).collect();
        state.forget(&gone);
        state.round += 1;
        let keeps = state.kept > 0;
        self.unlock(state);
        drop(gone);
        keeps
    }

    /// The bytes of all kept buffers.
    pub(crate) fn bytes_kept(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Takes a kept buffer, or makes a new one.
    fn take(self: &Arc<Self>, owner: Owner, length: usize, new: impl FnOnce() -> Memory) -> (Memory, Home) {
        let fit = rounded(length);
        let mut state = self.lock();
        let spare = (self.window / MAX_WASTE).saturating_sub(state.wasted);
        let longest = fit + (spare as usize).min(length / 2);
        let found = state.shelves.get_mut(&owner).and_then(|shelf| shelf.take(Fit { min: length, max: longest }));
        let Some(memory) = found else {
            // Kept buffers make room for a new one.
            let room = self.room().saturating_sub(fit as u64);
            let gone = state.shrink_to(room);
            self.unlock(state);
            drop(gone);
            return (new(), Home { pool: Arc::downgrade(self), owner, waste: 0 });
        };
        let bytes = memory.bytes();
        let waste = bytes.saturating_sub(fit) as u64;
        state.kept -= bytes as u64;
        state.wasted += waste;
        self.unlock(state);
        (memory, Home { pool: Arc::downgrade(self), owner, waste })
    }

    fn put(&self, home: &Home, memory: Memory) {
        let mut state = self.lock();
        state.wasted -= home.waste;
        let bytes = memory.bytes() as u64;
        if state.kept + bytes > self.room() {
            drop(state);
            drop(memory);
            return;
        }
        let was_empty = state.kept == 0;
        state.kept += bytes;
        let round = state.round;
        state.shelves.entry(home.owner.clone()).or_default().put(memory, round);
        self.unlock(state);
        if was_empty {
            self.keeps.notify_one();
        }
    }

    /// The most bytes that may be kept now.
    fn room(&self) -> u64 {
        self.window.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlock(&self, state: MutexGuard<'_, PoolState>) {
        self.seen.store(state.kept, Ordering::Relaxed);
    }
}

impl PoolState {
    /// Takes out the least recently used buffers until at most `max` bytes are kept. The caller
    /// drops them outside the lock.
    fn shrink_to(&mut self, max: u64) -> Vec<Memory> {
        let mut gone = Vec::new();
        while self.kept > max {
            let oldest = self.shelves.values_mut().filter(|shelf| !shelf.is_empty()).min_by_key(|shelf| shelf.oldest());
            let Some(memory) = oldest.and_then(Shelf::remove_oldest) else { break };
            self.kept -= memory.bytes() as u64;
            gone.push(memory);
        }
        gone
    }

    fn forget(&mut self, gone: &[Memory]) {
        self.kept -= gone.iter().map(|memory| memory.bytes() as u64).sum::<u64>();
    }
}

impl Memory {
    fn bytes(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Mapped(buffer) => buffer.capacity(),
        }
    }
}

impl ChunkBuffer {
    /// Turns the buffer into shared bytes.
    pub(crate) fn freeze(mut self) -> Bytes {
        match (self.memory.take(), self.home.take()) {
            // A buffer that does not return to the pool needs no owner.
            (Some(Memory::Heap(bytes)), None) => Bytes::from(bytes),
            (memory, home) => Bytes::from_owner(Self { memory, length: self.length, home }),
        }
    }
}

impl Deref for ChunkBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Some(Memory::Heap(bytes)) => &bytes[..self.length],
            Some(Memory::Mapped(buffer)) => &buffer[..self.length],
            None => &[],
        }
    }
}

impl DerefMut for ChunkBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Some(Memory::Heap(bytes)) => &mut bytes[..self.length],
            Some(Memory::Mapped(buffer)) => &mut buffer[..self.length],
            None => &mut [],
        }
    }
}

impl AsRef<[u8]> for ChunkBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ChunkBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Drop for ChunkBuffer {
    fn drop(&mut self) {
        if let Some((memory, home)) = self.memory.take().zip(self.home.take())
            && let Some(pool) = home.pool.upgrade()
        {
            pool.put(&home, memory);
        }
    }
}

/// Memory for `length` bytes: a mapping if it is long and the kernel grants one, otherwise from the
/// heap.
fn new(length: usize, policy: &MemoryPolicy) -> Memory {
    let bytes = rounded(length);
    if length >= MAPPED {
        match NumaBuffer::new(bytes, &BufferOptions::new().policy(policy.clone())) {
            Ok(buffer) if buffer.outcome().is_applied() => return Memory::Mapped(buffer),
            Ok(buffer) => {
                tracing::warn!(wanted = %policy, got = %buffer.outcome().got(), "the kernel did not apply the memory policy of a buffer");
                return Memory::Mapped(buffer);
            }
            Err(error) => tracing::debug!(%error, bytes, "a buffer could not be mapped; it comes from the heap"),
        }
    }
    Memory::Heap(vec![0; bytes].into())
}

/// The length of a new buffer for `length` bytes: one of 64 steps in each doubling, or whole pages.
fn rounded(length: usize) -> usize {
    let step = (1 << length.max(SMALLEST).ilog2()) / STEPS;
    length.next_multiple_of(if length < MAPPED { step } else { step.max(PAGE) })
}

/// The interval of checks for unused buffers. The second check frees a buffer, so it is kept
/// between one and two intervals.
pub(crate) const IDLE: std::time::Duration = std::time::Duration::from_secs(5);
/// The pool keeps no shorter buffers: the allocator is as fast.
const SMALLEST: usize = 4 << 10;
/// A buffer of this length or more has its own mapping. Mapping a new one costs about as much as
/// filling it; a page is at most 1/32 of it.
const MAPPED: usize = 128 << 10;
/// Only message buffers of this length or more are interleaved. One or two lanes soon receive a
/// shorter message.
const MIN_INTERLEAVED: usize = 1 << 20;
/// The number of lengths in each doubling.
const STEPS: usize = 64;
/// Buffers in use that are too long may waste at most the window divided by this.
const MAX_WASTE: u64 = 64;
/// The page size of most machines, in bytes.
const PAGE: usize = 4 << 10;
