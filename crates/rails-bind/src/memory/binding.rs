//! Where memory that is in use lies, and moving it.

use super::{
    MemoryError, MemoryPolicy, Residency,
    range::{Range, Shape},
};
use crate::{Outcome, sys::mapping::Mapping};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a buffer or a pool lies: asked and changed without having its bytes, from any thread, while others write to
/// them.
///
/// It keeps the memory from being given back, as one more owner of it.
#[derive(Debug, Clone)]
pub struct MemoryBinding {
    mapping: Arc<Mapping>,
    shape: Shape,
    /// One rebinding at a time, so that each can put back what it found.
    turn: Arc<Mutex<()>>,
}

/// What became of a rebinding, by looking where pages lay before and after.
///
/// Pages that others make or move at the same time count as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Rebound {
    /// The policy, as read back.
    pub outcome: Outcome<MemoryPolicy>,
    /// The pages that are on another node than they were.
    pub moved: u64,
    /// The pages that are not where the policy wants them: no room there, or in use by the kernel. Always 0 for a
    /// strict policy, where that is an error instead.
    pub failed: u64,
    /// Where the pages lay.
    pub before: Residency,
    /// Where they lie.
    pub after: Residency,
}

impl MemoryBinding {
    pub(super) fn new(mapping: &Arc<Mapping>, shape: Shape) -> Self {
        Self { mapping: Arc::clone(mapping), shape, turn: Arc::default() }
    }

    /// On which node each page lies. It makes no page, and takes about 0.2 us for each, nearly all of it the kernel's.
    ///
    /// # Errors
    /// [`MemoryError::Policy`] under a seccomp filter.
    #[doc(alias = "move_pages")]
    pub fn residency(&self) -> Result<Residency, MemoryError> {
        self.range().residency()
    }

    /// The policy that pages to come follow, as the kernel tells it.
    ///
    /// # Errors
    /// [`MemoryError::Policy`] for a policy that has no name here, or under a seccomp filter.
    #[doc(alias = "get_mempolicy")]
    pub fn policy(&self) -> Result<MemoryPolicy, MemoryError> {
        self.range().policy()
    }

    /// Gives the memory another policy and moves the pages it has to where that policy wants them, while it is used.
    ///
    /// Who writes to a page on its way waits for it and notices nothing else; 512 pages move at a time.
    /// * `Bind`, `Preferred`, `PreferredMany`: pages that are on none of the nodes go to the first that has room.
    /// * `Interleave`, `WeightedInterleave`: each page goes where it would have been made under the policy.
    /// * `Local`: pages go to the node that the *calling* thread is on; those to come, to whoever touches them first.
    /// * `Default`: no page moves.
    ///
    /// A strict policy (`Bind`) makes the pages that are absent, and is only set when every page lies where it shall.
    ///
    /// # Privileges
    /// None. A page that another process shares (after a `fork`) does not move.
    ///
    /// # Errors
    /// As [`NumaBuffer::new`](super::NumaBuffer::new) about the policy; [`MemoryError::Exhausted`] or
    /// [`MemoryError::Misplaced`] if the nodes of a strict policy have no room. After an error the memory has its
    /// former policy, and what had moved went back as far as there was room; what was made remains.
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
        // A panic in a rebinding leaves nothing that the lock would protect in disorder.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn range(&self) -> Range<'_> {
        Range { mapping: &self.mapping, shape: self.shape }
    }
}
