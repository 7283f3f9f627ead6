//! NUMA nodes in the order of their distance.

use super::{Device, Locality};
use crate::{CpuId, DataSize, Distances, NodeId, NumaNode, Topology};
use std::collections::BTreeMap;

/// Nodes at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tier<'l> {
    /// The distance, relative to the others of the machine (ACPI's SLIT: 10 is a node to itself);
    /// `None` is unknown, and then these may be nearer than the ones before.
    pub distance: Option<u64>,
    /// All nodes at that distance: first those from which the distance counts, then the others by
    /// number. Never empty.
    pub nodes: &'l [NodeId],
}

/// The tiers of a machine's nodes, the nearest first and those of unknown distance last.
///
/// Together they hold each node for memory once: the allowed nodes that are not known to be without
/// memory.
#[derive(Debug, Clone)]
pub struct Tiers<'l> {
    nodes: &'l [NodeId],
    ends: std::slice::Iter<'l, (Option<u64>, usize)>,
    begin: usize,
}

impl Topology {
    /// The node that `cpu` takes memory from at the lowest distance: its own, or, if that has no
    /// memory or is not allowed, the nearest one with memory that is allowed (the lowest number
    /// among equals).
    ///
    /// A node of unknown memory counts as having some. `None` if the machine has no nodes, if the
    /// CPU is on none of them, or if its node has no memory and the distances that would decide
    /// are unknown.
    pub fn nearest_node(&self, cpu: CpuId) -> Option<NodeId> {
        let own = self.node_of_cpu(cpu)?;
        let order = Order::new(&Matrix::of(self), &[own.id], &with_memory(self));
        order.closest().map(|tier| tier.nodes[0])
    }
}

impl Locality<'_> {
    /// The nodes by their distance from a CPU's own. For a CPU on no node, all are of unknown
    /// distance.
    pub fn nodes_from_cpu(&self, cpu: CpuId) -> Tiers<'_> {
        self.orders.by_cpu(cpu).tiers()
    }

    /// The nodes by their distance from one of them, which may be one without memory. Without such
    /// a node, all are of unknown distance.
    pub fn nodes_from_node(&self, node: NodeId) -> Tiers<'_> {
        self.orders.by_node(node).tiers()
    }

    /// The nodes by their distance from a device: from its node, or, if only the CPUs beside it are
    /// known, from the nearest of their nodes. For a device of unknown locality, all distances
    /// are unknown.
    pub fn nodes_from(&self, device: &impl Device) -> Tiers<'_> {
        self.order_from(device).tiers()
    }

    /// The nodes nearest to a device, among those for memory: the first tier of
    /// [`Locality::nodes_from`]. `None` if the distances that would decide are unknown.
    pub fn closest_nodes(&self, device: &impl Device) -> Option<Tier<'_>> {
        self.order_from(device).closest()
    }

    /// As [`Topology::nearest_node`], without a search.
    pub fn nearest_node(&self, cpu: CpuId) -> Option<NodeId> {
        self.orders.of_cpu(cpu).and_then(Order::closest).map(|tier| tier.nodes[0])
    }

    fn order_from(&self, device: &impl Device) -> &Order {
        match self.device_locality(device) {
            Some(locality) => self.orders.at(locality.order),
            None => &self.orders.unknown,
        }
    }
}

impl<'l> Iterator for Tiers<'l> {
    type Item = Tier<'l>;

    fn next(&mut self) -> Option<Tier<'l>> {
        let (distance, end) = *self.ends.next()?;
        let nodes = &self.nodes[self.begin..end];
        self.begin = end;
        Some(Tier { distance, nodes })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl ExactSizeIterator for Tiers<'_> {}

/// Nodes in the order of their distance from some of them.
#[derive(Debug, Clone)]
pub(super) struct Order {
    nodes: Vec<NodeId>,
    /// The end of each tier.
    ends: Vec<(Option<u64>, usize)>,
}

/// The orders for queries.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    /// The model's nodes, by number; the order of each has the same index in `orders`, and those
    /// from several nodes follow.
    nodes: Vec<NodeId>,
    orders: Vec<Order>,
    /// The index of each CPU's node.
    of_cpu: Vec<Option<u32>>,
    /// All nodes at unknown distance.
    unknown: Order,
    /// The nodes for memory.
    with_memory: Vec<NodeId>,
}

/// The distances, for fast queries.
pub(super) struct Matrix<'a> {
    distances: Option<&'a Distances>,
    positions: BTreeMap<NodeId, usize>,
}

