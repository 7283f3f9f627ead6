//! The only home of `unsafe` in this crate: the calls of CUDA's driver, by the parts that they
//! make.
//!
//! The functions that the rest of the crate calls are safe in any order: the parts keep alive all
//! that they need, and [`slot::Slot`] knows whether the device may be using its memory.

pub(crate) mod context;
pub(crate) mod driver;
pub(crate) mod event;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod kernel;
mod memory;
pub(crate) mod slot;
mod stream;
