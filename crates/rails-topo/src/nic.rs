//! Network interfaces: where they hang, how fast they are, their queues and interrupts.

use crate::{Bandwidth, CpuSet, NodeId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, net::IpAddr, str::FromStr};

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Interface name.
    pub name: String,
    /// What kind of interface it is.
    pub kind: NicKind,
    /// PCI address of the device behind it.
    pub pci: Option<PciAddress>,
    /// Kernel driver.
    pub driver: Option<String>,
    /// NUMA node the device hangs on; `None` is unknown (a missing `numa_node`, or -1).
    pub node: Option<NodeId>,
    /// CPUs local to the device; `None` is unknown.
    pub local_cpus: Option<CpuSet>,
    /// Link speed; `None` is unknown (no file, -1, or link down).
    pub speed: Option<Bandwidth>,
    /// Whether the link is up (`operstate`/`carrier`); `None` is unknown.
    pub up: Option<bool>,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Hardware address.
    pub mac: Option<MacAddress>,
    /// IP addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Receive queues, by index.
    pub rx_queues: Vec<RxQueue>,
    /// Transmit queues, by index.
    pub tx_queues: Vec<TxQueue>,
    /// Interrupts of the device, by number.
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

/// Address of a PCI function: `domain:bus:device.function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device (5 bits).
    pub device: u8,
    /// Function (3 bits).
    pub function: u8,
}

/// A 48-bit hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

/// An IP address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of its network prefix in bits.
    pub prefix_len: u8,
}

/// A receive queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RxQueue {
    /// Its index.
    pub index: u32,
    /// CPUs that receive packet steering (RPS) may use; empty is off, `None` is unknown.
    pub rps_cpus: Option<CpuSet>,
}

/// A transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxQueue {
    /// Its index.
    pub index: u32,
    /// CPUs that use this queue (XPS); `None` is unknown (a NIC with one queue has the file but refuses to read it).
    pub xps_cpus: Option<CpuSet>,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its number in `/proc/interrupts`.
    pub number: u32,
    /// The name its driver gave it.
    pub name: Option<String>,
    /// CPUs it may be served on (`smp_affinity_list`): the wish.
    pub affinity: Option<CpuSet>,
    /// CPUs it is served on (`effective_affinity_list`): the truth.
    pub effective: Option<CpuSet>,
}

/// A text that is not the address it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseAddressError {
    /// The text.
    pub text: String,
    /// What it should look like.
    pub expected: &'static str,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let address = Self {
                domain: u32::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                device: u8::from_str_radix(device, 16).ok()?,
                function: u8::from_str_radix(function, 16).ok()?,
            };
            (address.device < 32 && address.function < 8).then_some(address)
        };
        parse().ok_or_else(|| ParseAddressError { text: text.to_owned(), expected: "a PCI address like 0000:3b:00.1" })
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
        octets.and_then(|octets| octets.try_into().ok()).map(Self).ok_or_else(|| ParseAddressError {
            text: text.to_owned(),
            expected: "a MAC address like 52:54:00:00:00:01",
        })
    }
}

/// Both addresses are written as their text.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(PciAddress);
serde_as_text!(MacAddress);
