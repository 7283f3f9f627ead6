//! Buffers that are used again: for chunks, each kept on the node that it lies on, and for large messages.

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
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// What a stream's buffers are taken from, and come back to when the application has let go of what was in them.
///
/// # Where they lie
/// A rail's thread that makes a buffer for a chunk is the first to write to it, so its pages come from the node of the rail's memory policy; and it comes back for
/// rails of that node, whoever drops it. (Rails of one node share what is kept: lanes are busy in turn, and each would drive out what the other has just
/// given back.) Those of 128 KiB and more are mapped for themselves, so that their pages are new ones; smaller ones are from the heap, and lie where that
/// has its pages: on the rail's node too, but for those that a thread which has ended had before.
/// Where the node has no free page, the kernel takes one of another: a preferring policy drops no file from memory for it.
///
/// # How much memory that is
/// What is kept for later fits into the part of the window that nothing takes up ([`Connection::memory_held`](rails_proto::connection::Connection::memory_held)), so that both together are a
/// window. A buffer is longer than its chunk by less than 1/64, or a page where it is mapped: lengths are rounded up to one of 64 steps in each doubling. A
/// kept one that is longer is taken too, as long as all that is wasted in this way is less than 1/64 of the window. What nobody has used
/// [for 5 to 10 seconds](IDLE) is given back.
#[derive(Debug)]
pub(crate) struct Pool {
    window: u64,
    /// How much of the window is taken up, by data.
    held: AtomicU64,
    /// How many bytes are kept, to be seen without the lock.
    seen: AtomicU64,
    state: Mutex<State>,
    /// Told that something is kept where nothing was.
    pub(crate) keeps: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What is kept, by whose it is.
    shelves: BTreeMap<Owner, Shelf>,
    /// How many bytes that is.
    kept: u64,
    /// By how much buffers that are out are longer than a new one would have been.
    wasted: u64,
    /// How often idle buffers have been looked for.
    round: u64,
}

/// Whom a buffer comes back to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// The rails whose threads' pages come from that node; `None` where that is not known.
    Node(Option<NodeId>),
    /// All rails, as the buffer of a message of which each receives a part.
    All,
    /// The same, laid page by page round the nodes.
    Round(Vec<u32>),
}

/// The memory of a buffer.
#[derive(Debug)]
enum Memory {
    Heap(Box<[u8]>),
    Mapped(NumaBuffer),
}

/// A buffer for one chunk. It goes back to its pool when it, or the last [`Bytes`] made of it, is dropped.
pub(crate) struct ChunkBuffer {
    /// Nothing once it has gone back.
    memory: Option<Memory>,
    length: usize,
    home: Option<Home>,
}

/// The way back. A stream that has ended takes its pool with it, whatever the application still holds.
#[derive(Debug)]
struct Home {
    pool: Weak<Pool>,
    owner: Owner,
    /// By how much the buffer is longer than a new one would have been.
    waste: u64,
}

impl Pool {
    /// An empty one for a stream with that window.
    pub(crate) fn new(window: u64) -> Arc<Self> {
        Arc::new(Self {
            window,
            held: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            state: Mutex::default(),
            keeps: Notify::new(),
        })
    }

    /// A buffer of `length` bytes for a lane whose thread, on which this is called, has its pages from `node`; its content is whatever was there before.
    pub(crate) fn chunk(self: &Arc<Self>, node: Option<NodeId>, length: usize) -> ChunkBuffer {
        // What is tiny is copied together with its neighbours, or read at once: it is not worth a way back.
        if length < SMALLEST {
            return ChunkBuffer { memory: Some(Memory::Heap(vec![0; length].into())), length, home: None };
        }
        let (memory, home) = self.take(Owner::Node(node), length, || new(length, &MemoryPolicy::Default));
        ChunkBuffer { memory: Some(memory), length, home: Some(home) }
    }

    /// A buffer for a message of `length` bytes. A large one is laid page by page round these nodes, if there are any.
    pub(crate) fn message(self: &Arc<Self>, length: usize, round: Option<&NodeSet>) -> MessageBuffer {
        if length < MAPPED {
            return MessageBuffer::zeroed(length);
        }
        let round = round.filter(|_| length >= LEAST_INTERLEAVED);
        let owner = round.map_or(Owner::All, |nodes| Owner::Round(nodes.iter().map(|node| node.0).collect()));
        let policy = round.map_or(MemoryPolicy::Default, |nodes| MemoryPolicy::Interleave(nodes.clone()));
        match self.take(owner, length, || new(length, &policy)) {
            (Memory::Mapped(memory), home) => MessageBuffer::placed(Placed::new(memory.into_part(), length, home)),
            (Memory::Heap(_), _) => MessageBuffer::zeroed(length),
        }
    }

