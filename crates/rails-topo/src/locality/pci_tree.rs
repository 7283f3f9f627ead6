//! The tree of PCI functions.

use crate::{Bandwidth, PciAddress, PciDevice};

/// The functions of a machine, each with the bridge above it.
///
/// A bridge that other functions name, and that is not described, is part of the tree too; its own
/// parent is unknown.
#[derive(Debug, Clone)]
pub(super) struct PciTree {
    /// The functions, by address.
    functions: Vec<Function>,
}

/// A place in the tree.
pub(super) type FunctionIndex = usize;

#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) address: PciAddress,
    pub(super) parent: Option<FunctionIndex>,
    /// The number of known bridges above the function.
    pub(super) depth: u32,
    /// Whether the way up ends on a root bus, and not at a bridge of unknown parent.
    pub(super) reaches_root: bool,
    pub(super) bandwidth: Option<Bandwidth>,
    pub(super) physical_function: Option<PciAddress>,
}

/// A PCI Express link, seen from the function at its lower end.
pub(super) struct LinkAbove {
    /// The port at the link's upper end.
    pub(super) port: FunctionIndex,
    /// The bandwidth that either end states; `None` is unknown.
    pub(super) bandwidth: Option<Bandwidth>,
}

impl PciTree {
    pub(super) fn of(devices: &[PciDevice]) -> Self {
        let named = devices.iter().flat_map(|device| [Some(device.address), device.parent]);
        let mut addresses: Vec<PciAddress> = named.flatten().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let index_of = |address: PciAddress| addresses.binary_search(&address).ok();
        let unknown = |address: &PciAddress| Function {
            address: *address,
            parent: None,
            depth: 0,
            reaches_root: false,
            bandwidth: None,
            physical_function: None,
        };
        let mut functions: Vec<Function> = addresses.iter().map(unknown).collect();
        for device in devices {
            let Some(function) = index_of(device.address).and_then(|at| functions.get_mut(at)) else { continue };
            function.parent = device.parent.and_then(index_of);
            function.reaches_root = device.parent.is_none();
            function.bandwidth = device.bandwidth;
            function.physical_function = device.physical_function;
        }
        let mut tree = Self { functions };
        tree.measure_depths();
        tree
    }

    /// The index of the function of that address.
    pub(super) fn find(&self, address: PciAddress) -> Option<FunctionIndex> {
        self.functions.binary_search_by_key(&address, |function| function.address).ok()
    }

    /// The place of a function; of a virtual one, that of its physical one.
    pub(super) fn physical(&self, address: PciAddress) -> Option<FunctionIndex> {
        let at = self.find(address)?;
        let physical = self.function(at).physical_function.and_then(|address| self.find(address));
        Some(physical.unwrap_or(at))
    }

    pub(super) fn function(&self, at: FunctionIndex) -> &Function {
        &self.functions[at]
    }

    /// The function itself and the bridges above it, upwards.
    pub(super) fn upwards(&self, at: FunctionIndex) -> impl Iterator<Item = &Function> {
        std::iter::successors(Some(self.function(at)), |function| function.parent.map(|parent| self.function(parent)))
    }

    /// The topmost function on the way up from there.
    pub(super) fn top(&self, at: FunctionIndex) -> &Function {
        self.upwards(at).last().unwrap_or(self.function(at))
    }

    /// The link above a function, on the way up from a device at the depth `begin`.
    ///
    /// Down from a root bus come in turn a root port, an endpoint or a switch's upper port, one of
    /// its lower ports, and so on (PCI Express Base Specification, 1.3). Links lead down from
    /// root ports and lower ports; between the ports of a switch there is none, and the Link
    /// Status Register (7.5.3.8) of a lower port describes the link below it. So there is a
    /// link above each function at an odd depth, or, if the way up ends in the unknown, above the
    /// device itself and every other function from there. Both ends of a link state it.
    pub(super) fn link_above(&self, function: &Function, begin: u32) -> Option<LinkAbove> {
        let port = function.parent?;
        let is_link = match function.reaches_root {
            true => function.depth % 2 == 1,
            false => (begin - function.depth).is_multiple_of(2),
        };
        let bandwidth = function.bandwidth.or(self.function(port).bandwidth);
        is_link.then_some(LinkAbove { port, bandwidth })
    }

    /// The lowest function that is above both, or is one of them.
    pub(super) fn lowest_above(&self, a: FunctionIndex, b: FunctionIndex) -> Option<FunctionIndex> {
        let (mut a, mut b) = (a, b);
        while a != b {
            match self.function(a).depth.cmp(&self.function(b).depth) {
                std::cmp::Ordering::Greater => a = self.function(a).parent?,
                std::cmp::Ordering::Less => b = self.function(b).parent?,
                std::cmp::Ordering::Equal => (a, b) = (self.function(a).parent?, self.function(b).parent?),
            }
        }
        Some(a)
    }

    /// Counts the bridges above each function. If bridges are above themselves, which no machine's
    /// are, the way up is cut.
    fn measure_depths(&mut self) {
        let mut visits = vec![Visit::New; self.functions.len()];
        let mut path = Vec::new();
        for begin in 0..self.functions.len() {
            let mut next = Some(begin);
            while let Some(at) = next.filter(|at| visits[*at] == Visit::New) {
                visits[at] = Visit::OnPath;
                path.push(at);
                next = self.functions[at].parent;
                if next.is_some_and(|parent| visits[parent] == Visit::OnPath) {
                    self.functions[at].parent = None;
                    next = None;
                }
            }
            while let Some(at) = path.pop() {
                if let Some(parent) = self.functions[at].parent {
                    let Function { depth, reaches_root, .. } = self.functions[parent];
                    self.functions[at].depth = depth + 1;
                    self.functions[at].reaches_root = reaches_root;
                }
                visits[at] = Visit::Done;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    OnPath,
    Done,
}

/// Domain, bus and device of a function; of a virtual one, those of its physical one, which may be
/// on another bus.
pub(super) fn slot(tree: &PciTree, address: PciAddress) -> (u32, u8, u8) {
    let physical = tree.find(address).and_then(|at| tree.function(at).physical_function);
    let of = physical.unwrap_or(address);
    (of.domain, of.bus, of.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each way up ends, with any parents, loops among them.
        #[test]
        fn every_way_up_ends(parents in proptest::collection::vec(proptest::option::of(0..24u8), 0..20)) {
            let address = |bus: u8| PciAddress { domain: 0, bus, device: 0, function: 0 };
            let device = |(bus, parent): (u8, &Option<u8>)| PciDevice {
                parent: parent.map(address),
                ..PciDevice::at(address(bus))
            };
            let devices: Vec<PciDevice> = (0..).zip(&parents).map(device).collect();
            let tree = PciTree::of(&devices);
            for at in 0..tree.functions.len() {
                let depth = tree.function(at).depth as usize;
                prop_assert_eq!(tree.upwards(at).take(100).count(), depth + 1);
                prop_assert!(depth < tree.functions.len());
                for other in 0..tree.functions.len() {
                    prop_assert_eq!(tree.lowest_above(at, other), tree.lowest_above(other, at));
                }
            }
        }
    }
}
