//! The next step that either peer may take, decided without I/O.
//!
//! [`Outbound`] is the sender's view of the open entries, [`Inbound`] the receiver's, [`choose`]
//! the rule by which a file is kept, resumed or sent from the start. The drivers feed them messages
//! and carry out what they allow; any other message of a peer is a [`Violation`](crate::Violation).

mod inbound;
mod outbound;
mod resume;

pub(crate) use inbound::{Fate, Inbound};
pub(crate) use outbound::{Kind, Outbound};
pub(crate) use resume::{Choice, choose, prefix_to_check};

/// How many entries may be open at once: offered by the sender and not yet settled by the receiver.
pub(crate) const WINDOW: usize = 64;

/// How many answers can be under way: two for each open entry, and the last word.
///
/// The sender counts an entry as open until it has *read* the settling answer, so a receiver that
/// queues its answers never holds more than this many, however slowly the sender reads.
pub(crate) const MAX_ANSWERS: usize = 2 * WINDOW + 1;

#[cfg(test)]
mod tests;
