//! Sites under a simulated clock: the nodes, links and reads of this crate, over wires and sources
//! that delay, fail and end as a seed says. The array itself is the oracle.
//!
//! - `wire`: what carries messages; `source`: where blocks come from; `runs`: whole sites.

mod runs;
mod source;
mod wire;

pub(crate) use source::SimulatedSource;
pub(crate) use wire::{SimulatedNode, WireReceiver, WireSender};