impl Order {
    /// The nodes `to`, in the order of their distance from the nearest of `from`.
    pub(super) fn new(matrix: &Matrix<'_>, from: &[NodeId], to: &[NodeId]) -> Self {
        let from_nearest = |to: &NodeId| {
            let mut nearest = None;
            for from in from {
                // If one distance is unknown, the lowest is unknown too.
                let distance = matrix.between(*from, *to)?;
                nearest = Some(nearest.map_or(distance, |nearest: u64| nearest.min(distance)));
            }
            nearest
        };
        let mut sorted: Vec<_> = to
            .iter()
            .map(|node| {
                let distance = from_nearest(node);
                (distance.is_none(), distance, !from.contains(node), *node)
            })
            .collect();
        sorted.sort_unstable();
        let mut ends: Vec<(Option<u64>, usize)> = Vec::new();
        for (index, (_, distance, ..)) in sorted.iter().enumerate() {
            match ends.last_mut() {
                Some((last, end)) if last == distance => *end = index + 1,
                _ => ends.push((*distance, index + 1)),
            }
        }
        Self { nodes: sorted.into_iter().map(|(.., node)| node).collect(), ends }
    }

    fn tiers(&self) -> Tiers<'_> {
        Tiers { nodes: &self.nodes, ends: self.ends.iter(), begin: 0 }
    }

    /// The first tier, if its distance is known or it is the only one.
    pub(super) fn closest(&self) -> Option<Tier<'_>> {
        self.tiers().next().filter(|tier| tier.distance.is_some() || self.nodes.len() == 1)
    }
}

impl Orders {
    pub(super) fn of(topology: &Topology) -> Self {
        let matrix = Matrix::of(topology);
        let mut nodes: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let with_memory = with_memory(topology);
        let orders = nodes.iter().map(|node| Order::new(&matrix, &[*node], &with_memory)).collect();
        let count = topology.online_cpus().last().map_or(0, |cpu| cpu.0 as usize + 1);
        let mut of_cpu = vec![None; count];
        // Of two nodes that claim a CPU the first has it, as in `Topology::node_of_cpu`.
        for node in topology.nodes().iter().rev() {
            let index = nodes.binary_search(&node.id).ok().map(|index| index as u32);
            for cpu in node.cpus.intersection(topology.online_cpus()).iter() {
                of_cpu[cpu.0 as usize] = index;
            }
        }
        let unknown = Order::new(&matrix, &[], &with_memory);
        Self { nodes, orders, of_cpu, unknown, with_memory }
    }

    /// The index of the order from these nodes, which is made if it is not there yet. `None` stands
    /// for unknown.
    pub(super) fn index_from(&mut self, matrix: &Matrix<'_>, from: &[NodeId]) -> Option<usize> {
        match from {
            [] => None,
            [one] => self.nodes.binary_search(one).ok(),
            several => {
                self.orders.push(Order::new(matrix, several, &self.with_memory));
                Some(self.orders.len() - 1)
            }
        }
    }

    fn at(&self, index: Option<usize>) -> &Order {
        index.and_then(|index| self.orders.get(index)).unwrap_or(&self.unknown)
    }

    fn of_cpu(&self, cpu: CpuId) -> Option<&Order> {
        let index = self.of_cpu.get(cpu.0 as usize).copied().flatten()?;
        self.orders.get(index as usize)
    }

    fn by_cpu(&self, cpu: CpuId) -> &Order {
        self.of_cpu(cpu).unwrap_or(&self.unknown)
    }

    fn by_node(&self, node: NodeId) -> &Order {
        self.at(self.nodes.binary_search(&node).ok())
    }
}

impl<'a> Matrix<'a> {
    pub(super) fn of(topology: &'a Topology) -> Self {
        let distances = topology.distances();
        let nodes = distances.map(Distances::nodes).unwrap_or_default();
        // The first of two rows for one node counts, as in `Distances::between`.
        let positions = nodes.iter().enumerate().rev().map(|(position, node)| (*node, position)).collect();
        Self { distances, positions }
    }

    /// The distance that the firmware gives; where it gives none, only a node's own is known.
    fn between(&self, from: NodeId, to: NodeId) -> Option<u64> {
        let given = || {
            let distances = self.distances?;
            let (row, column) = (self.positions.get(&from)?, self.positions.get(&to)?);
            distances.values.get(row * distances.nodes.len() + column).copied()
        };
        given().or_else(|| (from == to).then_some(LOCAL_DISTANCE))
    }
}

/// The nodes that memory may come from, by number.
fn with_memory(topology: &Topology) -> Vec<NodeId> {
    let is_empty = |node: &NumaNode| node.memory == Some(DataSize::bytes(0));
    let usable = |node: &&NumaNode| topology.allowed_nodes().contains(node.id) && !is_empty(node);
    topology.nodes().iter().filter(usable).map(|node| node.id).collect()
}

/// A node's distance to itself is 10 by definition (ACPI 6.5, 5.2.17 System Locality Information
/// Table).
const LOCAL_DISTANCE: u64 = 10;
