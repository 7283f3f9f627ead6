//! The binding of memory in use: its policy and its nodes, and rebinding it.

use super::{
    MemoryError, MemoryPolicy, Rebound, Residency,
    range::{Range, Shape},
};
use crate::sys::mapping::Mapping;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handle to the placement of a buffer or a pool, which reads and changes it from any thread,
/// while others write to the bytes.
///
/// The memory stays mapped while the handle lives.
#[derive(Debug, Clone)]
pub struct MemoryBinding {
    mapping: Arc<Mapping>,
    shape: Shape,
    /// Held by one rebinding at a time, so that each can put back the former policy.
    turn: Arc<Mutex<()>>,
}

impl MemoryBinding {
    pub(super) fn new(mapping: &Arc<Mapping>, shape: Shape) -> Self {
        Self { mapping: Arc::clone(mapping), shape, turn: Arc::default() }
    }

    /// The node of each page. The query makes no page, and takes about 0.2 us for each, nearly all
    /// of it the kernel's.
    ///
    /// # Errors
    /// [`MemoryError::Policy`] under a seccomp filter.
    #[doc(alias = "move_pages")]
    pub fn residency(&self) -> Result<Residency, MemoryError> {
        self.range().residency()
    }

    /// The policy of future pages, as the kernel states it.
    ///
    /// # Errors
    /// [`MemoryError::Policy`] for a policy without a name in this crate, or under a seccomp
    /// filter.
    #[doc(alias = "get_mempolicy")]
    pub fn policy(&self) -> Result<MemoryPolicy, MemoryError> {
        self.range().policy()
    }

    /// Gives the memory another policy and moves its pages to the nodes of that policy, while it is
    /// used.
    ///
    /// A thread that writes to a page on its way waits for it and notices nothing else; 512 pages
    /// move at a time.
    /// * `Bind`, `Preferred`, `PreferredMany`: pages that are on none of the nodes go to the first
    ///   that has room.
    /// * `Interleave`, `WeightedInterleave`: each page goes to the node that it would have been
    ///   made on under the policy.
    /// * `Local`: present pages go to the node of the *calling* thread; future pages, to the node
    ///   of the thread that touches them first.
    /// * `Default`: no page moves.
    ///
    /// A strict policy (`Bind`) makes the absent pages, and is only set when every page lies on its
    /// nodes.
    ///
    /// # Privileges
    /// None. A page that another process shares (after a `fork`) does not move.
    ///
    /// # Errors
    /// As [`NumaBuffer::new`](super::NumaBuffer::new) about the policy; [`MemoryError::Exhausted`]
    /// or [`MemoryError::Misplaced`] if the nodes of a strict policy have no room. After an
    /// error the memory has its former policy, and moved pages went back as far as there was
    /// room; new pages remain.
    ///
    /// # References
    /// [mbind(2)](https://man7.org/linux/man-pages/man2/mbind.2.html),
    /// [move_pages(2)](https://man7.org/linux/man-pages/man2/move_pages.2.html)
    #[doc(alias = "mbind")]
    pub fn rebind(&self, policy: &MemoryPolicy) -> Result<Rebound, MemoryError> {
        let _turn = self.turn();
        self.range().rebind(policy)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        // The lock protects no data, so a panic in a rebinding leaves nothing inconsistent.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn range(&self) -> Range<'_> {
        Range { mapping: &self.mapping, shape: self.shape }
    }
}
