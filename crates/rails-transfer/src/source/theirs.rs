//! The digests of the receiver's blocks, asked for as they are needed.

use super::{Job, MAX_NAP, Output};
use crate::{
    hash::BLOCK,
    message::{BlockDigest, Held},
};
use std::sync::{Arc, PoisonError, mpsc::RecvTimeoutError};

/// The digests of the blocks of the receiver's file, as far as they are known.
pub(super) struct Theirs {
    /// The number of the receiver's blocks.
    count: u64,
    /// The number of the first known block.
    first: u64,
    known: Vec<BlockDigest>,
    /// The first block of an answer that is under way.
    asked: Option<u64>,
}

impl Theirs {
    pub(super) fn new(held: &Held) -> Self {
        let there = held.there.clone().unwrap_or_default();
        Self { count: there.len.div_ceil(BLOCK as u64), first: 0, known: there.blocks, asked: None }
    }

    /// The digest of a block; `None` if the receiver has none. Waits for the receiver. Blocks are
    /// asked for in their order.
    pub(super) fn digest<O: Output>(
        &mut self,
        block: u64,
        job: &Arc<Job>,
        output: &mut O,
    ) -> Result<Option<BlockDigest>, O::Gone> {
        loop {
            let place = block.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
            if let Some(digest) = place.and_then(|place| self.known.get(place)) {
                let digest = *digest;
                if block == self.first {
                    // The receiver reads ahead while these are used.
                    self.ask(self.first + self.known.len() as u64, job, output)?;
                }
                return Ok(Some(digest));
            }
            if block >= self.count {
                return Ok(None);
            }
            self.ask(block, job, output)?;
            let first = self.asked.unwrap_or(block);
            match self.take_answer(job, output)? {
                Some(known) if !known.is_empty() => (self.first, self.known) = (first, known),
                // The receiver's file is no longer the one that it was.
                _ => (self.count, self.known) = (0, Vec::new()),
            }
        }
    }

    /// Waits for the answer that is under way, if there is one.
    pub(super) fn take_answer<O: Output>(
        &mut self,
        job: &Job,
        output: &mut O,
    ) -> Result<Option<Vec<BlockDigest>>, O::Gone> {
        if self.asked.take().is_none() {
            return Ok(None);
        }
        let digests = job.digests.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match digests.recv_timeout(MAX_NAP) {
                Ok(answer) => return Ok(Some(answer)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => output.check()?,
            }
        }
    }

    /// Asks for the digests from a block on, unless an answer is under way, or there are none.
    fn ask<O: Output>(&mut self, block: u64, job: &Arc<Job>, output: &mut O) -> Result<(), O::Gone> {
        if self.asked.is_none() && block < self.count {
            output.emit(job, super::Event::Ask { block })?;
            self.asked = Some(block);
        }
        Ok(())
    }
}
