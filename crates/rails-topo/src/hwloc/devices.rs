//! Devices of the model, from hwloc's I/O objects.

use super::object::{address, info, locality, pci};
use crate::{Bandwidth, BlockDevice, DataSize, Gpu, PciAddress, PciBridge, PciDevice, RdmaDevice, RdmaPort};
use hwlocality::{
    Topology as Hwloc,
    object::{
        TopologyObject,
        attributes::{DownstreamAttributes, ObjectAttributes, PCIDeviceAttributes, UpstreamAttributes},
        types::{BridgeType, OSDeviceType, ObjectType},
    },
};
use std::collections::BTreeMap;

/// The PCI functions, bridges among them.
///
/// A file may describe two of the same address: a fact in which they differ is unknown.
pub(super) fn pci_devices(hwloc: &Hwloc) -> Vec<PciDevice> {
    let mut devices: BTreeMap<PciAddress, PciDevice> = BTreeMap::new();
    let objects = [ObjectType::Bridge, ObjectType::PCIDevice].map(|kind| hwloc.objects_with_type(kind));
    for device in objects.into_iter().flatten().filter_map(|object| pci_device(hwloc, object)) {
        let address = device.address;
        let device = match devices.remove(&address) {
            Some(other) => agreed(other, device),
            None => device,
        };
        devices.insert(address, device);
    }
    devices.into_values().collect()
}

/// The RDMA devices, which hwloc calls OpenFabrics.
pub(super) fn rdma_devices(hwloc: &Hwloc) -> Vec<RdmaDevice> {
    let device = |(name, object): (String, &TopologyObject)| {
        let (node, local_cpus) = locality(hwloc, object);
        RdmaDevice { name, pci: pci(object), node, local_cpus, ports: ports(object) }
    };
    os_devices(hwloc, &[OSDeviceType::OpenFabrics]).into_iter().map(device).collect()
}

/// The graphics and computing devices, each once, also if it has several names.
pub(super) fn gpus(hwloc: &Hwloc) -> Vec<Gpu> {
    let mut objects = os_devices(hwloc, &[OSDeviceType::GPU, OSDeviceType::CoProcessor]);
    // `:0.0` is a screen, and no name of a device.
    objects.retain(|(name, _)| !name.starts_with(':'));
    objects.sort_by_key(|(name, _)| (rank(name), name.len(), name.clone()));
    let mut gpus: Vec<Gpu> = Vec::new();
    for (name, object) in objects {
        let (node, local_cpus) = locality(hwloc, object);
        let model = info(object, "GPUModel");
        let gpu = Gpu { name, pci: pci(object), model, driver: None, node, local_cpus };
        match gpus.iter_mut().find(|known| gpu.pci.is_some() && known.pci == gpu.pci) {
            Some(known) => known.model = known.model.take().or(gpu.model),
            None => gpus.push(gpu),
        }
    }
    gpus
}

/// The disks. hwloc calls memory "storage" as well if it can be used as such (`dax0.0`, CXL's
/// `mem0`).
pub(super) fn block_devices(hwloc: &Hwloc) -> Vec<BlockDevice> {
    let is_disk = |name: &str, object: &TopologyObject| {
        let subtype = object.subtype().map(|subtype| subtype.to_string_lossy());
        !name.starts_with("dax") && !matches!(subtype.as_deref(), Some("SPM" | "CXLMem"))
    };
    let device = |(name, object): (String, &TopologyObject)| {
        let (node, local_cpus) = locality(hwloc, object);
        let size = info(object, "Size").as_deref().and_then(kib);
        let disk = is_disk(&name, object);
        disk.then(|| BlockDevice { name, pci: pci(object), size, model: info(object, "Model"), node, local_cpus })
    };
    os_devices(hwloc, &[OSDeviceType::Storage]).into_iter().filter_map(device).collect()
}

fn pci_device(hwloc: &Hwloc, object: &TopologyObject) -> Option<PciDevice> {
    let attributes = attributes(object)?;
    let (node, local_cpus) = locality(hwloc, object);
    // hwloc writes 0 for a number that it could not read, and no vendor has that number.
    let vendor = Some(attributes.vendor_id()).filter(|id| *id != 0);
    Some(PciDevice {
        class: Some(u32::from(attributes.class_id()) << 8).filter(|class| *class != 0),
        vendor,
        device: vendor.map(|_| attributes.device_id()),
        parent: object.ancestors().find(|above| above.object_type() == ObjectType::Bridge).and_then(bridge_address),
        bridge: buses(object),
        bandwidth: bandwidth(attributes.link_speed()),
        node,
        local_cpus,
        ..PciDevice::at(address(attributes))
    })
}

/// The facts in which both descriptions agree.
fn agreed(one: PciDevice, other: PciDevice) -> PciDevice {
    fn both<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
        if one == other { one } else { None }
    }
    PciDevice {
        class: both(one.class, other.class),
        vendor: both(one.vendor, other.vendor),
        device: both(one.device, other.device),
        parent: both(one.parent, other.parent),
        bridge: both(one.bridge, other.bridge),
        bandwidth: both(one.bandwidth, other.bandwidth),
        node: both(one.node, other.node),
        local_cpus: both(one.local_cpus, other.local_cpus),
        ..PciDevice::at(one.address)
    }
}

/// hwloc's facts of a function; the bridge from the processor to its PCI bus is none.
fn attributes(object: &TopologyObject) -> Option<&PCIDeviceAttributes> {
    match object.attributes()? {
        ObjectAttributes::PCIDevice(attributes) => Some(attributes),
        ObjectAttributes::Bridge(bridge) => match bridge.upstream_attributes()? {
            UpstreamAttributes::PCI(attributes) => Some(attributes),
        },
        _ => None,
    }
}

