//! The machine as rails see it: packages, NUMA nodes, caches, cores, NICs, their queues and interrupts.
#![forbid(unsafe_code)]

mod machine;
mod nic;
mod sets;
mod units;

pub use machine::{Cache, CacheKind, Core, Distances, Machine, NumaNode, Origin, Package, Topology};
pub use nic::{InterfaceAddress, Interrupt, MacAddress, Nic, NicKind, ParseAddressError, PciAddress, RxQueue, TxQueue};
pub use sets::{CpuId, CpuSet, Id, IdSet, NodeId, NodeSet, ParseSetError};
pub use units::{Bandwidth, DataSize};
