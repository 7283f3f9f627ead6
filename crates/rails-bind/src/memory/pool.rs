//! Pools: buffers of one size, from memory that is ready beforehand.

use super::{
    BufferOptions, MemoryBinding, MemoryError, MemoryPolicy, Rebound, Residency,
    options::check_existing,
    range::{effective, strict_nodes},
};
use crate::{
    Outcome,
    sys::slots::{MAX_SLOTS, Slot, SlotPool},
};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    task::{Context, Poll},
};

/// A fixed number of buffers of one size, taken and given back from any thread, without a system
/// call unless two threads take at the same moment or a task is woken.
///
/// The pool's memory is one range with a policy, every page of it made at the beginning. So taking
/// a buffer never waits for a page, and the pool never takes more memory than it was made with:
/// [`take`](Self::take) does not grow the pool, which would be a system call and unbounded, and
/// does not wait for a buffer, because the caller chooses how to do without one:
/// [`poll_take`](Self::poll_take), the heap, or to stop reading from the network, which suits a
/// full pool.
///
/// **A buffer has the bytes of its last owner**, to its full length. Overwrite it, or hand out only
/// the part that was written; where a rest could reach a reader who may not see it, take the buffer
/// by [`take_zeroed`](Self::take_zeroed). Zeroing a buffer of 64 KiB takes 2 to 15 us, taking one
/// about 10 ns.
///
/// Clones are handles to the same pool. The memory is given back when all handles and buffers are
/// gone.
///
/// # Examples
/// ```
/// use rails_bind::memory::{BufferOptions, BufferPool, MemoryPolicy};
///
/// let pool = BufferPool::new(64 << 10, 16, &BufferOptions::new().policy(MemoryPolicy::Local))?;
/// let mut buffer = pool.take().ok_or("all buffers are out")?;
/// buffer[..5].copy_from_slice(b"hello");
/// let bytes = bytes::Bytes::from_owner(buffer).slice(..5);
/// assert_eq!((&bytes[..], pool.available()), (&b"hello"[..], 15));
/// drop(bytes);
/// assert_eq!(pool.available(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BufferPool {
    slots: Arc<SlotPool>,
    binding: MemoryBinding,
    outcome: Outcome<MemoryPolicy>,
}

/// A buffer of a pool, and the only way to its bytes. Dropping it, on any thread, gives it back,
/// and wakes the task that waits for one.
///
/// **A buffer has the bytes of its last owner**, unless it was taken by
/// [`BufferPool::take_zeroed`]. `Bytes::from_owner` makes it a `Bytes` without a copy.
pub struct PooledBuffer {
    slot: Slot,
}

impl BufferPool {
    /// Makes `count` buffers of `buffer_bytes` each with these options, all pages at once.
    ///
    /// Each buffer begins at a multiple of 64 bytes, a cache line of most machines, so that no two
    /// share one; where `buffer_bytes` is a multiple of the page size, each begins with a page.
    ///
    /// # Privileges
    /// As [`NumaBuffer::new`](super::NumaBuffer::new).
    ///
    /// # Errors
    /// [`MemoryError::Zero`] for no buffers or empty ones; [`MemoryError::BeyondMemory`] if all of
    /// them together exceed the machine's memory; [`MemoryError::TooManyBuffers`] beyond 2^32 - 3;
    /// otherwise as [`NumaBuffer::new`](super::NumaBuffer::new).
    pub fn new(buffer_bytes: usize, count: usize, options: &BufferOptions) -> Result<Self, MemoryError> {
        for (number, what) in [(buffer_bytes, "the size of a buffer"), (count, "the number of buffers")] {
            if number == 0 {
                return Err(MemoryError::Zero { what });
            }
        }
        // A product of two `usize` cannot exceed `u128`, and is within `usize` if there is as much memory.
        let stride = (buffer_bytes as u128).next_multiple_of(CACHE_LINE);
        let bytes = stride * count as u128;
        let strict = MemoryPolicy::from_raw(&effective(options.wanted())?).as_ref().and_then(strict_nodes);
        check_existing(bytes, strict.as_ref())?;
        let too_many = || MemoryError::BeyondMemory { bytes, existing: usize::MAX as u64, nodes: strict.clone() };
        let total = usize::try_from(bytes).map_err(|_| too_many())?;
        if count > MAX_SLOTS {
            return Err(MemoryError::TooManyBuffers { count, max: MAX_SLOTS });
        }
        let allocation = options.clone().prefault(true).allocate(total)?;
        let stride = total / count;
        let slots = Arc::new(SlotPool::new(allocation.mapping, count, stride, buffer_bytes));
        let binding = MemoryBinding::new(slots.mapping(), allocation.shape);
        Ok(Self { slots, binding, outcome: allocation.outcome })
    }

