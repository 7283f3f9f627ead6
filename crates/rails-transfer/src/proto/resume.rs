//! Keep, resume or send anew.

use crate::message::{Digest, Held};

/// The choice for an offered file, given the bytes that the receiver holds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The receiver has the file already.
    Keep,
    /// Send from this offset on.
    From(u64),
}

/// The length of the receiver's prefix, if it can be one of the sender's file.
pub(crate) fn prefix_to_check(held: &Held, size: u64) -> Option<u64> {
    held.part.map(|part| part.len).filter(|len| (1..=size).contains(len))
}

/// Chooses by the digests of the sender's file: of its first [`prefix_to_check`] bytes, and of all
/// of it (needed only if the receiver holds a whole file).
pub(crate) fn choose(held: &Held, size: u64, prefix: Option<Digest>, whole: Option<Digest>) -> Choice {
    if held.whole.is_some() && held.whole == whole {
        return Choice::Keep;
    }
    match (held.part, prefix) {
        (Some(part), Some(ours)) if prefix_to_check(held, size).is_some() && part.digest == ours => {
            Choice::From(part.len)
        }
        _ => Choice::From(0),
    }
}
