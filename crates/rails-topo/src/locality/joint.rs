//! The bandwidth of several interfaces at once.

use super::{
    Locality,
    pci_tree::{FunctionIndex, LinkAbove, PciTree},
};
use crate::{Bandwidth, Nic, PciAddress};
use std::collections::BTreeMap;

/// The bandwidth of several interfaces at once, between their wires and the root complex.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JointBandwidth {
    /// The bandwidth of all interfaces together, in each direction; `None` if a speed is unknown
    /// and no link bounds it.
    pub bandwidth: Option<Bandwidth>,
    /// The PCI Express links that carry less than the bandwidth below them, the lower ones first.
    pub narrow: Vec<NarrowLink>,
}

/// A PCI Express link that carries less than the devices below it could send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NarrowLink {
    /// The function at the link's lower end.
    pub function: PciAddress,
    /// The link's bandwidth in each direction.
    pub bandwidth: Bandwidth,
    /// The bandwidth that the devices below the link offer; `None` is unknown.
    pub offered: Option<Bandwidth>,
}

impl<'a> Locality<'a> {
    /// The bandwidth of these interfaces at once. Each counts once, and interfaces of one physical
    /// port have the speed of the fastest among them. Interfaces with one [`Nic::physical_port`]
    /// are of one port, and so is a virtual function with the interface of its physical function. A
    /// link of unknown bandwidth counts as wide enough.
    pub fn joint_bandwidth<'n>(&self, nics: impl IntoIterator<Item = &'n Nic>) -> JointBandwidth {
        let mut ports: BTreeMap<Wire<'_>, Port> = BTreeMap::new();
        for nic in nics {
            let port = Port { offered: nic.speed.into(), at: nic.pci.and_then(|address| self.tree.physical(address)) };
            let known = ports.entry(self.wire(nic)).or_insert(port);
            known.offered = known.offered.faster(port.offered);
            known.at = known.at.into_iter().chain(port.at).min();
        }
        let mut flows = Flows { tree: &self.tree, total: Offered::NOTHING, below: BTreeMap::new(), narrow: Vec::new() };
        ports.into_values().for_each(|port| flows.add(port));
        flows.rise();
        JointBandwidth { bandwidth: flows.total.known(), narrow: flows.narrow }
    }

    fn wire<'n>(&self, nic: &'n Nic) -> Wire<'n>
    where
        'a: 'n,
    {
        if let Some(port) = &nic.physical_port {
            return Wire::Port(port);
        }
        let at = |address: PciAddress| self.tree.find(address).map(|at| self.tree.function(at));
        let Some(physical) = nic.pci.and_then(at).and_then(|function| function.physical_function) else {
            return Wire::Interface(&nic.name);
        };
        // A function can have several ports (`dev_port`).
        let is_upper = |other: &&Nic| other.pci == Some(physical) && (nic.port.is_none() || other.port == nic.port);
        match self.topology().nics().iter().find(is_upper) {
            Some(upper) => upper.physical_port.as_deref().map_or(Wire::Interface(&upper.name), Wire::Port),
            None => Wire::Function(physical, nic.port),
        }
    }
}

/// The identity of a physical port.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Wire<'n> {
    /// The driver's name of the port.
    Port(&'n str),
    /// The port of an interface.
    Interface(&'n str),
    /// A port of a physical function that has no interface.
    Function(PciAddress, Option<u32>),
}

/// A physical port.
#[derive(Clone, Copy)]
struct Port {
    offered: Offered,
    at: Option<FunctionIndex>,
}

/// A bandwidth; unknown is more than any other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offered(u64);

impl Offered {
    const NOTHING: Self = Self(0);
    const UNKNOWN: Self = Self(u64::MAX);

    fn known(self) -> Option<Bandwidth> {
        (self != Self::UNKNOWN).then_some(Bandwidth::bits_per_second(self.0))
    }

    fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The larger of two speeds of one port, or the only known one.
    fn faster(self, other: Self) -> Self {
        match (self.known(), other.known()) {
            (Some(a), Some(b)) => Some(a.max(b)).into(),
            (known, None) | (None, known) => known.into(),
        }
    }
}

impl From<Option<Bandwidth>> for Offered {
    fn from(bandwidth: Option<Bandwidth>) -> Self {
        bandwidth.map_or(Self::UNKNOWN, |bandwidth| Self(bandwidth.as_bits_per_second()))
    }
}

/// The bandwidth on its way from the ports through the links.
struct Flows<'t> {
    tree: &'t PciTree,
    /// The bandwidth that has reached the root complex.
    total: Offered,
    /// The bandwidth that has reached each function from below, by depth and place, with the depth
    /// of a device below it.
    below: BTreeMap<(u32, FunctionIndex), (Offered, u32)>,
    narrow: Vec<NarrowLink>,
}

impl Flows<'_> {
    fn add(&mut self, port: Port) {
        match port.at {
            Some(at) => self.reach(at, port.offered, self.tree.function(at).depth),
            None => self.total = self.total.and(port.offered),
        }
    }

    fn reach(&mut self, at: FunctionIndex, offered: Offered, begin: u32) {
        let depth = self.tree.function(at).depth;
        let (known, _) = self.below.entry((depth, at)).or_insert((Offered::NOTHING, begin));
        *known = known.and(offered);
    }

    /// Passes the bandwidth of the lowest functions through the links above them, until all has
    /// reached the root complex. The functions below one port share its link.
    fn rise(&mut self) {
        while let Some((&(depth, _), _)) = self.below.last_key_value() {
            let lowest = self.below.split_off(&(depth, 0));
            let mut links: BTreeMap<FunctionIndex, Link> = BTreeMap::new();
            for ((_, at), (offered, begin)) in lowest {
                let function = self.tree.function(at);
                if let Some(LinkAbove { port, bandwidth }) = self.tree.link_above(function, begin) {
                    let link = Link { function: function.address, bandwidth, offered: Offered::NOTHING, begin };
                    let link = links.entry(port).or_insert(link);
                    link.offered = link.offered.and(offered);
                    // Any of the functions below the port may state the link.
                    link.bandwidth = link.bandwidth.or(bandwidth);
                } else if let Some(parent) = function.parent {
                    self.reach(parent, offered, begin);
                } else {
                    self.total = self.total.and(offered);
                }
            }
            for (parent, Link { function, bandwidth, offered, begin }) in links {
                let carried = offered.min(bandwidth.into());
                if let Some(bandwidth) = bandwidth.filter(|_| carried < offered) {
                    self.narrow.push(NarrowLink { function, bandwidth, offered: offered.known() });
                }
                self.reach(parent, carried, begin);
            }
        }
    }
}

/// A link, with the bandwidth below it.
struct Link {
    function: PciAddress,
    bandwidth: Option<Bandwidth>,
    offered: Offered,
    begin: u32,
}
