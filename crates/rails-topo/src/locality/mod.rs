//! Locality: an index made once from a model, whose queries allocate nothing.
//!
//! The index is a value of its own that borrows its model. So it is never older than the model (the
//! compiler sees to it, while every change of a fact would invalidate a hidden index), the model
//! stays the same when it is compared, copied and written, and the cost is visible to the caller.
//!
//! Answers about usable objects (nodes, PUs) stay within the allowed sets. Answers about structure
//! (common ancestors, paths, cards) are of the whole machine. Unknown facts stay visible: an
//! unknown distance is a tier of its own, an unknown locality is `None`.

mod ancestor;
mod cards;
mod device;
mod device_localities;
mod joint;
mod levels;
mod path;
mod pci_tree;
mod tiers;

use crate::Topology;
pub use ancestor::CommonAncestor;
use cards::Cards;
pub use cards::Sharer;
pub use device::Device;
pub use device_localities::ClosestPus;
use device_localities::DeviceLocalities;
pub use joint::{JointBandwidth, NarrowLink};
use levels::Levels;
pub use levels::{Level, SharedObject};
pub use path::PciPath;
use pci_tree::PciTree;
use tiers::Orders;
pub use tiers::{Tier, Tiers};

/// The locality of the objects and devices of one machine. Made by [`Topology::locality`].
///
/// Making it takes time and memory, about as much as copying the model; queries take neither locks
/// nor memory, and well below a microsecond each. The index describes the model that it was made
/// from: a device of another model has an unknown locality here.
///
/// # Examples
///
/// ```
/// use rails_topo::{CpuId, Level, Nic, NodeId, Topology};
///
/// let nic = Nic { node: Some(NodeId(1)), ..Nic::named("eth0") };
/// let machine = Topology::synthetic("package:2 numa:2 l3:1 core:4 pu:2", vec![nic])?;
/// let locality = machine.locality();
/// let eth0 = &machine.nics()[0];
/// assert_eq!(locality.closest_pus(eth0).unwrap().cpus.to_string(), "8-15");
/// assert_eq!(locality.closest_nodes(eth0).unwrap().nodes, [NodeId(1)]);
/// // Three other nodes are equally far, and all of them are said.
/// assert_eq!(locality.nodes_from_cpu(CpuId(0)).nth(1).unwrap().nodes, [NodeId(1), NodeId(2), NodeId(3)]);
/// assert_eq!(locality.shared_by(CpuId(0), CpuId(9)).unwrap().level, Level::Package);
/// # Ok::<(), rails_topo::SyntheticError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Locality<'a> {
    topology: &'a Topology,
    levels: Levels,
    orders: Orders,
    device_localities: DeviceLocalities,
    tree: PciTree,
    cards: Cards,
}

impl Topology {
    /// The locality index of this machine, for many queries; each call makes one.
    pub fn locality(&self) -> Locality<'_> {
        let mut orders = Orders::of(self);
        let device_localities = DeviceLocalities::of(self, &mut orders);
        let tree = PciTree::of(self.pci_devices());
        let cards = Cards::of(self, &tree);
        Locality { topology: self, levels: Levels::of(self), orders, device_localities, tree, cards }
    }
}

impl<'a> Locality<'a> {
    /// The model that the index was made from.
    pub fn topology(&self) -> &'a Topology {
        self.topology
    }
}
