//! The machine as rails see it: packages, NUMA nodes, caches, cores, PCI and what hangs on it: NICs with their
//! queues and interrupts, RDMA, GPUs and disks.
//!
//! # Use
//!
//! ```
//! # fn main() -> Result<(), rails_topo::DetectError> {
//! let machine = rails_topo::Topology::detect()?;
//! println!("{}", machine.tree());
//! for nic in machine.nics() {
//!     match nic.locality(&machine) {
//!         Some(cpus) => println!("{} is beside CPUs {cpus}", nic.name),
//!         None => println!("nobody says where {} is", nic.name),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Machines that are not at hand come from an hwloc XML file ([`Topology::from_xml`]), from a captured tree of `/sys`
//! and `/proc` ([`Topology::from_sysfs_root`]) or from a description ([`Topology::synthetic`]):
//!
//! ```
//! use rails_topo::{CpuId, Nic, NodeId, Topology};
//!
//! let nic = Nic { node: Some(NodeId(1)), ..Nic::named("eth0") };
//! let machine = Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:2", vec![nic])?;
//! assert_eq!(machine.nics()[0].locality(&machine).unwrap().to_string(), "8-15");
//! assert_eq!(machine.nearest_node(CpuId(3)), Some(NodeId(0)));
//! # Ok::<(), rails_topo::SyntheticError>(())
//! ```
//!
//! # Invariants
//!
//! - Nothing is written: not to `/sys`, not to `/proc`, and no thread is bound, not even for a moment.
//! - There is no `unsafe` code.
//! - Unknown stays unknown. A node of -1 is not node 0, and a speed of -1 is no speed. What cannot be read, or is
//!   contradicted by the CPUs it speaks of, is `None` or absent.
//! - A captured machine cannot make the reader look outside its own tree, nor take memory without bound.
//!
//! # Modules
//!
//! All types are at the root, but for those of [`config`], the files that add, override and hide facts (cargo feature `config`, on by default). The files are one idea each: `model`, `sets` and `units` are the model,
//! `interrupts` and `interrupt_role` what `/proc/interrupts` says; `linux`
//! reads the kernel's files below any root; `hwloc` turns hwloc's objects into the model (cargo feature `hwloc`, on by
//! default; it needs libhwloc 2.8 or newer and libudev); `detect` puts the two together for this machine; `locality` answers what is near
//! what from an index made once ([`Topology::locality`]); `synthetic`
//! is the description; `render` is the machine for people, as a text and as a picture.
//!
//! # What it does not do
//!
//! It binds nothing and moves no interrupt, and of I/O devices it knows only NICs. The numbers are those of the moment: a
//! CPU can go offline, a cpuset can shrink, an interrupt can move afterwards. The module `monitor` (cargo feature
//! `monitor`) tells of it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rails-topo reads Linux's files (/sys and /proc): it builds for target_os = \"linux\" only");

mod capture;
#[cfg(feature = "config")]
pub mod config;
mod detect;
mod errors;
#[cfg(feature = "hwloc")]
mod hwloc;
mod hwloc_xml;
mod interrupt_role;
mod interrupts;
mod linux;
mod locality;
mod model;
#[cfg(feature = "monitor")]
pub mod monitor;
mod render;
mod saved;
mod sets;
mod snapshot;
mod synthetic;
mod units;
mod xml;

pub use capture::Capture;
pub use errors::{CaptureError, CaptureFault, DetectError, SyntheticError, SysfsError, XmlError};
pub use interrupt_role::{Direction, InterruptRole};
pub use interrupts::{InterruptLine, InterruptLines};
pub use locality::{ClosestPus, CommonAncestor, Device, Level, Locality, PciPath, Shared, Sharer, Tier, Tiers};
pub use model::{
    BlockDevice, Cache, CacheKind, Core, CoreKind, Die, Distances, Gpu, Hugepages, InterfaceAddress, Interrupt, Lanes,
    MacAddress, Machine, MemoryPerformance, Nic, NicKind, NumaNode, Origin, Override, Package, ParseAddressError,
    PciAddress, PciBridge, PciDevice, PciLink, RdmaDevice, RdmaPort, RxQueue, Topology, TxQueue, VirtualFunctions,
};
pub use render::{Overlay, RailMark, Tree};
pub use saved::{SavedError, SavedKind};
pub use sets::{CpuId, CpuSet, Id, IdSet, NodeId, NodeSet, ParseSetError};
pub use snapshot::SnapshotError;
pub use units::{Bandwidth, DataSize};
