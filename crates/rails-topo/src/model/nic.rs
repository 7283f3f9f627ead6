//! Network interfaces: their attachment, speed, queues and interrupts.

use super::{MacAddress, PciAddress};
use crate::{Bandwidth, CpuSet, NodeId};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nic {
    /// The name in `/sys/class/net`; the interface's folder there has the files below, unless
    /// another one is named.
    pub name: String,
    /// The interface's index in the kernel (`ifindex`), which a rename does not change; `None` is
    /// unknown.
    pub index: Option<u32>,
    /// The interface's kind (`type`, and whether there is a `device`).
    pub kind: NicKind,
    /// The reason, in a configuration file, for which planning leaves the interface alone; `None`
    /// without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
    /// PCI address of the device behind the interface (`device`); `None` if there is none, as in
    /// software, or none is known.
    pub pci: Option<PciAddress>,
    /// The interface's driver (`device/driver`); `None` where it has none, or none is known.
    pub driver: Option<String>,
    /// The NUMA node of the interface's device (`numa_node` of its PCI function, else hwloc's);
    /// `None` is unknown (a missing file, or -1).
    pub node: Option<NodeId>,
    /// CPUs local to the device (`local_cpulist` there, else hwloc's); `None` is unknown.
    pub local_cpus: Option<CpuSet>,
    /// Link speed (`speed`); `None` is unknown (no file, -1, or link down).
    #[serde(rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// Whether the link is up (getifaddrs(3), else `operstate`, and where that is unknown
    /// `carrier`); `None` is unknown.
    pub up: Option<bool>,
    /// Whether there is a carrier (getifaddrs(3), else `carrier`); `None` is unknown, as while the
    /// interface is administratively down.
    pub carrier: Option<bool>,
    /// The kind of a virtual interface (`DEVTYPE` in `uevent`, else by the contents of its folder):
    /// `bond`, `bridge`, `vlan`, `vxlan`, `macvtap`, `tun`, `tap` and others. `None` for a
    /// device, and if the kernel's files do not state it (team, veth and macvlan).
    pub virtual_kind: Option<String>,
    /// The interfaces right under this one (`lower_*`; on old kernels `bonding/slaves`, `brif` and
    /// `/proc/net/vlan/config`): a bond's members, a bridge's ports, the interface of a VLAN. By
    /// name; empty if there are none in its network namespace, or they are unknown.
    /// [`Topology::lanes_of`](crate::Topology::lanes_of) follows them down to the devices.
    pub lowers: Vec<String>,
    /// The port of the device (`dev_port`), from 0; `None` is unknown, and for an interface without
    /// a device. Drivers of devices with a function for each port leave it 0.
    pub port: Option<u32>,
    /// The driver's identifier of the physical port, which all its functions share
    /// (`phys_port_id`), in hexadecimal; `None` where the driver gives none.
    pub physical_port: Option<String>,
    /// The driver's identifier of the switch in the card that the port is on (`phys_switch_id`), in
    /// hexadecimal; `None` where the driver gives none.
    pub physical_switch: Option<String>,
    /// Whether kernel threads poll the interface's packets, and not the interrupt (`threaded`,
    /// Linux 5.12; single queues can differ on newer kernels); `None` is unknown.
    pub threaded_napi: Option<bool>,
    /// Largest packet in bytes (`mtu`); `None` is unknown.
    #[serde(rename = "mtu_bytes")]
    pub mtu: Option<u32>,
    /// Hardware address (`address`); `None` is unknown, or not one of 48 bits (InfiniBand has 20
    /// bytes).
    pub mac: Option<MacAddress>,
    /// IP addresses (getifaddrs(3)); from a copy of the kernel's files only IPv6 addresses
    /// (`/proc/net/if_inet6`), because no file lists IPv4 addresses by interface.
    pub addresses: Vec<InterfaceAddress>,
    /// Receive queues, by index (`queues/rx-*`); empty where there are none, or none are known.
    pub rx_queues: Vec<RxQueue>,
    /// Transmit queues, by index (`queues/tx-*`); empty where there are none, or none are known.
    pub tx_queues: Vec<TxQueue>,
    /// Interrupts of the device, by number (`msi_irqs` of its PCI function, else `irq`); empty
    /// where it has none, or none are known.
    pub interrupts: Vec<Interrupt>,
}

/// The kind of a [`Nic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NicKind {
    /// The loopback interface.
    Loopback,
    /// A device stands behind it (`device` link in sysfs).
    Device,
    /// Virtual: veth, bridge, bond, tun, vlan and others.
    Virtual,
    /// `/sys/class/net` does not show the interface, for example because it belongs to another
    /// network namespace than `/sys`. Only its name, index, hardware address, addresses and
    /// [`Nic::up`] are known.
    Unknown,
}

impl NicKind {
    /// Whether a device may stand behind such a NIC: also behind one of unknown kind.
    pub fn may_have_device(self) -> bool {
        matches!(self, Self::Device | Self::Unknown)
    }
}

/// An IP address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix_len: u8,
}

/// A receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RxQueue {
    /// The queue's index.
    pub index: u32,
    /// CPUs that receive packet steering (RPS) may use (`rps_cpus`); empty is off, `None` is
    /// unknown.
    pub rps_cpus: Option<CpuSet>,
    /// The flows that the queue steers to the CPUs of their readers (RFS, `rps_flow_cnt`); 0 is
    /// off, `None` is unknown.
    pub rps_flows: Option<u32>,
    /// The interrupt of the queue's packets, by the names of the NIC's interrupts
    /// (`/proc/interrupts`): the queue's own, or the one that all queues share; one of
    /// [`Nic::interrupts`]. `None` if there is none, if the driver's names do not state it, or if
    /// several claim the queue.
    pub interrupt: Option<u32>,
}

/// A transmit queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxQueue {
    /// The queue's index.
    pub index: u32,
    /// CPUs that use this queue (XPS, `xps_cpus`); `None` is unknown (a NIC with one queue has the
    /// file but refuses to read it).
    pub xps_cpus: Option<CpuSet>,
    /// The interrupt for transmitted packets, as [`RxQueue::interrupt`].
    pub interrupt: Option<u32>,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupt {
    /// The interrupt's number in `/proc/interrupts`.
    pub number: u32,
    /// The name that the driver gave the interrupt (`/proc/interrupts`); `None` while no driver has
    /// requested it.
    pub name: Option<String>,
    /// The CPUs that may serve the interrupt (`smp_affinity_list`), as requested. `None` is
    /// unknown, never the empty set.
    pub affinity: Option<CpuSet>,
    /// The CPUs that serve the interrupt (`effective_affinity_list`); after a new request they
    /// change when it next fires. `None` is unknown, or not in use yet; never the empty set.
    pub effective: Option<CpuSet>,
}

impl Nic {
    /// A device of that name without any other fact, for tests and for described machines.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            index: None,
            kind: NicKind::Device,
            hidden: None,
            pci: None,
            driver: None,
            node: None,
            local_cpus: None,
            speed: None,
            up: None,
            carrier: None,
            virtual_kind: None,
            lowers: Vec::new(),
            port: None,
            physical_port: None,
            physical_switch: None,
            threaded_napi: None,
            mtu: None,
            mac: None,
            addresses: Vec::new(),
            rx_queues: Vec::new(),
            tx_queues: Vec::new(),
            interrupts: Vec::new(),
        }
    }
}
