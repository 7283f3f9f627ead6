//! The shape of a configuration file. The comment on a field is its description in the JSON schema.

use super::{
    located::Located,
    values::{Added, Distance, Hide, Text},
};
use crate::{Bandwidth, CpuSet, DataSize, InterfaceAddress, MacAddress, PciAddress, PciLink};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Facts about a machine that rails add to those they have read, or believe instead.
///
/// Layers: /etc/rails/topology.toml, then topology.toml in the folder rails of the user's
/// configuration, then the files named on the command line; the last one that gives a fact wins.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "Rails machine configuration"))]
pub(super) struct Document {
    /// Network interfaces, by name.
    pub(super) nic: BTreeMap<Located<String>, NicFacts>,
    /// RDMA devices, by name (`mlx5_0`).
    pub(super) rdma: BTreeMap<Located<String>, DeviceFacts>,
    /// GPUs, by name (`card0`, `cuda0`).
    pub(super) gpu: BTreeMap<Located<String>, DeviceFacts>,
    /// Disks, by name (`nvme0n1`).
    pub(super) disk: BTreeMap<Located<String>, DeviceFacts>,
    /// PCI functions, by address (`"0000:3b:00.0"`).
    pub(super) pci: BTreeMap<Located<String>, PciFacts>,
    /// NUMA nodes, by number.
    pub(super) node: BTreeMap<Located<String>, NodeFacts>,
    /// Distances between NUMA nodes.
    pub(super) distance: Vec<DistanceFact>,
}

/// A network interface. One that is hidden has no other facts in the same file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NicFacts {
    /// The reason for which planning leaves this lane alone; the lane is still shown. `false`
    /// revokes the reason of an earlier layer.
    pub(super) hide: Option<Located<Hide>>,
    /// `true`: the interface is there, though nothing shows it.
    pub(super) add: Option<Located<Added>>,
    /// The NUMA node of the NIC's attachment. The NIC's local CPUs are the node's then, unless they
    /// are given too.
    pub(super) node: Option<Located<u32>>,
    /// The CPUs beside the NIC, as a list (`0-3,8`); all are online.
    pub(super) local_cpus: Option<Located<Text<CpuSet>>>,
    /// The speed of the link (`25 Gbit/s`).
    pub(super) speed: Option<Located<Text<Bandwidth>>>,
    /// Whether the link is up.
    pub(super) up: Option<Located<bool>>,
    /// The PCI function behind the NIC (`0000:3b:00.0`).
    pub(super) pci: Option<Located<Text<PciAddress>>>,
    /// The NIC's driver.
    pub(super) driver: Option<Located<String>>,
    /// The largest packet in bytes.
    pub(super) mtu: Option<Located<u32>>,
    /// The hardware address (`52:54:00:00:00:01`).
    pub(super) mac: Option<Located<Text<MacAddress>>>,
    /// All IP addresses of the NIC, each with the length of its prefix (`10.0.0.1/24`).
    pub(super) addresses: Option<Located<Vec<Text<InterfaceAddress>>>>,
}

/// A device other than a network interface.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeviceFacts {
    /// The NUMA node of the device's attachment. The device's local CPUs are the node's then,
    /// unless they are given too.
    pub(super) node: Option<Located<u32>>,
    /// The CPUs beside the device, as a list (`0-3,8`); all are online.
    pub(super) local_cpus: Option<Located<Text<CpuSet>>>,
}

/// A PCI function.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PciFacts {
    /// The NUMA node of the device's attachment. The device's local CPUs are the node's then,
    /// unless they are given too. Devices of the function have keys of their own.
    pub(super) node: Option<Located<u32>>,
    /// The CPUs beside the device, as a list (`0-3,8`); all are online.
    pub(super) local_cpus: Option<Located<Text<CpuSet>>>,
    /// The PCI Express link above the function (`16 GT/s x8`), and with it the link's bandwidth.
    pub(super) link: Option<Located<Text<PciLink>>>,
}

/// A NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NodeFacts {
    /// The tier of the node's memory; a smaller number is faster memory.
    pub(super) tier: Option<Located<u32>>,
    /// The size of the node's memory (`64 GiB`).
    pub(super) memory: Option<Located<Text<DataSize>>>,
    /// The speed of the node's memory, by the CPUs that access it.
    pub(super) performance: Vec<PerformanceFacts>,
}

/// The speed of a node's memory, seen from some CPUs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PerformanceFacts {
    /// The CPUs for which the figures hold, as a list (`0-3,8`); all are online.
    pub(super) from: Located<Text<CpuSet>>,
    /// The CPUs' bandwidth for reading (`400 Gbit/s`).
    pub(super) read_bandwidth: Option<Located<Text<Bandwidth>>>,
    /// The CPUs' bandwidth for writing (`200 Gbit/s`).
    pub(super) write_bandwidth: Option<Located<Text<Bandwidth>>>,
    /// The time that a read takes, in nanoseconds.
    pub(super) read_latency_ns: Option<Located<u64>>,
    /// The time that a write takes, in nanoseconds.
    pub(super) write_latency_ns: Option<Located<u64>>,
}

/// The distance between two nodes, in both directions unless the file gives the other one too.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DistanceFact {
    /// The node from which the distance is measured.
    pub(super) from: Located<u32>,
    /// The node to which the distance is measured.
    pub(super) to: Located<u32>,
    /// The relative latency; 10 is local (ACPI's SLIT).
    pub(super) value: Located<Distance>,
}
