//! Network interfaces, from `/sys/class/net` (Documentation/ABI/testing/sysfs-class-net in the
//! kernel's sources).

mod addresses;
mod interfaces;
mod layers;
mod queues;

use super::{
    attachment::{Surroundings, pci_function},
    interrupts::{self, InterruptNames},
    root::Root,
};
use crate::{Bandwidth, MacAddress, Nic, NicKind, PciAddress};
pub(crate) use interfaces::has_own_files;
use interfaces::{Interface, interfaces};
pub(super) use interfaces::{has_its_files, listed_by_kernel};
use layers::Vlans;
use std::collections::{BTreeMap, BTreeSet};

/// The interfaces with their addresses, by name.
pub(super) fn nics(root: &Root, machine: &Surroundings<'_>) -> Vec<Nic> {
    let vlans = Vlans::read(root);
    let mut nics = Vec::new();
    let mut of_path: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for Interface { nic: without_files, has_files } in interfaces(root) {
        if !has_files {
            nics.push(without_files);
            continue;
        }
        let Nic { name, addresses, up, carrier, .. } = without_files;
        let device = device_path(root, &name).map(DevicePath::of);
        let nic = nic(root, &name, device.as_ref(), machine);
        let (virtual_kind, lowers) = (layers::kind(root, &nic, &vlans), layers::lowers(root, &name, &vlans));
        // Loopback has the same index and hardware address in every namespace, so its files can be another
        // one's.
        let (up, carrier) = if up.is_some() { (up, carrier) } else { (nic.up, nic.carrier) };
        nics.push(Nic { addresses, up, carrier, virtual_kind, lowers, ..nic });
        if let Some(device) = device {
            of_path.entry(device.path).or_default().push(nics.len() - 1);
        }
    }
    add_interrupts(root, &mut nics, of_path);
    nics
}

/// The device of an interface.
struct DevicePath {
    /// The place: the PCI function, or the device where there is none.
    path: String,
    pci: Option<PciAddress>,
}

impl DevicePath {
    fn of(device: String) -> Self {
        match pci_function(&device) {
            Some((path, address)) => Self { path, pci: Some(address) },
            None => Self { path: device, pci: None },
        }
    }
}

fn nic(root: &Root, name: &str, device: Option<&DevicePath>, machine: &Surroundings<'_>) -> Nic {
    let file = |file: &str| format!("{NET}/{name}/{file}");
    let kind = kind(root, name, device.is_some());
    let path = device.map(|device| device.path.as_str());
    let carrier = root.value(&file("carrier"));
    Nic {
        index: root.value(&file("ifindex")),
        kind,
        pci: device.and_then(|device| device.pci),
        driver: root.link_name(&file("device/driver")),
        node: path.and_then(|path| machine.node(root, path)),
        local_cpus: path.and_then(|path| machine.local_cpus(root, path)),
        speed: root.value(&file("speed")).and_then(speed),
        up: up(root.text(&file("operstate")).as_deref(), carrier),
        carrier: carrier.and_then(flag),
        // Every interface has the file; only a device has ports.
        port: root.value(&file("dev_port")).filter(|_| kind == NicKind::Device),
        physical_port: root.text(&file("phys_port_id")),
        physical_switch: root.text(&file("phys_switch_id")),
        threaded_napi: root.value(&file("threaded")).map(|threads: u32| threads != 0),
        mtu: root.value(&file("mtu")),
        mac: root.value::<MacAddress>(&file("address")),
        rx_queues: queues::receive(root, &file("queues")),
        tx_queues: queues::transmit(root, &file("queues")),
        ..Nic::named(name)
    }
}

/// Reads each device's interrupts once, however many interfaces it has: a PCI function can have
/// hundreds, one for each virtual function's port on its switch.
fn add_interrupts(root: &Root, nics: &mut [Nic], of_path: BTreeMap<String, Vec<usize>>) {
    let names = InterruptNames::read(root);
    for (path, indices) in of_path {
        let interrupts = interrupts::of_device(root, &path, &names);
        let names: Vec<String> = indices.iter().map(|index| nics[*index].name.clone()).collect();
        let on_device: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for index in indices {
            nics[index].interrupts.clone_from(&interrupts);
            nics[index].assign_interrupts(&on_device);
        }
    }
}

fn kind(root: &Root, name: &str, has_device: bool) -> NicKind {
    match root.value::<u32>(&format!("{NET}/{name}/type")) {
        Some(LOOPBACK) => NicKind::Loopback,
        None if name == "lo" => NicKind::Loopback,
        _ if has_device => NicKind::Device,
        _ => NicKind::Virtual,
    }
}

/// The folder of the device behind the interface, relative to the root.
///
/// A captured tree may hold the interface's link without the device; the link's text still names
/// it.
fn device_path(root: &Root, name: &str) -> Option<String> {
    root.real_path(&format!("{NET}/{name}/device")).or_else(|| {
        let link = root.link(&format!("{NET}/{name}"))?;
        let (_, path) = link.split_once("devices/")?;
        let device = path.strip_suffix(&format!("/net/{name}"))?;
        let is_virtual = device == "virtual" || device.starts_with("virtual/");
        (!is_virtual).then(|| format!("sys/devices/{device}"))
    })
}

/// A boolean as the kernel writes it: 0 or 1.
fn flag(number: u32) -> Option<bool> {
    match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// `speed` is in Mbit/s. "Unknown" is -1, and in kernels and drivers of all ages also that number
/// without its sign in 16 or 32 bits (SPEED_UNKNOWN in include/uapi/linux/ethtool.h), and 0.
pub(super) fn speed(megabits: i64) -> Option<Bandwidth> {
    match megabits {
        ..=0 | 0xffff | 0xffff_ffff.. => None,
        megabits => u64::try_from(megabits).ok().map(Bandwidth::mbps),
    }
}

/// `operstate` is RFC 2863's; drivers that do not keep it have `unknown`, and then the carrier
/// decides.
fn up(operstate: Option<&str>, carrier: Option<u32>) -> Option<bool> {
    match operstate {
        Some("up") => Some(true),
        Some("down" | "lowerlayerdown" | "notpresent" | "dormant" | "testing") => Some(false),
        _ => carrier.map(|carrier| carrier != 0),
    }
}

/// The folder of the interfaces.
pub(super) const NET: &str = "sys/class/net";

/// ARPHRD_LOOPBACK of include/uapi/linux/if_arp.h.
const LOOPBACK: u32 = 772;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_speeds_are_unknown() {
        for megabits in [-1, 0, 65_535, 4_294_967_295, i64::MIN, i64::MAX] {
            assert_eq!(speed(megabits), None, "{megabits}");
        }
        assert_eq!(speed(400_000), Some(Bandwidth::mbps(400_000)));
    }

    #[test]
    fn carrier_decides_where_the_state_is_unknown() {
        assert_eq!(up(Some("up"), None), Some(true));
        assert_eq!(up(Some("down"), Some(1)), Some(false));
        assert_eq!(up(Some("unknown"), Some(1)), Some(true));
        assert_eq!(up(Some("unknown"), None), None);
        assert_eq!(up(None, None), None);
    }
}