    /// Notes how much of the window is taken up.
    pub(crate) fn note_held(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
    }

    /// Gives back what does not fit beside what is held.
    pub(crate) fn make_room(&self) {
        // Every lane asks after every chunk, and mostly there is room.
        if self.bytes_kept() <= self.room() {
            return;
        }
        let mut state = self.lock();
        let gone = state.shrink_to(self.room());
        self.unlock(state);
        drop(gone);
    }

    /// Gives back what nobody has used since the last call but one; `false` where nothing is kept any more.
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

    /// How many bytes are kept for later.
    pub(crate) fn bytes_kept(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// One that is kept, or a new one.
    fn take(self: &Arc<Self>, owner: Owner, length: usize, new: impl FnOnce() -> Memory) -> (Memory, Home) {
        let fit = rounded(length);
        let mut state = self.lock();
        let spare = (self.window / MOST_WASTE).saturating_sub(state.wasted);
        let longest = fit + (spare as usize).min(length / 2);
        let found = state.shelves.get_mut(&owner).and_then(|shelf| shelf.take(Fit { least: length, most: longest }));
        let Some(memory) = found else {
            // What is kept makes way for a new one.
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

    /// How much may be kept now.
    fn room(&self) -> u64 {
        self.window.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlock(&self, state: MutexGuard<'_, State>) {
        self.seen.store(state.kept, Ordering::Relaxed);
    }
}

impl State {
    /// Takes out what was not used for longest, until no more than `most` bytes are kept. It is to be dropped outside the lock.
    fn shrink_to(&mut self, most: u64) -> Vec<Memory> {
        let mut gone = Vec::new();
        while self.kept > most {
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
    /// The bytes, to be shared.
    pub(crate) fn freeze(mut self) -> Bytes {
        match (self.memory.take(), self.home.take()) {
            // Without a way back it needs no owner of its own.
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

impl Drop for ChunkBuffer {
    fn drop(&mut self) {
        if let Some((memory, home)) = self.memory.take().zip(self.home.take())
            && let Some(pool) = home.pool.upgrade()
        {
            pool.put(&home, memory);
        }
    }
}

/// Memory for `length` bytes: mapped, if it is long and the kernel does as it is told, else from the heap.
fn new(length: usize, policy: &MemoryPolicy) -> Memory {
    let bytes = rounded(length);
    if length >= MAPPED {
        match NumaBuffer::new(bytes, &BufferOptions::new().policy(policy.clone())) {
            Ok(buffer) if buffer.outcome().is_applied() => return Memory::Mapped(buffer),
            Ok(buffer) => {
                tracing::warn!(wanted = %policy, got = %buffer.outcome().got(), "a buffer does not lie where it was to");
                return Memory::Mapped(buffer);
            }
            Err(error) => tracing::debug!(%error, bytes, "a buffer could not be mapped; it comes from the heap"),
        }
    }
    Memory::Heap(vec![0; bytes].into())
}

/// The length of a new buffer for so many bytes: one of 64 steps in each doubling, or whole pages.
fn rounded(length: usize) -> usize {
    let step = (1 << length.max(SMALLEST).ilog2()) / STEPS;
    length.next_multiple_of(if length < MAPPED { step } else { step.max(PAGE) })
}

/// When buffers that nobody has used are given back: at the second look, so that one is kept between once and twice as long.
pub(crate) const IDLE: std::time::Duration = std::time::Duration::from_secs(5);
/// Shorter buffers are not kept: the allocator hands them out as fast.
const SMALLEST: usize = 4 << 10;
/// Buffers from here on are mapped for themselves. A new one costs about as much as filling it; a page is less than 1/32 of it.
const MAPPED: usize = 128 << 10;
/// From here on a message's buffer is laid round the nodes. What is shorter is soon through, by one or two lanes.
const LEAST_INTERLEAVED: usize = 1 << 20;
/// Lengths in each doubling.
const STEPS: usize = 64;
/// The part of the window that may be wasted by taking buffers that are too long.
const MOST_WASTE: u64 = 64;
/// What a mapping is a multiple of, on most machines.
const PAGE: usize = 4 << 10;
