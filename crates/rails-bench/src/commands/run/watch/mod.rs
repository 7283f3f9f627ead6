//! Decides about a watched program from observations and their times, without I/O.
//!
//! [`Follow`] says which NICs the program is beside, [`Threads`] which threads go back to their
//! CPUs, and [`Pace`] when to look next.

mod follow;
mod pace;
mod threads;

pub(super) use follow::Follow;
pub(super) use pace::Pace;
pub(super) use threads::{CpuTime, Order, SeenThread, Threads};
