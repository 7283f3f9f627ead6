//! The receiver's open entries.

use crate::{
    error::Violation,
    frame::{MAX_RUN, Terms},
    hash::BLOCK,
    message::{Held, MAX_DIGESTS},
    proto::{CONTROL, MAX_PRUNES, WINDOW},
};
use std::collections::BTreeMap;

/// The receiver's open entries, the file under way on each carrier, and the bytes that it still
/// lacks.
///
/// A *carrier* is a stream that carries files, one at a time: [`CONTROL`] is the control stream,
/// the others are numbered as they were opened.
#[derive(Debug)]
pub(crate) struct Inbound {
    terms: Terms,
    has_totals: bool,
    next_id: u64,
    /// Offers that were answered and have not started.
    offered: BTreeMap<u64, Offered>,
    /// The file under way on each carrier that has one.
    started: BTreeMap<usize, Started>,
    /// The open files for which the receiver has another one.
    compared: BTreeMap<u64, Compared>,
    /// The folders that are looked through, and how many entries each asks about.
    pruning: BTreeMap<u64, usize>,
    /// Number of files that are complete and wait to be settled.
    finished: usize,
    /// The further streams that the sender opened, and may open.
    streams: usize,
    max_streams: usize,
}

/// The use of the bytes of a started file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The bytes belong to the file.
    Write,
    /// The file has failed here: bytes under way are read and dropped.
    Discard,
}

#[derive(Debug)]
struct Offered {
    size: u64,
    /// Whether the receiver's file has the same size.
    may_stay: bool,
    prefix: u64,
}

/// The receiver's file, with which the sender compares its own.
#[derive(Debug)]
struct Compared {
    len: u64,
    /// The first block for whose digest the sender may ask next.
    next: u64,
}

impl Compared {
    /// Whether a run has whole blocks of the file, the last of which may be shorter.
    fn has_blocks(&self, begin: u64, len: u64) -> bool {
        let is_border = |at: u64| at.is_multiple_of(BLOCK as u64);
        let end = begin.saturating_add(len);
        is_border(begin) && (end == self.len || end < self.len && is_border(end))
    }
}

#[derive(Debug)]
struct Started {
    id: u64,
    size: u64,
    reached: u64,
    fate: Fate,
}

impl Started {
    /// The file has `len` more bytes.
    fn reach(&mut self, len: u64) -> Result<Fate, Violation> {
        // The difference cannot underflow: `reached` grows up to `size` only.
        if len > self.size - self.reached {
            return Err(Violation::Length { id: self.id, size: self.size });
        }
        self.reached += len;
        Ok(self.fate)
    }
}

impl Inbound {
    /// No entry is open, and the sender may open that many further streams.
    pub(crate) fn new(terms: Terms, max_streams: usize) -> Self {
        Self {
            terms,
            has_totals: false,
            next_id: 0,
            offered: BTreeMap::new(),
            started: BTreeMap::new(),
            compared: BTreeMap::new(),
            pruning: BTreeMap::new(),
            finished: 0,
            streams: 0,
            max_streams,
        }
    }

    /// The sender opened a further stream; returns its number as a carrier.
    pub(crate) fn on_stream(&mut self) -> Result<usize, Violation> {
        if self.streams == self.max_streams {
            return Err(Violation::Streams { max: self.max_streams });
        }
        self.streams += 1;
        Ok(self.streams)
    }

    /// A further stream ended in order.
    pub(crate) fn on_stream_end(&self, carrier: usize) -> Result<(), Violation> {
        match self.started.get(&carrier) {
            Some(file) => Err(Violation::StreamEnd { id: file.id }),
            None => Ok(()),
        }
    }

    /// `Totals` came.
    pub(crate) fn on_totals(&mut self) -> Result<(), Violation> {
        if std::mem::replace(&mut self.has_totals, true) {
            return Err(Violation::Unexpected("a second message of totals"));
        }
        Ok(())
    }

    /// `Unreadable` came.
    pub(crate) fn on_unreadable(&self) -> Result<(), Violation> {
        self.after_totals()
    }

    /// `Folder` or `Link` came, which are settled at once.
    pub(crate) fn on_simple(&mut self, id: u64) -> Result<(), Violation> {
        self.on_opened(id)
    }

    /// `Offer` came; the caller looks at its disk and then calls [`answer`](Self::answer), unless
    /// the file fails.
    pub(crate) fn on_offer(&mut self, id: u64) -> Result<(), Violation> {
        self.on_opened(id)?;
        // A file that failed here may be closed at the sender, whose last word about it is under way on
        // another stream.
        let open = self.started.values().filter(|file| file.fate == Fate::Write).count();
        if self.offered.len() + open + self.finished >= WINDOW {
            return Err(Violation::Window);
        }
        Ok(())
    }

