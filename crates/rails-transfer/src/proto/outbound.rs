//! The sender's open entries.

use crate::{
    error::Violation,
    message::{Compare, Digest, Settled},
    proto::{MAX_PRUNES, WINDOW},
};
use std::collections::BTreeMap;

/// The sender's open entries, and the message that each of them awaits.
///
/// An entry closes when both peers are done with it: the receiver has settled it and, for a file
/// that was answered, the sender has ended it with `Finish`, `Keep` or `Abort`.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    is_dry_run: bool,
    next_id: u64,
    open: BTreeMap<u64, Slot>,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `Folder` or `Seal`: settled at once.
    Simple,
    /// `Offer`: answered, streamed, settled.
    File(Compare),
    /// `Prune`: asked about any number of times, settled.
    Prune,
}

#[derive(Debug)]
struct Slot {
    /// The caller's own number for the entry.
    entry: usize,
    stage: Stage,
    settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Simple,
    /// The number of the entries that this end has chosen to go.
    Pruning(u64),
    Offered(Compare),
    /// The receiver has named its bytes; the sender must end the file.
    Answered,
    Started,
    Finished(Digest),
    Kept,
    Aborted,
    /// The file would be sent, but for the dry run.
    Would,
}

impl Outbound {
    /// No entry is open.
    pub(crate) fn new(is_dry_run: bool) -> Self {
        Self { is_dry_run, ..Self::default() }
    }

    /// Whether another entry may be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < WINDOW
    }

    /// Whether another folder may be opened that is to be looked through, as only such are open.
    pub(crate) fn has_room_to_prune(&self) -> bool {
        self.open.len() < MAX_PRUNES
    }

    /// Whether no entry is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens the caller's `entry`, and returns its number on the wire.
    pub(crate) fn open(&mut self, entry: usize, kind: Kind) -> u64 {
        assert!(self.has_room(), "an entry was opened past the window");
        let id = self.next_id;
        self.next_id += 1;
        let stage = match kind {
            Kind::Simple => Stage::Simple,
            Kind::Prune => Stage::Pruning(0),
            Kind::File(compare) => Stage::Offered(compare),
        };
        self.open.insert(id, Slot { entry, stage, settled: false });
        id
    }

    /// The receiver has named its bytes; returns the caller's entry.
    pub(crate) fn on_held(&mut self, id: u64) -> Result<usize, Violation> {
        match self.open.get_mut(&id) {
            Some(slot) if matches!(slot.stage, Stage::Offered(_)) => {
                slot.stage = Stage::Answered;
                Ok(slot.entry)
            }
            _ => Err(Violation::Entry { what: "an answer", id }),
        }
    }

    /// The receiver asks about entries of a folder that it looks through.
    pub(crate) fn on_found(&mut self, id: u64) -> Result<(), Violation> {
        match self.open.get(&id) {
            Some(slot) if matches!(slot.stage, Stage::Pruning(_)) => Ok(()),
            _ => Err(Violation::Entry { what: "a question", id }),
        }
    }

    /// `Choose` is being sent, by which so many further entries go.
    pub(crate) fn choose(&mut self, id: u64, entries: usize) {
        if let Some(Slot { stage: Stage::Pruning(chosen), .. }) = self.open.get_mut(&id) {
            *chosen += entries as u64;
        }
    }

    /// The receiver settled the entry; returns the caller's entry.
    pub(crate) fn on_settled(&mut self, id: u64, outcome: &Settled) -> Result<usize, Violation> {
        let slot = match self.open.get_mut(&id) {
            Some(slot) if !slot.settled => slot,
            _ => return Err(Violation::Entry { what: "an outcome", id }),
        };
        let fits = match (outcome, slot.stage) {
            (Settled::Stored { digest }, Stage::Finished(ours)) if *digest != ours => {
                return Err(Violation::Digest { id });
            }
            (Settled::Stored { .. }, Stage::Finished(_)) => true,
            (Settled::Kept, Stage::Kept | Stage::Offered(Compare::Times))
            | (Settled::Made, Stage::Simple)
            | (Settled::Aborted, Stage::Aborted) => true,
            (Settled::Pruned { removed, .. }, Stage::Pruning(chosen)) => *removed <= chosen,
            (Settled::Would, stage) => {
                let may_change = matches!(stage, Stage::Simple | Stage::Kept | Stage::Offered(Compare::Times));
                self.is_dry_run && (may_change || stage == Stage::Would)
            }
            // After an answer the sender has the next move, so the file cannot fail before it.
            (Settled::Failed { .. }, stage) => stage != Stage::Answered,
            _ => false,
        };
        if !fits {
            return Err(Violation::Entry { what: "an outcome", id });
        }
        slot.settled = true;
        let entry = slot.entry;
        self.close_if_through(id);
        Ok(entry)
    }

    /// The caller's entry, if it is still open.
    pub(crate) fn entry(&self, id: u64) -> Option<usize> {
        self.open.get(&id).map(|slot| slot.entry)
    }

    /// Whether the receiver has given up on a file that the sender must still end.
    pub(crate) fn is_lost(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|slot| slot.settled)
    }

    /// Whether the sender has given up on a file that the receiver must still settle.
    pub(crate) fn is_aborted(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|slot| slot.stage == Stage::Aborted)
    }

    /// `Start` is being sent.
    pub(crate) fn start(&mut self, id: u64) {
        self.advance(id, Stage::Started);
    }

    /// `Finish` is being sent.
    pub(crate) fn finish(&mut self, id: u64, digest: Digest) {
        self.advance(id, Stage::Finished(digest));
    }

    /// `Keep` is being sent.
    pub(crate) fn keep(&mut self, id: u64) {
        self.advance(id, Stage::Kept);
    }

    /// `Would` is being sent.
    pub(crate) fn would(&mut self, id: u64) {
        self.advance(id, Stage::Would);
    }

    /// `Abort` is being sent.
    pub(crate) fn abort(&mut self, id: u64) {
        self.advance(id, Stage::Aborted);
    }

    fn advance(&mut self, id: u64, stage: Stage) {
        let slot = self.open.get_mut(&id).expect("a file stays open until the sender has ended it");
        slot.stage = stage;
        self.close_if_through(id);
    }

    fn close_if_through(&mut self, id: u64) {
        let through = |slot: &Slot| slot.settled && !matches!(slot.stage, Stage::Answered | Stage::Started);
        if self.open.get(&id).is_some_and(through) {
            self.open.remove(&id);
        }
    }
}
