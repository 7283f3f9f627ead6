//! The path from a device to memory, as far as it is PCI Express.

use super::{Device, Locality, pci_tree::FunctionIndex};
use crate::{Bandwidth, PciAddress};

/// The PCI Express links between a device and the root complex.
///
/// The part between the root complex and the memory is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PciPath {
    /// The narrowest of the links of known bandwidth, by the function at its lower end, and its
    /// bandwidth in each direction. `None` without a link of known bandwidth.
    pub narrowest: Option<(PciAddress, Bandwidth)>,
    /// The number of links, as far as the way up is known: none above a device on a root bus.
    pub links: usize,
    /// The number of links of unknown bandwidth: each may be narrower than the narrowest.
    pub unknown: usize,
    /// Whether the way up is known as far as a root bus. If not, there may be more links.
    pub reaches_root: bool,
}

impl PciPath {
    /// The bandwidth of the path in each direction; `None` if a part of it is unknown, or nothing
    /// on it is a link.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        let whole = self.reaches_root && self.unknown == 0;
        self.narrowest.filter(|_| whole).map(|(_, bandwidth)| bandwidth)
    }
}

impl Locality<'_> {
    /// The way from a device to the root complex. A virtual function's is that of its physical one.
    /// `None` where the device has no PCI function, or the model does not know it.
    pub fn path(&self, device: &impl Device) -> Option<PciPath> {
        Some(self.path_from(self.tree.physical(device.pci()?)?))
    }

    fn path_from(&self, from: FunctionIndex) -> PciPath {
        let top = self.tree.top(from);
        let begin = self.tree.function(from).depth;
        let mut path = PciPath { narrowest: None, links: 0, unknown: 0, reaches_root: top.reaches_root };
        for function in self.tree.upwards(from) {
            let Some(link) = self.tree.link_above(function, begin) else { continue };
            path.links += 1;
            match link.bandwidth {
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
