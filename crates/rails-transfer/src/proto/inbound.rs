//! The receiver's open entries.

use crate::{error::Violation, message::Held, proto::WINDOW};
use std::collections::BTreeMap;

/// The receiver's open entries, the file that blocks belong to, and the bytes that it still lacks.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    has_totals: bool,
    next_id: u64,
    /// Offers that were answered and have not started.
    offered: BTreeMap<u64, Offered>,
    current: Option<Current>,
}

/// The use of the current file's bytes.
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
    has_whole: bool,
    prefix: u64,
}

#[derive(Debug)]
struct Current {
    id: u64,
    size: u64,
    reached: u64,
    fate: Fate,
}

impl Inbound {
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

    /// `Folder` or `Seal` came, which are settled at once.
    pub(crate) fn on_simple(&mut self, id: u64) -> Result<(), Violation> {
        self.on_opened(id)
    }

    /// `Offer` came; the caller looks at its disk and then calls [`answer`](Self::answer), unless
    /// the file fails.
    pub(crate) fn on_offer(&mut self, id: u64) -> Result<(), Violation> {
        self.on_opened(id)?;
        if self.offered.len() + usize::from(self.current.is_some()) >= WINDOW {
            return Err(Violation::Window);
        }
        Ok(())
    }

    /// The offer is being answered with `held`.
    pub(crate) fn answer(&mut self, id: u64, size: u64, held: &Held) {
        let prefix = held.part.map_or(0, |part| part.len);
        self.offered.insert(id, Offered { size, has_whole: held.whole.is_some(), prefix });
    }

    /// `Start` came.
    pub(crate) fn on_start(&mut self, id: u64, offset: u64) -> Result<(), Violation> {
        if self.current.is_some() {
            return Err(Violation::Unexpected("the start of a second file"));
        }
        let file = self.offered.remove(&id).ok_or(Violation::Entry { what: "a start", id })?;
        if offset != 0 && offset != file.prefix {
            return Err(Violation::Offset { id, offset });
        }
        self.current = Some(Current { id, size: file.size, reached: offset, fate: Fate::Write });
        Ok(())
    }

    /// A block of `len` bytes came; returns the file that it belongs to.
    pub(crate) fn on_block(&mut self, len: usize) -> Result<(u64, Fate), Violation> {
        let current = self.current.as_mut().ok_or(Violation::Unexpected("a data block"))?;
        let (id, size) = (current.id, current.size);
        let len = u64::try_from(len).map_err(|_| Violation::Length { id, size })?;
        // The difference cannot underflow: `reached` grows up to `size` only.
        if len > size - current.reached {
            return Err(Violation::Length { id, size });
        }
        current.reached += len;
        Ok((id, current.fate))
    }

    /// The current file failed here and is being settled: its further bytes are discarded.
    pub(crate) fn discard(&mut self) {
        if let Some(current) = &mut self.current {
            current.fate = Fate::Discard;
        }
    }

    /// `Finish` came.
    pub(crate) fn on_finish(&mut self, id: u64) -> Result<Fate, Violation> {
        match self.current.take() {
            Some(current) if current.id != id => Err(Violation::Entry { what: "an end", id }),
            Some(current) if current.reached != current.size => Err(Violation::Length { id, size: current.size }),
            Some(current) => Ok(current.fate),
            None => Err(Violation::Entry { what: "an end", id }),
        }
    }

    /// `Keep` came.
    pub(crate) fn on_keep(&mut self, id: u64) -> Result<(), Violation> {
        match self.offered.remove(&id) {
            Some(Offered { has_whole: true, .. }) => Ok(()),
            _ => Err(Violation::Entry { what: "a keep", id }),
        }
    }

    /// `Abort` came; `Discard` says that the file was settled before.
    pub(crate) fn on_abort(&mut self, id: u64) -> Result<Fate, Violation> {
        if self.offered.remove(&id).is_some() {
            return Ok(Fate::Write);
        }
        match self.current.take() {
            Some(current) if current.id == id => Ok(current.fate),
            _ => Err(Violation::Entry { what: "an abort", id }),
        }
    }

    /// `Done` came.
    pub(crate) fn on_done(&self) -> Result<(), Violation> {
        self.after_totals()?;
        if self.current.is_some() || !self.offered.is_empty() {
            return Err(Violation::Unexpected("the end of the batch, with files open,"));
        }
        Ok(())
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
