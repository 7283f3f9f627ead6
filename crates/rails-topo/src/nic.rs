//! Network interfaces: where they hang, how fast they are, their queues and interrupts.

use crate::{Bandwidth, CpuSet, NodeId, Topology};
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
    #[serde(rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// Whether the link is up (`operstate`/`carrier`); `None` is unknown.
    pub up: Option<bool>,
    /// Largest packet in bytes.
    #[serde(rename = "mtu_bytes")]
    pub mtu: Option<u32>,
    /// Hardware address; `None` is unknown, or not one of 48 bits (InfiniBand has 20 bytes).
    pub mac: Option<MacAddress>,
    /// IP addresses; from a captured machine only those of version 6, for the files hold no others by interface.
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
    /// CPUs it may be served on (`smp_affinity_list`): the wish. `None` is unknown, never the empty set.
    pub affinity: Option<CpuSet>,
    /// CPUs it is served on (`effective_affinity_list`): the truth, though after a new wish only once the next
    /// interrupt has come. `None` is unknown, or not in use yet; never the empty set.
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

impl Nic {
    /// A device of that name of which nothing else is known, for tests and for machines that are only described.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: NicKind::Device,
            pci: None,
            driver: None,
            node: None,
            local_cpus: None,
            speed: None,
            up: None,
            mtu: None,
            mac: None,
            addresses: Vec::new(),
            rx_queues: Vec::new(),
            tx_queues: Vec::new(),
            interrupts: Vec::new(),
        }
    }

    /// The online CPUs beside this interface: those that the device calls local, else those of its node.
    ///
    /// On a machine with one package and at most one node that is every online CPU. `None` is unknown.
    pub fn locality(&self, topology: &Topology) -> Option<CpuSet> {
        let of_node = || topology.nodes().iter().find(|node| Some(node.id) == self.node).map(|node| &node.cpus);
        let online = |cpus: &CpuSet| Some(cpus.intersection(topology.online_cpus())).filter(|cpus| !cpus.is_empty());
        let one_place = topology.packages().len() == 1 && topology.nodes().len() <= 1;
        self.local_cpus
            .as_ref()
            .and_then(online)
            .or_else(|| of_node().and_then(online))
            .or_else(|| one_place.then(|| topology.online_cpus().clone()))
    }
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
                domain: hexadecimal(domain, 8)?,
                bus: hexadecimal(bus, 2)?.try_into().ok()?,
                device: hexadecimal(device, 2)?.try_into().ok()?,
                function: hexadecimal(function, 1)?.try_into().ok()?,
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
        let octet = |digits| hexadecimal(digits, 2)?.try_into().ok();
        let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
        octets.and_then(|octets| octets.try_into().ok()).map(Self).ok_or_else(|| ParseAddressError {
            text: text.to_owned(),
            expected: "a MAC address like 52:54:00:00:00:01",
        })
    }
}

/// A number of at most `longest` hexadecimal digits, and nothing else (`from_str_radix` takes a sign too).
fn hexadecimal(digits: &str, longest: usize) -> Option<u32> {
    let plain = digits.len() <= longest && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_whole_addresses_are_read() {
        assert_eq!("0000:3b:00.1".parse::<PciAddress>().unwrap().to_string(), "0000:3b:00.1");
        assert_eq!("10000:e1:1f.7".parse::<PciAddress>().unwrap().domain, 0x10000);
        for text in ["virtio2", "pci0000:00", "0000:00:20.0", "0000:00:00.8", "+000:00:00.0", "0000:100:00.0", ""] {
            assert!(text.parse::<PciAddress>().is_err(), "{text:?}");
        }
        assert_eq!("52:54:0:0:0:1".parse::<MacAddress>().unwrap().to_string(), "52:54:00:00:00:01");
        for text in ["", "52:54:00:00:00", "80:00:00:48:fe:80:00:00", "52:54:00:00:00:+1"] {
            assert!(text.parse::<MacAddress>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn addresses_survive_their_text(domain: u32, bus: u8, device in 0..32u8, function in 0..8u8, mac: [u8; 6]) {
            let pci = PciAddress { domain, bus, device, function };
            prop_assert_eq!(pci.to_string().parse::<PciAddress>().unwrap(), pci);
            prop_assert_eq!(MacAddress(mac).to_string().parse::<MacAddress>().unwrap(), MacAddress(mac));
        }
    }
}
