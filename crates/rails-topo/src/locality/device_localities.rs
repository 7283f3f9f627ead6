//! The localities of devices, and the allowed PUs closest to each.

use super::{
    Device, Locality,
    device::Stated,
    tiers::{Matrix, Order, Orders},
};
use crate::{CpuSet, NodeId, Topology};

/// The allowed PUs that are closest to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosestPus<'l> {
    /// All of these PUs; never empty.
    pub cpus: &'l CpuSet,
    /// Whether the PUs are beside the device. If not, no PU beside it is allowed, and these are on
    /// the nearest nodes with allowed PUs.
    pub beside: bool,
    /// The distance of these nodes from the device's node, as
    /// [`Tier::distance`](crate::Tier::distance); `None` if the PUs are beside the device, or if
    /// the distance is unknown and there is no other node to choose.
    pub distance: Option<u64>,
}

impl Locality<'_> {
    /// The allowed PUs closest to a device; `None` is unknown.
    pub fn closest_pus(&self, device: &impl Device) -> Option<ClosestPus<'_>> {
        let closest = self.device_locality(device)?.closest.as_ref()?;
        Some(ClosestPus { cpus: &closest.cpus, beside: closest.beside, distance: closest.distance })
    }

    /// The locality of a device of this model.
    pub(super) fn device_locality(&self, device: &impl Device) -> Option<&DeviceLocality> {
        self.device_localities.at(Stated::of(self.topology, device))
    }
}

/// A locality that devices state, with its consequences.
#[derive(Debug, Clone)]
pub(super) struct DeviceLocality {
    stated_node: Option<NodeId>,
    stated_cpus: Option<CpuSet>,
    /// The node of the locality, if there is exactly one.
    pub(super) node: Option<NodeId>,
    pub(super) package: PackageLocality,
    /// The index of the order of nodes that begins at the locality.
    pub(super) order: Option<usize>,
    closest: Option<Closest>,
}

/// The package of a locality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackageLocality {
    Unknown,
    /// The package at that index.
    One(usize),
    /// The CPUs beside the locality are of several packages.
    Several,
}

#[derive(Debug, Clone)]
struct Closest {
    cpus: CpuSet,
    beside: bool,
    distance: Option<u64>,
}

/// The localities of a machine's devices, in the order of the stated nodes and CPUs.
#[derive(Debug, Clone)]
pub(super) struct DeviceLocalities(Vec<DeviceLocality>);

impl DeviceLocalities {
    pub(super) fn of(topology: &Topology, orders: &mut Orders) -> Self {
        let mut stated: Vec<Stated<'_>> = Vec::new();
        stated.extend(topology.nics().iter().map(|nic| Stated::of(topology, nic)));
        stated.extend(topology.rdma_devices().iter().map(|device| Stated::of(topology, device)));
        stated.extend(topology.gpus().iter().map(|gpu| Stated::of(topology, gpu)));
        stated.extend(topology.block_devices().iter().map(|disk| Stated::of(topology, disk)));
        stated.extend(topology.pci_devices().iter().map(|function| Stated::of(topology, function)));
        stated.sort_by(|a, b| a.key().cmp(&b.key()));
        stated.dedup();
        let matrix = Matrix::of(topology);
        Self(stated.into_iter().map(|stated| DeviceLocality::new(topology, &matrix, orders, stated)).collect())
    }

    fn at(&self, stated: Stated<'_>) -> Option<&DeviceLocality> {
        let index = self.0.binary_search_by(|locality| locality.stated().key().cmp(&stated.key())).ok()?;
        self.0.get(index)
    }
}

impl DeviceLocality {
    fn new(topology: &Topology, matrix: &Matrix<'_>, orders: &mut Orders, stated: Stated<'_>) -> Self {
        let beside = stated.beside(topology);
        let nodes = stated.nodes(topology, beside.as_ref());
        Self {
            stated_node: stated.node,
            stated_cpus: stated.local_cpus.cloned(),
            node: match nodes[..] {
                [node] => Some(node),
                _ => None,
            },
            package: PackageLocality::of(topology, beside.as_ref()),
            order: orders.index_from(matrix, &nodes),
            closest: Closest::to(topology, matrix, &nodes, beside.as_ref()),
        }
    }

    fn stated(&self) -> Stated<'_> {
        Stated { node: self.stated_node, local_cpus: self.stated_cpus.as_ref() }
    }
}

impl<'d> Stated<'d> {
    fn key(self) -> (Option<NodeId>, Option<&'d [u64]>) {
        (self.node, self.local_cpus.map(CpuSet::as_words))
    }
}

impl PackageLocality {
    fn of(topology: &Topology, beside: Option<&CpuSet>) -> Self {
        let Some(beside) = beside else { return Self::Unknown };
        let mut touched = (0..).zip(topology.packages()).filter(|(_, package)| package.cpus.intersects(beside));
        match (touched.next(), touched.next()) {
            (Some((index, package)), None) if beside.is_subset(&package.cpus) => Self::One(index),
            (Some(_), Some(_)) => Self::Several,
            _ => Self::Unknown,
        }
    }
}

impl Closest {
    fn to(topology: &Topology, matrix: &Matrix<'_>, from: &[NodeId], beside: Option<&CpuSet>) -> Option<Self> {
        let allowed = topology.allowed_cpus();
        let usable = beside.map(|beside| beside.intersection(allowed)).unwrap_or_default();
        if !usable.is_empty() {
            return Some(Self { cpus: usable, beside: true, distance: None });
        }
        let with_cpus = topology.nodes().iter().filter(|node| node.cpus.intersects(allowed));
        let with_cpus: Vec<NodeId> = with_cpus.map(|node| node.id).collect();
        let order = Order::new(matrix, from, &with_cpus);
        let tier = order.closest()?;
        let nearest = topology.nodes().iter().filter(|node| tier.nodes.contains(&node.id));
        let cpus = nearest.fold(CpuSet::new(), |all, node| all.union(&node.cpus.intersection(allowed)));
        Some(Self { cpus, beside: false, distance: tier.distance })
    }
}
