//! The memory of slots.

use super::NodeSize;
use crate::aside::begin_aside;
use rails_bind::memory::{BufferOptions, BufferPool, MemoryError, PooledBuffer};
use smallvec::SmallVec;
use std::{
    num::NonZeroU64,
    sync::{Arc, OnceLock},
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// The buffers of a node: one for each slot, and a few for blocks that are about to get slots.
///
/// A block is written into buffers of its own first, and they take the places of its slots' past
/// buffers at once. So nobody reads a block that is half there, and nobody holds a lock while bytes
/// are copied.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    pool: Arc<Pool>,
    slot_bytes: NonZeroU64,
    landings: Semaphore,
}

/// Memory that is made, or being made.
#[derive(Debug, Default)]
struct Pool {
    made: OnceLock<Result<BufferPool, Arc<MemoryError>>>,
    is_made: Notify,
}

/// The right to [write](SlotMemory::write) one block.
pub(crate) struct Landing<'a> {
    pool: &'a BufferPool,
    _permit: SemaphorePermit<'a>,
}

/// The bytes of a block, in slots.
#[derive(Debug, Clone)]
pub(crate) struct BlockBytes {
    pub(crate) slots: SmallVec<[Slot; 4]>,
    /// The CRC-32C of the bytes.
    pub(crate) crc: u32,
}

/// The buffer of a slot. It goes back to the pool when nobody reads it any more.
#[derive(Debug, Clone)]
pub(crate) struct Slot(Arc<PooledBuffer>);

impl SlotMemory {
    /// The memory of a node of that size.
    pub(crate) fn new(size: NodeSize) -> Result<Self, MemoryError> {
        let memory = Self::unmade(size);
        memory.pool.made.set(Ok(make(size)?)).expect("nobody else makes it");
        Ok(memory)
    }

    /// The memory of a node of that size, which another thread makes meanwhile: its pages take
    /// longer than a round trip.
    pub(crate) fn made_meanwhile(size: NodeSize) -> Self {
        let memory = Self::unmade(size);
        let pool = Arc::clone(&memory.pool);
        begin_aside(move || {
            pool.made.set(make(size).map_err(Arc::new)).expect("nobody else makes it");
            pool.is_made.notify_waiters();
        });
        memory
    }

    fn unmade(size: NodeSize) -> Self {
        let slot_bytes = NonZeroU64::new(u64::from(size.slot_bytes)).expect("a slot has bytes");
        Self { pool: Arc::default(), slot_bytes, landings: Semaphore::new(LANDINGS) }
    }

    pub(crate) fn slot_bytes(&self) -> NonZeroU64 {
        self.slot_bytes
    }

    /// Waits for the right to write one block.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) async fn landing(&self) -> Result<Landing<'_>, Arc<MemoryError>> {
        let permit = self.landings.acquire().await.expect("the landings are never closed");
        loop {
            let is_made = self.pool.is_made.notified();
            match self.pool.made.get() {
                Some(Ok(pool)) => return Ok(Landing { pool, _permit: permit }),
                Some(Err(error)) => return Err(Arc::clone(error)),
                None => is_made.await,
            }
        }
    }

    /// Writes a block into buffers that are no slots' yet.
    ///
    /// # Panics
    /// If the block is larger than a block may be, so that the buffers do not suffice.
    pub(crate) fn write(&self, landing: &Landing<'_>, block: &[u8], crc: u32) -> BlockBytes {
        let slots = block.chunks(self.slot_bytes.get() as usize).map(|part| {
            let mut buffer = landing.pool.take().expect("there are buffers for every slot and every landing");
            buffer[..part.len()].copy_from_slice(part);
            Slot(Arc::new(buffer))
        });
        BlockBytes { slots: slots.collect(), crc }
    }
}

fn make(size: NodeSize) -> Result<BufferPool, MemoryError> {
    let count = size.slots as usize + LANDINGS * size.max_block_slots as usize;
    BufferPool::new(size.slot_bytes as usize, count, &BufferOptions::new())
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The buffers of every slot, by number.
#[derive(Debug)]
pub(super) struct SlotTable {
    slots: Vec<Option<Slot>>,
    /// The checksum of the block whose first slot it is.
    crcs: Vec<u32>,
}

impl SlotTable {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots: vec![None; slots as usize], crcs: vec![0; slots as usize] }
    }

    /// Gives a block's bytes to its slots.
    pub(super) fn install(&mut self, numbers: impl Iterator<Item = u32>, bytes: BlockBytes) {
        let mut numbers = numbers.peekable();
        if let Some(first) = numbers.peek() {
            self.crcs[*first as usize] = bytes.crc;
        }
        for (number, slot) in numbers.zip(bytes.slots) {
            self.slots[number as usize] = Some(slot);
        }
    }

    /// The bytes of the block in these slots.
    ///
    /// # Panics
    /// If no block was installed there.
    pub(super) fn bytes(&self, numbers: impl Iterator<Item = u32>) -> BlockBytes {
        let mut numbers = numbers.peekable();
        let crc = numbers.peek().map_or(0, |first| self.crcs[*first as usize]);
        let slot = |number: u32| self.slots[number as usize].clone().expect("a block that is there has bytes");
        BlockBytes { slots: numbers.map(slot).collect(), crc }
    }
}

/// The blocks that are written at the same time at most.
const LANDINGS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn past_bytes_go_back_when_they_are_replaced() {
        let size = NodeSize { slots: 2, slot_bytes: 4096, max_block_slots: 2 };
        let memory = SlotMemory::made_meanwhile(size);
        let mut table = SlotTable::new(2);
        let free = memory.landing().await.unwrap().pool.available();
        for round in 0..20_u8 {
            let landing = memory.landing().await.unwrap();
            let block = vec![round; 5000];
            table.install([1, 0].into_iter(), memory.write(&landing, &block, u32::from(round)));
            let there = table.bytes([1, 0].into_iter());
            assert_eq!((there.slots[1].as_ref()[0], there.crc), (round, u32::from(round)));
            assert_eq!(there.slots.iter().map(|slot| slot.as_ref().len()).sum::<usize>(), 8192);
            drop(there);
            assert_eq!(landing.pool.available(), free - 2);
        }
    }
}
