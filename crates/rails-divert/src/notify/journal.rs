//! The notifications that this process has received and not answered, in memory that survives it:
//! their tasks would wait for ever if nobody knew their numbers.

use crate::sys::seccomp::Notification;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, RawFd},
        unix::fs::FileExt,
    },
    sync::{Mutex, PoisonError},
};

/// Written by one process, and read by another one after its death.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    slots: Mutex<Slots>,
}

/// The place of one notification, until it is [released](Journal::release).
#[derive(Debug)]
pub(super) struct Slot {
    index: u64,
    record: Record,
}

/// One notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Counts the records from 1 on.
    pub(super) count: u64,
    pub(super) id: u64,
    pub(super) tid: u32,
    pub(super) fd: RawFd,
    /// Whether the socket may be connected to this process.
    pub(super) diverting: bool,
}

#[derive(Debug, Default)]
struct Slots {
    free: Vec<u64>,
    used: u64,
    count: u64,
}

impl Journal {
    pub(super) fn new() -> io::Result<Self> {
        let file = memfd_create(c"rails-notify", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self { file: file.into(), slots: Mutex::default() })
    }

    /// Records a notification that was just received. The next one must not be received before.
    pub(super) fn note(&self, notification: &Notification) -> io::Result<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.count += 1;
        let index = slots.free.pop().unwrap_or(slots.used);
        slots.used = slots.used.max(index + 1);
        let Notification { id, tid, fd, .. } = *notification;
        let slot = Slot { index, record: Record { count: slots.count, id, tid, fd, diverting: false } };
        drop(slots);
        match self.write(&slot) {
            Ok(()) => Ok(slot),
            Err(error) => {
                self.release(slot);
                Err(error)
            }
        }
    }

    /// Records that the socket will be connected to this process.
    pub(super) fn divert(&self, slot: &mut Slot) -> io::Result<()> {
        slot.record.diverting = true;
        self.write(slot)
    }

    /// Frees the place of an answered notification. Its record stays until the place is used again:
    /// a second answer does nothing.
    pub(super) fn release(&self, slot: Slot) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).free.push(slot.index);
    }

    fn write(&self, slot: &Slot) -> io::Result<()> {
        self.file.write_all_at(&slot.record.encode(), slot.index * LENGTH as u64)
    }
}

impl AsFd for Journal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// All records of another process's journal, in any order.
pub(super) fn read(file: &File) -> io::Result<Vec<Record>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    let (records, _) = bytes.as_chunks::<LENGTH>();
    Ok(records.iter().filter_map(Record::decode).collect())
}

impl Record {
    fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0..8].copy_from_slice(&self.count.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.tid.to_ne_bytes());
        bytes[20..24].copy_from_slice(&self.fd.to_ne_bytes());
        bytes[24] = self.diverting.into();
        bytes
    }

    /// The record of these bytes, or `None` for a place that was never written.
    fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        let eight = |at: usize| bytes[at..].first_chunk().copied().expect("it is within the record");
        let four = |at: usize| bytes[at..].first_chunk().copied().expect("it is within the record");
        let record = Self {
            count: u64::from_ne_bytes(eight(0)),
            id: u64::from_ne_bytes(eight(8)),
            tid: u32::from_ne_bytes(four(16)),
            fd: RawFd::from_ne_bytes(four(20)),
            diverting: bytes[24] != 0,
        };
        (record.count > 0).then_some(record)
    }
}

/// A power of two, so that no record crosses a page: the kernel copies it in one piece.
const LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(id: u64) -> Notification {
        Notification { id, tid: 7, fd: 3, address: 0, length: 0 }
    }

    fn records(journal: &Journal) -> Vec<Record> {
        read(&journal.file).expect("it is readable")
    }

    #[test]
    fn what_was_noted_is_read() {
        let journal = Journal::new().expect("memory");
        assert_eq!(records(&journal), []);
        let mut slot = journal.note(&notification(u64::MAX)).expect("memory");
        let mut expected = Record { count: 1, id: u64::MAX, tid: 7, fd: 3, diverting: false };
        assert_eq!(records(&journal), [expected]);
        journal.divert(&mut slot).expect("memory");
        expected.diverting = true;
        assert_eq!(records(&journal), [expected]);
    }

    #[test]
    fn places_are_used_again() {
        let journal = Journal::new().expect("memory");
        for round in 0..1000 {
            let slots: Vec<Slot> = (0..5).map(|id| journal.note(&notification(id)).expect("memory")).collect();
            let found = records(&journal);
            assert_eq!(found.len(), 5);
            assert_eq!(found.iter().map(|record| record.count).max(), Some(5 * (round + 1)));
            slots.into_iter().for_each(|slot| journal.release(slot));
        }
    }
}
