//! What is near what: an index made once from a model, whose queries allocate nothing.
//!
//! The index is a value of its own that borrows its model, and not something that a [`Topology`] fills in behind its owner's back:
//! so it is never older than the model (the compiler sees to it, while a hidden one would have to be thrown away by every change of a fact),
//! the model stays what it is when it is compared, copied and written, and whoever makes it sees what it costs.
//!
//! Answers about what may be used (nodes, PUs) stay inside the allowed sets. Answers about how things hang together (common ancestors, paths, cards) are of the whole
//! machine. What the model does not know is said: an unknown distance is a tier of its own, an unknown place is `None`.

mod ancestor;
mod cards;
mod device;
mod device_localities;
mod levels;
mod path;
mod pci_tree;
mod tiers;

pub use ancestor::CommonAncestor;
pub use cards::Sharer;
pub use device::Device;
pub use device_localities::ClosestPus;
pub use levels::{Level, Shared};
pub use path::PciPath;
pub use tiers::{Tier, Tiers};

use crate::Topology;
use cards::Cards;
use device_localities::DeviceLocalities;
use levels::Levels;
use pci_tree::PciTree;
use tiers::Orders;

/// What is near what on one machine. Made by [`Topology::locality`].
///
/// Making it takes time and memory, about as much as copying the model; queries take neither locks nor memory, and well below a microsecond
/// each. It is of the model that it was made from: a device of another model is of unknown place here.
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
    /// What is near what on this machine: an index for many questions, made at each call.
    pub fn locality(&self) -> Locality<'_> {
        let mut orders = Orders::of(self);
        let device_localities = DeviceLocalities::of(self, &mut orders);
        let tree = PciTree::of(self.pci_devices());
        let cards = Cards::of(self, &tree);
        Locality { topology: self, levels: Levels::of(self), orders, device_localities, tree, cards }
    }
}

impl<'a> Locality<'a> {
    /// The model that it was made from.
    pub fn topology(&self) -> &'a Topology {
        self.topology
    }
}
