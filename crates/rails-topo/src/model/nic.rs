//! Network interfaces: where they hang, how fast they are, their queues and interrupts.

use super::{MacAddress, PciAddress};
use crate::{Bandwidth, CpuSet, NodeId};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its name, in `/sys/class/net`, whose files for it are meant where none other is named.
    pub name: String,
    /// The kernel's number of it (`ifindex`), which it keeps when it is renamed; `None` is unknown.
    pub index: Option<u32>,
    /// What kind of interface it is (`type`, and whether there is a `device`).
    pub kind: NicKind,
    /// Why planning is to leave it alone, as a configuration file says; `None` where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
    /// PCI address of the device behind it (`device`); `None` where it has none, as in software, or none is known.
    pub pci: Option<PciAddress>,
    /// Its driver (`device/driver`); `None` where it has none, or none is known.
    pub driver: Option<String>,
    /// NUMA node the device hangs on (`numa_node` of its PCI function, else where hwloc puts it); `None` is unknown (a missing file, or -1).
    pub node: Option<NodeId>,
    /// CPUs local to the device (`local_cpulist` there, else hwloc's); `None` is unknown.
    pub local_cpus: Option<CpuSet>,
    /// Link speed (`speed`); `None` is unknown (no file, -1, or link down).
    #[serde(rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// Whether the link is up (`operstate`, and where that is unknown `carrier`); `None` is unknown.
    pub up: Option<bool>,
    /// Whether there is a carrier (`carrier`); `None` is unknown, as while the interface is administratively down.
    pub carrier: Option<bool>,
    /// What kind of virtual interface it is (`DEVTYPE` in `uevent`, else what its folder holds): `bond`, `bridge`, `vlan`, `vxlan`, `macvtap`,
    /// `tun`, `tap` and the like. `None` of a device, and where the kernel's files do not say, as of team, veth and macvlan.
    pub virtual_kind: Option<String>,
    /// The interfaces right under it, of which it is made (`lower_*`; on old kernels `bonding/slaves`, `brif` and `/proc/net/vlan/config`): a bond's members, a
    /// bridge's ports, what a VLAN lies on. By name; empty where there are none in its network namespace, or nothing says.
    /// [`Topology::lanes_of`](crate::Topology::lanes_of) follows them down to the devices.
    pub lowers: Vec<String>,
    /// Which of its device's ports it is (`dev_port`), from 0; `None` is unknown, and of what is no device. Drivers of devices with a function
    /// for each port leave it 0.
    pub port: Option<u32>,
    /// A name of the port that all its functions share (`phys_port_id`), in hexadecimal; `None` where the driver gives none.
    pub physical_port: Option<String>,
    /// A name of the switch that the port is on, in the card (`phys_switch_id`), in hexadecimal; `None` where the driver gives none.
    pub physical_switch: Option<String>,
    /// Whether its packets are polled by threads of the kernel and not in the interrupt (`threaded`, Linux 5.12; of the whole interface:
    /// single queues can differ on newer kernels); `None` is unknown.
    pub threaded_napi: Option<bool>,
    /// Largest packet in bytes (`mtu`); `None` is unknown.
    #[serde(rename = "mtu_bytes")]
    pub mtu: Option<u32>,
    /// Hardware address (`address`); `None` is unknown, or not one of 48 bits (InfiniBand has 20 bytes).
    pub mac: Option<MacAddress>,
    /// IP addresses (getifaddrs(3)); from a copy of the kernel's files only those of version 6 (`/proc/net/if_inet6`), for no file holds others by interface.
    pub addresses: Vec<InterfaceAddress>,
    /// Receive queues, by index (`queues/rx-*`); empty where there are none, or none are known.
    pub rx_queues: Vec<RxQueue>,
    /// Transmit queues, by index (`queues/tx-*`); empty where there are none, or none are known.
    pub tx_queues: Vec<TxQueue>,
    /// Interrupts of the device, by number (`msi_irqs` of its PCI function, else `irq`); empty where it has none, or none are known.
    pub interrupts: Vec<Interrupt>,
}

/// What kind of interface a [`Nic`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NicKind {
    /// The loopback interface.
    Loopback,
    /// A device stands behind it (`device` link in sysfs).
    Device,
    /// Made in software: veth, bridge, bond, tun, vlan and the like.
    Virtual,
}

/// An IP address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of its network prefix in bits.
    pub prefix_len: u8,
}

/// A receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RxQueue {
    /// Its index.
    pub index: u32,
    /// CPUs that receive packet steering (RPS) may use (`rps_cpus`); empty is off, `None` is unknown.
    pub rps_cpus: Option<CpuSet>,
    /// How many flows it steers to the CPUs of their readers (RFS, `rps_flow_cnt`); 0 is off, `None` is unknown.
    pub rps_flows: Option<u32>,
    /// The interrupt that tells of its packets, by the names of all (`/proc/interrupts`): its own, or the one that all queues share. It is one of
    /// [`Nic::interrupts`]. `None` where there is none, where the driver's names do not say, or where several say to be it.
    pub interrupt: Option<u32>,
}

/// A transmit queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxQueue {
    /// Its index.
    pub index: u32,
    /// CPUs that use this queue (XPS, `xps_cpus`); `None` is unknown (a NIC with one queue has the file but refuses to read it).
    pub xps_cpus: Option<CpuSet>,
    /// The interrupt that tells of what was sent, as [`RxQueue::interrupt`].
    pub interrupt: Option<u32>,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its number in `/proc/interrupts`.
    pub number: u32,
    /// The name its driver gave it (`/proc/interrupts`); `None` while no driver has asked for it.
    pub name: Option<String>,
    /// CPUs it may be served on (`smp_affinity_list`): the wish. `None` is unknown, never the empty set.
    pub affinity: Option<CpuSet>,
    /// CPUs it is served on (`effective_affinity_list`): the truth, though after a new wish only once the next
    /// interrupt has come. `None` is unknown, or not in use yet; never the empty set.
    pub effective: Option<CpuSet>,
}

impl Nic {
    /// A device of that name of which nothing else is known, for tests and for machines that are only described.
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
