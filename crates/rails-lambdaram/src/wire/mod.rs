//! The messages of a link. `docs/lambdaram-wire.md` shows them byte by byte.
//!
//! A message is one of the reader ([`ReaderFrame`]) or of the node that serves ([`ServerMessage`]).
//! Its first byte tells the kind. A decoder takes memory in proportion to the bytes that are there
//! and within the limits of this module, and never by a count that the message states.

mod block;
mod bounded;
mod check;
mod codec;
mod encoding;
mod error;
mod fit;
mod frame;
mod handle;
mod limits;
mod run;
mod weight;

pub use block::BlockHeader;
pub use codec::{ServerMessage, check_description};
pub use encoding::{Encoding, Encodings};
pub use error::{WireError, WireProblem};
pub use frame::*;
pub use handle::Handle;
pub use limits::*;
pub use run::{Run, count, runs_of, split_regions, split_runs};