    /// A free buffer, with the bytes of its last owner; `None` while all are out.
    pub fn take(&self) -> Option<PooledBuffer> {
        self.slots.take().map(|slot| PooledBuffer { slot })
    }

    /// A free buffer, filled with zeros; `None` while all are out.
    pub fn take_zeroed(&self) -> Option<PooledBuffer> {
        let mut buffer = self.take()?;
        buffer.fill(0);
        Some(buffer)
    }

    /// A free buffer, with the bytes of its last owner; while all are out, the task is woken when
    /// one is returned. One task at a time waits for a pool: if several do, only the one that
    /// called last is woken. The pool keeps its waker until then.
    ///
    /// # Examples
    /// ```
    /// # use rails_bind::memory::{BufferOptions, BufferPool};
    /// # async fn fill(pool: &BufferPool) {
    /// let mut buffer = std::future::poll_fn(|context| pool.poll_take(context)).await;
    /// buffer.fill(1);
    /// # }
    /// ```
    pub fn poll_take(&self, context: &mut Context<'_>) -> Poll<PooledBuffer> {
        self.slots.poll_take(context.waker()).map_or(Poll::Pending, |slot| Poll::Ready(PooledBuffer { slot }))
    }

    /// The number of free buffers at this moment; a few more or less while threads take and return
    /// some.
    pub fn available(&self) -> usize {
        self.slots.available()
    }

    /// The number of all buffers.
    pub fn capacity(&self) -> usize {
        self.slots.count()
    }

    /// The size of each buffer, in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.slots.slot_bytes()
    }

    /// The policy that the pool was made with, as read back then: [`Outcome::Partial`] where the
    /// kernel dropped nodes.
    pub fn outcome(&self) -> &Outcome<MemoryPolicy> {
        &self.outcome
    }

    /// A handle that reads the nodes of the pool's memory and moves it.
    pub fn binding(&self) -> MemoryBinding {
        self.binding.clone()
    }

    /// As [`MemoryBinding::residency`], for all buffers, whether they are out or not.
    ///
    /// # Errors
    /// As there.
    pub fn residency(&self) -> Result<Residency, MemoryError> {
        self.binding.residency()
    }

    /// As [`MemoryBinding::policy`].
    ///
    /// # Errors
    /// As there.
    pub fn policy(&self) -> Result<MemoryPolicy, MemoryError> {
        self.binding.policy()
    }

    /// As [`MemoryBinding::rebind`], for all buffers, also while they are out and written to.
    ///
    /// # Errors
    /// As there.
    pub fn rebind(&self, policy: &MemoryPolicy) -> Result<Rebound, MemoryError> {
        self.binding.rebind(policy)
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.slot
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.slot
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for PooledBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("buffer_bytes", &self.buffer_bytes())
            .field("capacity", &self.capacity())
            .field("available", &self.available())
            .field("outcome", &self.outcome)
            .finish()
    }
}

impl fmt::Debug for PooledBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledBuffer").field("start", &self.as_ptr()).field("length", &self.len()).finish()
    }
}

/// The unit of memory that slows processors down if two of them write to it.
const CACHE_LINE: u128 = 64;
