//! Blocks on a link: shuffled and compressed where they arrive sooner so.
//!
//! - `shuffle`: the bytes of elements by their significance;
//! - `decimal`: decimal fractions as integers;
//! - `coder`: [`Coder`], from blocks to payloads and back;
//! - `chooser`: [`Chooser`], which decides for each block.
//!
//! Nothing here knows a link or a clock: sizes, rates and times are arguments.

mod chooser;
mod coder;
mod decimal;
mod shuffle;

pub use chooser::{Chooser, LinkLoad};
pub use coder::{Coder, DecodeError, SUPPORTED, decode, encode};