    /// The offer is being answered with `held`.
    pub(crate) fn answer(&mut self, id: u64, size: u64, held: &Held) {
        let prefix = held.part.map_or(0, |part| part.len);
        let may_stay = held.there.as_ref().is_some_and(|there| there.len == size);
        self.offered.insert(id, Offered { size, may_stay, prefix });
        if let Some(there) = &held.there {
            self.compared.insert(id, Compared { len: there.len, next: there.blocks.len() as u64 });
        }
    }

    /// `Ask` came, for the digests from `block` on: each is read once.
    pub(crate) fn on_ask(&mut self, id: u64, block: u64) -> Result<(), Violation> {
        match self.compared.get_mut(&id) {
            Some(there) if block >= there.next => {
                there.next = block.saturating_add(MAX_DIGESTS as u64);
                Ok(())
            }
            _ => Err(Violation::Entry { what: "a question", id }),
        }
    }

    /// `Seal` came.
    pub(crate) fn on_seal(&mut self, id: u64) -> Result<(), Violation> {
        if self.terms.is_dry_run {
            return Err(Violation::Unexpected("the end of a folder in a dry run"));
        }
        self.on_opened(id)
    }

    /// `Prune` came; the caller looks through the folder, asks ([`ask`](Self::ask)), and settles
    /// the folder ([`settle_pruned`](Self::settle_pruned)).
    pub(crate) fn on_prune(&mut self, id: u64) -> Result<(), Violation> {
        if !self.terms.deletes {
            return Err(Violation::Unexpected("a deletion"));
        }
        if self.has_open_files() {
            return Err(Violation::Unexpected("a deletion, with files open,"));
        }
        if self.pruning.len() == MAX_PRUNES {
            return Err(Violation::Prunes { max: MAX_PRUNES });
        }
        self.on_opened(id)?;
        self.pruning.insert(id, 0);
        Ok(())
    }

    /// The sender is being asked about that many entries.
    pub(crate) fn ask(&mut self, id: u64, entries: usize) {
        self.pruning.insert(id, entries);
    }

    /// `Choose` came, for so many entries.
    pub(crate) fn on_choose(&mut self, id: u64, entries: usize) -> Result<(), Violation> {
        match self.pruning.get_mut(&id) {
            Some(asked) if *asked == entries && entries > 0 => {
                *asked = 0;
                Ok(())
            }
            _ => Err(Violation::Entry { what: "a choice", id }),
        }
    }

    /// The folder is being settled.
    pub(crate) fn settle_pruned(&mut self, id: u64) {
        self.pruning.remove(&id);
    }

    /// `Start` came on a carrier.
    pub(crate) fn on_start(&mut self, carrier: usize, id: u64, offset: u64) -> Result<(), Violation> {
        if self.terms.is_dry_run {
            return Err(Violation::Unexpected("the start of a file in a dry run"));
        }
        if self.started.contains_key(&carrier) {
            return Err(Violation::Unexpected("the start of a second file"));
        }
        let size = self.take_offered(id, offset)?;
        self.started.insert(carrier, Started { id, size, reached: offset, fate: Fate::Write });
        Ok(())
    }

    /// `Would` came, in place of `Start`.
    pub(crate) fn on_would(&mut self, id: u64, offset: u64) -> Result<(), Violation> {
        if !self.terms.is_dry_run {
            return Err(Violation::Unexpected("a step of a dry run"));
        }
        self.compared.remove(&id);
        self.take_offered(id, offset).map(drop)
    }

    /// A block of `len` bytes came on a carrier.
    pub(crate) fn on_block(&mut self, carrier: usize, len: usize) -> Result<Fate, Violation> {
        let file = self.started.get_mut(&carrier).ok_or(Violation::Unexpected("a data block"))?;
        // No file is as long as a length that is no u64.
        file.reach(u64::try_from(len).unwrap_or(u64::MAX))
    }

    /// `Hole` came on a carrier.
    pub(crate) fn on_hole(&mut self, carrier: usize, id: u64, len: u64) -> Result<Fate, Violation> {
        self.on_run(carrier, id, len).ok_or(Violation::Entry { what: "a hole", id })?
    }

