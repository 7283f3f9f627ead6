//! PCI: functions, the bridges above them, and the links between.

use super::PciAddress;
use crate::{Bandwidth, CpuSet, NodeId};
use serde::{Deserialize, Serialize};

/// A PCI function: a device, a part of one, or a bridge to more.
///
/// From `/sys/bus/pci/devices`; a missing fact is `None`. An hwloc file has class, ids, bridges and
/// bandwidth, but neither drivers nor virtual functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PciDevice {
    /// The function's address.
    pub address: PciAddress,
    /// The class (`class`): 24 bits of class, subclass and programming interface, as the PCI Code
    /// and ID Assignment Specification numbers them. 0x020000 is an Ethernet controller. An
    /// hwloc file does not state the programming interface: there, the lowest 8 bits are 0.
    pub class: Option<u32>,
    /// The function's vendor (`vendor`).
    pub vendor: Option<u16>,
    /// The device id that the vendor gave (`device`).
    pub device: Option<u16>,
    /// The nearest bridge above the function that is among the machine's functions; `None` on a
    /// root bus. Parents form no circle.
    pub parent: Option<PciAddress>,
    /// The buses behind the function, if it is a bridge.
    pub bridge: Option<PciBridge>,
    /// The negotiated link at the function's port (`current_link_speed`, `current_link_width`;
    /// before Linux 4.13 the link status of `config`, which only root may read). The link leads up;
    /// but that of a root port, or of a lower port of a switch, leads down, so both ends of a link
    /// state the same. `None` if the link is unknown, and without a link, as in the processor
    /// itself, on virtual machines and in an empty slot.
    pub link: Option<PciLink>,
    /// The fastest link that the port could have (`max_link_speed`, `max_link_width`): the other
    /// end holds a slower [`PciDevice::link`] back, or it saves power.
    pub max_link: Option<PciLink>,
    /// The bandwidth of the link in each direction: by [`PciLink::bandwidth`], or from hwloc's
    /// file. `None` is unknown.
    #[serde(rename = "bandwidth_bits_per_second")]
    pub bandwidth: Option<Bandwidth>,
    /// The function's driver (`driver`); `None` where it has none.
    pub driver: Option<String>,
    /// The node of the function's attachment (`numa_node`, else hwloc's); `None` is unknown (-1, or
    /// no such node).
    pub node: Option<NodeId>,
    /// The CPUs local to the function (`local_cpulist`, else hwloc's); `None` is unknown, also if
    /// the kernel lists all CPUs of a machine of several nodes or packages.
    pub local_cpus: Option<CpuSet>,
    /// The physical function of a virtual one (`physfn`).
    pub physical_function: Option<PciAddress>,
    /// Virtual functions (`sriov_numvfs`, `sriov_totalvfs`); `None` if the function cannot have
    /// any, or they are unknown.
    pub virtual_functions: Option<VirtualFunctions>,
}

/// The buses behind a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PciBridge {
    /// The bus right behind the bridge (`secondary_bus_number`).
    pub secondary: u8,
    /// The highest bus behind the bridge (`subordinate_bus_number`).
    pub subordinate: u8,
}

/// A PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PciLink {
    /// Transfers per second and lane, in millions: 2,500 is the first generation, 32,000 the fifth.
    #[serde(rename = "speed_mt_per_second")]
    pub speed: u32,
    /// The link's lanes.
    pub width: u8,
}

/// The counts of a physical function's virtual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VirtualFunctions {
    /// The number of functions that are enabled.
    pub enabled: u16,
    /// The number of functions that can be enabled.
    pub total: u16,
}

impl PciDevice {
    /// A function of that address without any other fact.
    pub fn at(address: PciAddress) -> Self {
        Self {
            address,
            class: None,
            vendor: None,
            device: None,
            parent: None,
            bridge: None,
            link: None,
            max_link: None,
            bandwidth: None,
            driver: None,
            node: None,
            local_cpus: None,
            physical_function: None,
            virtual_functions: None,
        }
    }

    /// Whether the function's base class is 03h, "display controller" (PCI Code and ID Assignment
    /// Specification): graphics cards, and cards that only compute.
    pub(crate) fn is_display_controller(&self) -> bool {
        self.class.is_some_and(|class| class >> 16 == 0x03)
    }
}

impl PciLink {
    /// A link of that many millions of transfers per second, and of that many lanes; `None` for
    /// more than 32 lanes.
    pub(crate) fn of(speed: u32, width: u32) -> Option<Self> {
        let width = u8::try_from(width).ok().filter(|width| (1..=32).contains(width))?;
        (speed > 0).then_some(Self { speed, width })
    }

    /// The bandwidth in each direction without the line code (8b/10b up to 5 GT/s, 128b/130b up to
    /// 32 GT/s, and from 64 GT/s on FLITs of 242 bytes in 256); the headers of packets take a
    /// part of it.
    pub fn bandwidth(self) -> Bandwidth {
        let raw = u64::from(self.speed) * 1_000_000 * u64::from(self.width);
        let bits = match self.speed {
            ..=5_000 => raw / 10 * 8,
            5_001..=32_000 => raw / 130 * 128,
            _ => raw / 256 * 242,
        };
        Bandwidth::bits_per_second(bits)
    }
}
