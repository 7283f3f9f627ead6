//! The path from a device to memory, as far as it is PCI Express.

use super::{
    Device, Locality,
    pci_tree::{At, Function},
};
use crate::{Bandwidth, PciAddress};

/// The PCI Express links between a device and the root complex, behind which memory is.
///
/// The part between the root complex and the memory is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PciPath {
    /// The narrowest of the links of known bandwidth, by the function at its lower end, and its bandwidth in each
    /// direction. `None` without a link of known bandwidth.
    pub narrowest: Option<(PciAddress, Bandwidth)>,
    /// How many links there are, as far as the way up is known: none above a device on a root bus.
    pub links: usize,
    /// Of how many of them the bandwidth is unknown: each may be narrower than the narrowest.
    pub unknown: usize,
    /// Whether the way up is known as far as a root bus. If not, there may be more links.
    pub reaches_root: bool,
}

impl PciPath {
    /// The bandwidth of the path in each direction; `None` if a part of it is unknown, or nothing on it is a link.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        let whole = self.reaches_root && self.unknown == 0;
        self.narrowest.filter(|_| whole).map(|(_, bandwidth)| bandwidth)
    }
}

impl Locality<'_> {
    /// The way from a device to the root complex. A virtual function's is that of its physical one. `None` where the
    /// device has no PCI function, or the model does not know it.
    pub fn path(&self, device: &impl Device) -> Option<PciPath> {
        Some(self.path_from(self.tree.physical(device.pci()?)?))
    }

    fn path_from(&self, from: At) -> PciPath {
        let top = self.tree.top(from);
        let begin = self.tree.function(from).depth;
        let mut path = PciPath { narrowest: None, links: 0, unknown: 0, reaches_root: top.reaches_root };
        for function in self.tree.upwards(from).filter(|function| has_link_above(function, begin)) {
            path.links += 1;
            // Both ends of a link state it; the upper one is the port right above.
            let upper = || function.parent.and_then(|parent| self.tree.function(parent).bandwidth);
            match function.bandwidth.or_else(upper) {
                Some(bandwidth) if path.narrowest.is_none_or(|(_, narrowest)| bandwidth < narrowest) => {
                    path.narrowest = Some((function.address, bandwidth));
                }
                Some(_) => {}
                None => path.unknown += 1,
            }
        }
        path
    }
}

/// Whether a link is above the function.
///
/// Down from a root bus come in turn a root port, an endpoint or a switch's upper port, one of its lower ports, and so
/// on (PCI Express Base Specification, 1.3). Links lead down from root ports and lower ports; between the ports of a
/// switch there is none, and the Link Status Register (7.5.3.8) of a lower port describes the link below it. So there
/// is a link above each function at an odd depth, or, if the way up ends in the unknown, above the device itself and
/// every other function from there.
pub(super) fn has_link_above(function: &Function, begin: u32) -> bool {
    let above_first = begin - function.depth;
    match function.reaches_root {
        true => function.depth % 2 == 1,
        false => above_first.is_multiple_of(2) && function.depth > 0,
    }
}
