//! Devices beside NICs: RDMA, GPUs, and disks.

use super::PciAddress;
use crate::{Bandwidth, CpuSet, DataSize, NodeId};
use serde::{Deserialize, Serialize};

/// An RDMA device (`/sys/class/infiniband`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaDevice {
    /// The kernel's name of it: `mlx5_0`, `rxe0`.
    pub name: String,
    /// The PCI function behind it; `None` of one in software.
    pub pci: Option<PciAddress>,
    /// The node it hangs on; `None` is unknown.
    pub node: Option<NodeId>,
    /// CPUs local to it; `None` is unknown.
    pub local_cpus: Option<CpuSet>,
    /// Its ports, by number.
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: u32,
    /// The network interface that it belongs to (`ports/*/gid_attrs/ndevs/0`, or the one of the same function and port); `None` where there is none, or none is known.
    pub nic: Option<String>,
    /// Whether it is active (`state` is `4: ACTIVE`); `None` is unknown.
    pub active: Option<bool>,
    /// `InfiniBand` or `Ethernet` (`link_layer`); `None` is unknown.
    pub link_layer: Option<String>,
    /// Its speed (`rate`); `None` is unknown.
    #[serde(rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
}

/// A graphics or computing device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// What it is called: hwloc's name (`cuda0`, `nvml0`, `rsmi0`), else the kernel's (`card0`, `renderD128`).
    pub name: String,
    /// The PCI function behind it; `None` is unknown.
    pub pci: Option<PciAddress>,
    /// Its model, where hwloc has a name for it; `None` is unknown.
    pub model: Option<String>,
    /// Its driver; `None` is unknown.
    pub driver: Option<String>,
    /// The node it hangs on; `None` is unknown.
    pub node: Option<NodeId>,
    /// CPUs local to it; `None` is unknown.
    pub local_cpus: Option<CpuSet>,
}

/// A disk, or what looks like one (`/sys/class/block`, without partitions).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// The kernel's name of it: `nvme0n1`, `sda`, `pmem0`.
    pub name: String,
    /// The PCI function behind it; `None` where there is none, or none is known.
    pub pci: Option<PciAddress>,
    /// Its size (`size`, in sectors of 512 bytes); `None` is unknown.
    #[serde(rename = "size_bytes")]
    pub size: Option<DataSize>,
    /// Its model (`device/model`); `None` is unknown.
    pub model: Option<String>,
    /// The node it hangs on; `None` is unknown.
    pub node: Option<NodeId>,
    /// CPUs local to it; `None` is unknown.
    pub local_cpus: Option<CpuSet>,
}
