//! Plans carried out.

use super::{plan::CopyPlan, runs::Loop};
use std::num::NonZeroU64;

/// A copy whose memory does not fit its plan. Nothing was copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source is too short.
    #[error("the plan reads {needed} bytes of the source, which has {bytes}")]
    Source {
        /// The bytes that the source has to have.
        needed: u64,
        /// Those that it has.
        bytes: u64,
    },
    /// The destination is too short.
    #[error("the plan writes up to byte {needed} of the destination, which has {bytes}")]
    Destination {
        /// The bytes that the destination has to have.
        needed: u64,
        /// Those that it has.
        bytes: u64,
    },
    /// A slot is too short, or missing.
    #[error("the plan takes {needed} bytes of slot {slot}, which has {bytes}")]
    Slot {
        /// The number of the slot.
        slot: u64,
        /// The bytes that the slot has to have.
        needed: u64,
        /// Those that it has; none, if it is missing.
        bytes: u64,
    },
}

/// Copies by the plan from one piece of memory to another.
///
/// # Errors
/// [`CopyError`] if one of them is shorter than the plan demands; nothing is copied then.
pub fn copy(plan: &CopyPlan, source: &[u8], destination: &mut [u8]) -> Result<(), CopyError> {
    check_source(plan, source)?;
    check_destination(plan, destination)?;
    let (inner, rows) = plan.rows();
    for row in rows {
        let (from, to) = (row.source as usize, row.destination as usize);
        copy_row(inner, row.bytes, &source[from..], &mut destination[to..]);
    }
    Ok(())
}

/// Copies by the plan from memory that lies in slots of one size.
///
/// The first `slot_bytes` bytes of a slot are used, and the last slot may be shorter.
///
/// # Errors
/// [`CopyError`] if a slot or the destination is shorter than the plan demands; nothing is copied
/// then.
pub fn copy_from_slots<S: AsRef<[u8]>>(
    plan: &CopyPlan,
    slot_bytes: NonZeroU64,
    slots: &[S],
    destination: &mut [u8],
) -> Result<(), CopyError> {
    check_slots(plan.source_end(), slot_bytes, slots.iter().map(|slot| slot.as_ref().len()))?;
    check_destination(plan, destination)?;
    let (inner, rows) = plan.rows();
    for row in rows {
        let (at, other) = ((row.source, inner.source_step), (row.destination, inner.destination_step));
        SlotRow { inner, run_bytes: row.bytes, at, other }.cut(slot_bytes, |slot, offset, other, inner, bytes| {
            copy_row(inner, bytes, &slots[slot].as_ref()[offset..], &mut destination[other..]);
        });
    }
    Ok(())
}

/// Copies by the plan into memory that lies in slots of one size.
///
/// The first `slot_bytes` bytes of a slot are used, and the last slot may be shorter.
///
/// # Errors
/// [`CopyError`] if the source or a slot is shorter than the plan demands; nothing is copied then.
pub fn copy_into_slots<S: AsMut<[u8]>>(
    plan: &CopyPlan,
    source: &[u8],
    slot_bytes: NonZeroU64,
    slots: &mut [S],
) -> Result<(), CopyError> {
    check_source(plan, source)?;
    check_slots(plan.destination_end(), slot_bytes, slots.iter_mut().map(|slot| slot.as_mut().len()))?;
    let (inner, rows) = plan.rows();
    for row in rows {
        let (at, other) = ((row.destination, inner.destination_step), (row.source, inner.source_step));
        SlotRow { inner, run_bytes: row.bytes, at, other }.cut(slot_bytes, |slot, offset, other, inner, bytes| {
            copy_row(inner, bytes, &source[other..], &mut slots[slot].as_mut()[offset..]);
        });
    }
    Ok(())
}

/// The runs of an innermost loop, of which one side lies in slots.
struct SlotRow {
    inner: Loop,
    run_bytes: u64,
    /// Where the first run begins in the slots, and the distance to the next one.
    at: (u64, u64),
    /// Both on the other side.
    other: (u64, u64),
}

