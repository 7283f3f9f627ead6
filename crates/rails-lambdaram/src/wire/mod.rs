//! The messages of a link.

mod frame;

pub use frame::*;