fn bridge_address(object: &TopologyObject) -> Option<PciAddress> {
    attributes(object).map(address)
}

fn buses(object: &TopologyObject) -> Option<PciBridge> {
    let Some(ObjectAttributes::Bridge(bridge)) = object.attributes() else { return None };
    // hwlocality takes a bridge without a PCI bus below it for impossible, and a file may have one.
    if bridge.downstream_type() != BridgeType::PCI {
        return None;
    }
    let DownstreamAttributes::PCI(buses) = bridge.downstream_attributes()?;
    Some(PciBridge { secondary: buses.secondary_bus(), subordinate: buses.subordinate_bus() })
}

/// A bandwidth from GB/s, of 10^9 bytes; 0 and impossible values of a file are unknown.
fn bandwidth(gigabytes: f32) -> Option<Bandwidth> {
    let bits = (f64::from(gigabytes) * 8e9).round();
    (1.0..1e18).contains(&bits).then(|| Bandwidth::bits_per_second(bits as u64))
}

/// The ports, as long as the object names states of them.
fn ports(object: &TopologyObject) -> Vec<RdmaPort> {
    let state = |number: u32| Some((number, info(object, &format!("Port{number}State"))?));
    let states: Vec<(u32, String)> = (1..=MAX_PORTS).map_while(state).collect();
    let only_port = states.len() == 1;
    let port = |(number, state): (u32, String)| RdmaPort {
        number,
        nic: beside(object, number, only_port),
        active: state.parse().ok().map(|state: u32| state == ACTIVE),
        link_layer: None,
        speed: None,
    };
    states.into_iter().map(port).collect()
}

/// The interface on the same function and port, where there is exactly one.
fn beside(object: &TopologyObject, port: u32, only_port: bool) -> Option<String> {
    let is_network = |sibling: &&TopologyObject| os_device_type(sibling) == Some(OSDeviceType::Network);
    let siblings: Vec<&TopologyObject> = object.parent()?.io_children().filter(is_network).collect();
    if let ([nic], true) = (&siblings[..], only_port) {
        return name(nic);
    }
    let mut found =
        siblings.iter().filter(|nic| info(nic, "Port").and_then(|number| number.parse().ok()) == Some(port));
    found.next().filter(|_| found.next().is_none()).and_then(|nic| name(nic))
}

/// The named OS devices of these types, each name once.
fn os_devices<'hwloc>(hwloc: &'hwloc Hwloc, types: &[OSDeviceType]) -> Vec<(String, &'hwloc TopologyObject)> {
    let is_wanted = |object: &&TopologyObject| os_device_type(object).is_some_and(|kind| types.contains(&kind));
    let objects = hwloc.objects_with_type(ObjectType::OSDevice).filter(is_wanted);
    let mut named: BTreeMap<String, &TopologyObject> = BTreeMap::new();
    objects.for_each(|object| {
        if let Some(name) = name(object) {
            named.entry(name).or_insert(object);
        }
    });
    named.into_iter().collect()
}

fn os_device_type(object: &TopologyObject) -> Option<OSDeviceType> {
    match object.attributes()? {
        ObjectAttributes::OSDevice(device) => Some(device.device_type()),
        _ => None,
    }
}

fn name(object: &TopologyObject) -> Option<String> {
    object.name()?.to_str().ok().map(str::to_owned)
}

/// The rank of a device's name: the name of the lowest rank is the device's.
fn rank(name: &str) -> usize {
    NAMES.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(NAMES.len())
}

/// `390711384` in hwloc 2, `390711384KiB` in hwloc 3.
fn kib(text: &str) -> Option<DataSize> {
    let kib: u64 = text.trim_end_matches("KiB").parse().ok()?;
    kib.checked_mul(1024).map(DataSize::bytes)
}

/// The beginnings of the names of graphics and computing devices, the first choice first.
const NAMES: [&str; 8] = ["cuda", "nvml", "rsmi", "ze", "opencl", "card", "renderD", "ve"];

/// The state of a port that is up (`enum ib_port_state` in the kernel's `include/rdma/ib_verbs.h`).
const ACTIVE: u32 = 4;

/// InfiniBand numbers the ports of a device with a byte.
const MAX_PORTS: u32 = 254;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_that_is_none_is_unknown() {
        assert_eq!(bandwidth(0.25), Some(Bandwidth::mbps(2_000)));
        for gigabytes in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, 1e30] {
            assert_eq!(bandwidth(gigabytes), None, "{gigabytes}");
        }
    }

    #[test]
    fn sizes_are_in_kib_with_and_without_their_unit() {
        assert_eq!(kib("2"), Some(DataSize::bytes(2048)));
        assert_eq!(kib("2KiB"), Some(DataSize::bytes(2048)));
        assert_eq!(kib("18446744073709551615"), None);
        assert_eq!(kib("-2"), None);
    }

    #[test]
    fn common_facts_of_two_functions_at_one_address() {
        let address = "0000:04:00.0".parse().unwrap();
        let one = PciDevice { class: Some(0x010700), vendor: Some(0x8086), ..PciDevice::at(address) };
        let other = PciDevice { class: Some(0x020700), vendor: Some(0x8086), ..PciDevice::at(address) };
        assert_eq!(agreed(one.clone(), one.clone()), one);
        assert_eq!(agreed(one.clone(), other), PciDevice { class: None, ..one });
    }
}
