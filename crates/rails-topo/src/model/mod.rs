//! The model of a machine.
//!
//! Unknown facts are `None`, or an empty list if its documentation states so. The readers guess
//! nothing; a fact that the source contradicts is unknown.

mod address;
mod devices;
mod lanes;
mod memory;
mod nic;
mod origin;
mod overrides;
mod pci;
mod processor;
mod topology;

pub use address::{MacAddress, ParseAddressError, PciAddress};
pub use devices::{BlockDevice, Gpu, RdmaDevice, RdmaPort};
pub use lanes::Lanes;
pub use memory::{Distances, Hugepages, MemoryPerformance, NumaNode};
pub use nic::{InterfaceAddress, Interrupt, Nic, NicKind, RxQueue, TxQueue};
pub use origin::{Machine, Origin};
pub use overrides::Override;
#[cfg(feature = "config")]
pub(crate) use overrides::quoted;
pub use pci::{PciBridge, PciDevice, PciLink, VirtualFunctions};
pub use processor::{Cache, CacheKind, Core, CoreKind, Die, Package};
pub use topology::Topology;
