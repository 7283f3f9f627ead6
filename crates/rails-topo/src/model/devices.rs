//! Devices beside NICs: RDMA, GPUs, and disks.

use super::{PciAddress, PciDevice};
use crate::{Bandwidth, CpuSet, DataSize, NodeId};
use serde::{Deserialize, Serialize};

/// An RDMA device (`/sys/class/infiniband`), in hardware or in software.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RdmaDevice {
    /// The device's name in the kernel: `mlx5_0`, `rxe0`.
    pub name: String,
    /// The PCI function behind the device (`device`); `None` for a device in software.
    pub pci: Option<PciAddress>,
    /// The node of the device's attachment (`numa_node` of the device behind it, else hwloc's);
    /// `None` is unknown, or no node.
    pub node: Option<NodeId>,
    /// The CPUs local to the device (`local_cpulist` there, else hwloc's); `None` is unknown.
    pub local_cpus: Option<CpuSet>,
    /// The device's ports, by number.
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RdmaPort {
    /// The port's number, from 1.
    pub number: u32,
    /// The network interface of the port (`ports/*/gid_attrs/ndevs/0`, or the only one of the same
    /// function and port); `None` if there is none, or it is unknown.
    pub nic: Option<String>,
    /// Whether the port is active (`state` is `4: ACTIVE`); `None` is unknown.
    pub active: Option<bool>,
    /// `InfiniBand` or `Ethernet` (`link_layer`); `None` is unknown.
    pub link_layer: Option<String>,
    /// The port's speed (`rate`); `None` is unknown, and so is that of a port that is down.
    #[serde(rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
}

/// A graphics or computing device: one with a driver of that class (`/sys/class/drm`,
/// `/sys/class/accel`, `/sys/class/ve`), one that hwloc knows, or a PCI display controller.
///
/// The names of one PCI function are one device. A display controller without a driver's device has
/// its PCI address as its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gpu {
    /// The name: hwloc's (`cuda0`, `nvml0`, `rsmi0`, `ze0`, `opencl0d0`, in this order), else the
    /// kernel's (`card0`, `renderD128`, `accel0`, `ve0`), else the address of its PCI function
    /// (`0000:3b:00.0`).
    pub name: String,
    /// The PCI function behind the device (`device`); `None` is unknown.
    pub pci: Option<PciAddress>,
    /// The device's model, where hwloc has a name for it; `None` is unknown.
    pub model: Option<String>,
    /// The device's driver (`device/driver`); `None` is unknown. For a device named by its address:
    /// [`PciDevice::driver`].
    pub driver: Option<String>,
    /// The node of the device's attachment (`numa_node` of the device behind it, else hwloc's);
    /// `None` is unknown, or no node.
    pub node: Option<NodeId>,
    /// The CPUs local to the device (`local_cpulist` there, else hwloc's); `None` is unknown.
    pub local_cpus: Option<CpuSet>,
}

/// A block device with hardware behind it (`/sys/class/block`, without partitions and virtual
/// devices such as `loop0`, `zram0`, `dm-0` and `md0`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockDevice {
    /// The device's name in the kernel: `nvme0n1`, `sda`, `pmem0`.
    pub name: String,
    /// The PCI function behind the device (`device`); `None` if there is none, if none is known,
    /// and if there are several (NVMe multipath).
    pub pci: Option<PciAddress>,
    /// The size (`size`, in sectors of 512 bytes; hwloc rounds it down to KiB); 0 is a drive
    /// without a medium, `None` is unknown.
    #[serde(rename = "size_bytes")]
    pub size: Option<DataSize>,
    /// The device's model (`device/model`; hwloc has it from udev, with underscores for spaces);
    /// `None` is unknown.
    pub model: Option<String>,
    /// The node of the device's attachment (`numa_node` of the device behind it, else hwloc's);
    /// `None` is unknown, or no node.
    pub node: Option<NodeId>,
    /// The CPUs local to the device (`local_cpulist` there, else hwloc's); `None` is unknown.
    pub local_cpus: Option<CpuSet>,
}

impl Gpu {
    /// The display controllers among these functions that none of these devices stands for.
    pub(crate) fn unnamed(functions: &[PciDevice], named: &[Gpu]) -> Vec<Gpu> {
        let is_named = |function: &PciDevice| named.iter().any(|gpu| gpu.pci == Some(function.address));
        let controllers = functions.iter().filter(|function| function.is_display_controller() && !is_named(function));
        let gpu = |function: &PciDevice| Gpu {
            name: function.address.to_string(),
            pci: Some(function.address),
            model: None,
            driver: function.driver.clone(),
            node: function.node,
            local_cpus: function.local_cpus.clone(),
        };
        controllers.map(gpu).collect()
    }

    /// Whether the device has no name but its PCI address.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.pci.is_some_and(|pci| pci.to_string() == self.name)
    }
}
