//! The machine as rails see it: packages, NUMA nodes, caches, cores, and PCI with its devices: NICs
//! with their queues and interrupts, RDMA, GPUs and disks.
//!
//! [`Topology`] is a model of one machine. It is read from the machine itself, or from a file of
//! another one; it answers which CPUs, memory and devices are close to each other, and it prints as
//! a tree and as a picture.
//!
//! # Smallest use
//!
//! ```
//! # fn main() -> Result<(), rails_topo::DetectError> {
//! let machine = rails_topo::Topology::detect()?;
//! println!("{}", machine.tree());
//! for nic in machine.nics() {
//!     match nic.locality(&machine) {
//!         Some(cpus) => println!("{} is beside CPUs {cpus}", nic.name),
//!         None => println!("the locality of {} is unknown", nic.name),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Other machines
//!
//! [`Topology::from_saved`] reads a file of any kind: an hwloc XML file, a capture ([`Capture`]), a
//! model as JSON. [`Topology::from_sysfs_root`] reads a folder with a machine's `/sys` and `/proc`,
//! and [`Topology::synthetic`] makes a machine from a description:
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
//! # Queries
//!
//! [`Topology::locality`] makes an index, whose queries allocate nothing: the closest PUs and nodes
//! of a device, the common ancestor of two devices, the narrowest PCI link on the path to memory,
//! the NICs of one card.
//!
//! # What holds
//!
//! - The crate writes nothing, not even to `/sys`, and binds no thread, not even for a moment.
//! - Unknown facts stay unknown. A node of -1 is not node 0, and a speed of -1 is no speed. A fact
//!   that cannot be read, or that the CPUs in it contradict, is `None` or absent.
//! - A captured machine cannot make the reader look outside its own tree, or use unbounded memory.
//! - There is no `unsafe` code.
//!
//! A model is of one moment: a CPU can go offline, a cpuset can shrink, and an interrupt can move
//! afterwards. The module `monitor` reports such changes.
//!
//! # Features
//!
//! - `hwloc` (on by default): hwloc reads this machine and XML files; it needs libhwloc 2.8 or
//!   newer and libudev. Without it the kernel's own files are read, and no C library is needed.
//! - `captures` (on by default): [`Capture`] as a `.tar.gz`; `xml` (on by default):
//!   [`Topology::to_hwloc_xml`]; `svg` (on by default): [`Topology::svg`]. Without them fewer
//!   crates are built.
//! - `config` (on by default): [`config`], TOML files that add, override and hide facts.
//! - `monitor`: `monitor`, changes of this machine as a stream; it brings tokio and netlink.
//! - `schema`: `schemars::JsonSchema` for the model and its changes.
//!
//! # Platform and privileges
//!
//! Linux only. Nothing needs a privilege; root also sees the VLANs and, on old kernels, the PCI
//! links, whose files other users may not read.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rails-topo reads Linux's files (/sys and /proc): it builds for target_os = \"linux\" only");

mod bounded_file;
mod capture;
#[cfg(feature = "config")]
pub mod config;
mod detect;
mod errors;
#[cfg(feature = "hwloc")]
mod hwloc;
#[cfg(feature = "xml")]
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
mod storage;
mod synthetic;
mod units;
mod xml;

pub use capture::Capture;
pub use detect::sysfs_shows;
pub use errors::{CaptureError, CaptureFault, DetectError, SyntheticError, SysfsError, XmlError};
pub use interrupt_role::{Direction, InterruptRole};
pub use interrupts::{InterruptLine, InterruptLines};
pub use locality::{
    ClosestPus, CommonAncestor, Device, JointBandwidth, Level, Locality, NarrowLink, PciPath, SharedObject, Sharer,
    Tier, Tiers,
};
pub use model::{
    BlockDevice, Cache, CacheKind, Core, CoreKind, Die, Distances, Gpu, Hugepages, InterfaceAddress, Interrupt, Lanes,
    MacAddress, Machine, MemoryPerformance, Nic, NicKind, NumaNode, Origin, Override, Package, ParseAddressError,
    PciAddress, PciBridge, PciDevice, PciLink, RdmaDevice, RdmaPort, RxQueue, Topology, TxQueue, VirtualFunctions,
};
pub use render::Tree;
#[cfg(feature = "svg")]
pub use render::{Overlay, RailMark};
pub use saved::{SavedError, SavedKind};
pub use sets::{CpuId, CpuSet, Id, IdSet, NodeId, NodeSet, ParseSetError};
pub use snapshot::SnapshotError;
pub use storage::{Storage, StorageError};
pub use units::{Bandwidth, DataSize, ParseQuantityError};