    /// `Same` came on a carrier, for whole blocks: the digest of a file of which the sender knows
    /// all but a few bytes would tell it those.
    pub(crate) fn on_same(&mut self, carrier: usize, id: u64, len: u64) -> Result<Fate, Violation> {
        let (there, file) = (self.compared.get(&id), self.started.get(&carrier));
        let is_whole = there.zip(file).is_some_and(|(there, file)| there.has_blocks(file.reached, len));
        let run = if is_whole { self.on_run(carrier, id, len) } else { None };
        run.ok_or(Violation::Entry { what: "a run", id })?
    }

    /// The file on the carrier has `len` more bytes; `None` if that is another file, or no run.
    fn on_run(&mut self, carrier: usize, id: u64, len: u64) -> Option<Result<Fate, Violation>> {
        let file = self.started.get_mut(&carrier).filter(|file| file.id == id && (1..=MAX_RUN).contains(&len))?;
        Some(file.reach(len))
    }

    /// The file under way on the carrier failed here and is being settled: its further bytes are
    /// discarded. Returns the file.
    pub(crate) fn discard(&mut self, carrier: usize) -> Option<u64> {
        let file = self.started.get_mut(&carrier)?;
        file.fate = Fate::Discard;
        Some(file.id)
    }

    /// `Finish` came on a carrier.
    pub(crate) fn on_finish(&mut self, carrier: usize, id: u64) -> Result<Fate, Violation> {
        self.compared.remove(&id);
        match self.started.remove(&carrier) {
            Some(file) if file.id != id => Err(Violation::Entry { what: "an end", id }),
            Some(file) if file.reached != file.size => Err(Violation::Length { id, size: file.size }),
            Some(file) => {
                self.finished += usize::from(file.fate == Fate::Write);
                Ok(file.fate)
            }
            None => Err(Violation::Entry { what: "an end", id }),
        }
    }

    /// One of the complete files is being settled.
    pub(crate) fn settle(&mut self) {
        self.finished -= 1;
    }

    /// `Keep` came.
    pub(crate) fn on_keep(&mut self, id: u64) -> Result<(), Violation> {
        self.compared.remove(&id);
        match self.offered.remove(&id) {
            Some(Offered { may_stay: true, .. }) => Ok(()),
            _ => Err(Violation::Entry { what: "a keep", id }),
        }
    }

    /// `Abort` came on a carrier; `Discard` says that the file was settled before. A file that was
    /// not started is aborted on the control stream.
    pub(crate) fn on_abort(&mut self, carrier: usize, id: u64) -> Result<Fate, Violation> {
        self.compared.remove(&id);
        if carrier == CONTROL && self.offered.remove(&id).is_some() {
            return Ok(Fate::Write);
        }
        match self.started.remove(&carrier) {
            Some(file) if file.id == id => Ok(file.fate),
            _ => Err(Violation::Entry { what: "an abort", id }),
        }
    }

    /// `Done` came. The sender's last words about files that failed here may still be under way on
    /// further streams: see [`is_idle`](Self::is_idle). On the control stream nothing follows.
    pub(crate) fn on_done(&self) -> Result<(), Violation> {
        self.after_totals()?;
        if self.has_open_files() || !self.pruning.is_empty() {
            return Err(Violation::Unexpected("the end of the batch, with files open,"));
        }
        Ok(())
    }

    fn has_open_files(&self) -> bool {
        let is_open = self.started.iter().any(|(&on, file)| on == CONTROL || file.fate == Fate::Write);
        is_open || self.finished > 0 || !self.offered.is_empty()
    }

    /// Whether no file is under way on any carrier.
    pub(crate) fn is_idle(&self) -> bool {
        self.started.is_empty()
    }

    /// The carrier is read no more.
    pub(crate) fn leave(&mut self, carrier: usize) {
        self.started.remove(&carrier);
    }

    /// Takes a file that is to begin at `offset`; gives its size.
    fn take_offered(&mut self, id: u64, offset: u64) -> Result<u64, Violation> {
        let file = self.offered.remove(&id).ok_or(Violation::Entry { what: "a start", id })?;
        if offset != 0 && offset != file.prefix {
            return Err(Violation::Offset { id, offset });
        }
        Ok(file.size)
    }

    fn on_opened(&mut self, id: u64) -> Result<(), Violation> {
        self.after_totals()?;
        if id != self.next_id {
            return Err(Violation::Sequence { got: id, expected: self.next_id });
        }
        // Wrapping would take 2^64 messages.
        self.next_id = id.wrapping_add(1);
        Ok(())
    }

    fn after_totals(&self) -> Result<(), Violation> {
        if self.has_totals { Ok(()) } else { Err(Violation::Unexpected("a message before the totals")) }
    }
}
