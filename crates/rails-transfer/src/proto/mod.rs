//! The steps that each peer may take next. No I/O.
//!
//! [`Outbound`] is the sender's view of the open entries, [`Inbound`] the receiver's, [`Pace`] the
//! rate of the data, [`Syncs`] the choice between the calls that put files on disk. The drivers
//! pass messages in, and carry out the allowed steps; any other message of a peer is a
//! [`Violation`](crate::Violation).

mod inbound;
mod outbound;
mod pace;
mod syncs;

pub(crate) use inbound::{Fate, Inbound};
pub(crate) use outbound::{Kind, Outbound};
pub(crate) use pace::Pace;
pub(crate) use syncs::Syncs;

/// The limit on open entries: offered by the sender and not yet settled by the receiver.
pub(crate) const WINDOW: usize = 128;

/// The control stream, as a carrier of files.
pub(crate) const CONTROL: usize = 0;

/// The limit on further streams, whatever an end asks for: each has a thread at either end.
pub(crate) const MAX_STREAMS: usize = 64;

/// The limit on folders that the receiver looks through at a time, each with a handle for every
/// folder on the way down.
pub(crate) const MAX_PRUNES: usize = 16;

/// The limit on files of a batch that have further names in it: the receiver knows them by device
/// and inode.
pub(crate) const MAX_TWINS: usize = 1 << 20;

/// The limit on answers under way: two for each open entry, and the final one.
///
/// The sender counts an entry as open until it has *read* the settling answer, so a receiver that
/// queues its answers never holds more than this many, however slowly the sender reads.
pub(crate) const MAX_ANSWERS: usize = 2 * WINDOW + 1;

#[cfg(test)]
mod tests;