impl SlotRow {
    /// Calls `copy` with parts of the row that lie in one slot each: the slot's number, the offset
    /// in it, that on the other side, and the runs with their length. A run in several slots is
    /// in parts of its own.
    fn cut(&self, slot_bytes: NonZeroU64, mut copy: impl FnMut(usize, usize, usize, Loop, u64)) {
        let mut done = 0;
        while done < self.inner.count {
            let (at, other) = (self.at.0 + done * self.at.1, self.other.0 + done * self.other.1);
            let left = self.inner.count - done;
            let room = slot_bytes.get() - at % slot_bytes;
            if self.run_bytes <= room {
                // Mostly all do, and a division takes longer than a short run.
                let all_fit = (left - 1) * self.at.1 + self.run_bytes <= room;
                let count = if all_fit { left } else { (room - self.run_bytes) / self.at.1 + 1 };
                let (slot, offset) = (at / slot_bytes, at % slot_bytes);
                copy(slot as usize, offset as usize, other as usize, Loop { count, ..self.inner }, self.run_bytes);
                done += count;
                continue;
            }
            let mut cut = 0;
            while cut < self.run_bytes {
                let (slot, offset) = ((at + cut) / slot_bytes, (at + cut) % slot_bytes);
                let bytes = (self.run_bytes - cut).min(slot_bytes.get() - offset);
                let once = Loop { count: 1, ..self.inner };
                copy(slot as usize, offset as usize, (other + cut) as usize, once, bytes);
                cut += bytes;
            }
            done += 1;
        }
    }
}

/// Copies the runs of an innermost loop, of which both sides begin with the first.
///
/// Offsets fit `usize` here and above, because they lie in memory: that is checked first.
fn copy_row(inner: Loop, run_bytes: u64, source: &[u8], destination: &mut [u8]) {
    // A copy of as many bytes as the compiler knows is an instruction or two, and not a call.
    match run_bytes {
        1 => copy_elements::<1>(inner, source, destination),
        2 => copy_elements::<2>(inner, source, destination),
        4 => copy_elements::<4>(inner, source, destination),
        8 => copy_elements::<8>(inner, source, destination),
        16 => copy_elements::<16>(inner, source, destination),
        bytes => {
            let bytes = bytes as usize;
            each_run(inner, source, destination, |from, to| to[..bytes].copy_from_slice(&from[..bytes]));
        }
    }
}

fn copy_elements<const N: usize>(inner: Loop, source: &[u8], destination: &mut [u8]) {
    each_run(inner, source, destination, |from, to| to[..N].copy_from_slice(&from[..N]));
}

/// The beginnings of the runs. No step is shorter than a run: those of the source are the strides
/// of a region, and those of the destination were checked.
fn each_run(inner: Loop, source: &[u8], destination: &mut [u8], copy: impl Fn(&[u8], &mut [u8])) {
    let from = source.chunks(inner.source_step as usize);
    let to = destination.chunks_mut(inner.destination_step as usize);
    from.zip(to).take(inner.count as usize).for_each(|(from, to)| copy(from, to));
}

fn check_source(plan: &CopyPlan, source: &[u8]) -> Result<(), CopyError> {
    let (needed, bytes) = (plan.source_end(), source.len() as u64);
    if needed <= bytes { Ok(()) } else { Err(CopyError::Source { needed, bytes }) }
}

fn check_destination(plan: &CopyPlan, destination: &[u8]) -> Result<(), CopyError> {
    let (needed, bytes) = (plan.destination_end(), destination.len() as u64);
    if needed <= bytes { Ok(()) } else { Err(CopyError::Destination { needed, bytes }) }
}

fn check_slots(end: u64, slot_bytes: NonZeroU64, lengths: impl Iterator<Item = usize>) -> Result<(), CopyError> {
    let (mut slot, mut left) = (0, end);
    for bytes in lengths.map(|length| length as u64) {
        let needed = left.min(slot_bytes.get());
        if bytes < needed {
            return Err(CopyError::Slot { slot, needed, bytes });
        }
        left -= needed;
        slot += 1;
    }
    if left == 0 { Ok(()) } else { Err(CopyError::Slot { slot, needed: left.min(slot_bytes.get()), bytes: 0 }) }
}
