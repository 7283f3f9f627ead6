//! Network interfaces, from `/sys/class/net` (Documentation/ABI/testing/sysfs-class-net in the kernel's sources).

use super::{
    interrupts::{self, InterruptNames},
    root::Root,
};
use crate::{
    Bandwidth, CpuId, CpuSet, InterfaceAddress, MacAddress, Nic, NicKind, NodeId, NumaNode, PciAddress, RxQueue,
    TxQueue,
};
use std::net::Ipv6Addr;

/// What of the machine decides whether a device's locality means anything.
pub(super) struct Surroundings<'a> {
    pub(super) online: &'a CpuSet,
    pub(super) nodes: &'a [NumaNode],
    pub(super) packages: usize,
}

/// The interfaces, by name.
pub(super) fn nics(root: &Root, machine: &Surroundings<'_>) -> Vec<Nic> {
    let names = InterruptNames::read(root);
    let inet6 = root.text("proc/net/if_inet6").unwrap_or_default();
    // Plain files live among them too, such as `bonding_masters`.
    let is_interface = |name: &String| {
        let path = format!("{NET}/{name}");
        root.is_dir(&path) || root.link(&path).is_some()
    };
    let nic = |name: String| Nic { addresses: addresses6(&inet6, &name), ..nic(root, &name, machine, &names) };
    root.names(NET).into_iter().filter(is_interface).map(nic).collect()
}

fn nic(root: &Root, name: &str, machine: &Surroundings<'_>, names: &InterruptNames) -> Nic {
    let file = |file: &str| format!("{NET}/{name}/{file}");
    let device = device_path(root, name);
    let function = device.as_deref().and_then(pci_function);
    let place = function.as_ref().map(|(path, _)| path.as_str()).or(device.as_deref());
    let node = place.and_then(|place| node(root, place)).filter(|id| machine.nodes.iter().any(|node| node.id == *id));
    Nic {
        index: root.value(&file("ifindex")),
        kind: kind(root, name),
        pci: function.as_ref().map(|(_, address)| *address),
        driver: root.link_name(&file("device/driver")),
        node,
        local_cpus: place.and_then(|place| local_cpus(root, place, machine)),
        speed: root.value(&file("speed")).and_then(speed),
        up: up(root.text(&file("operstate")).as_deref(), root.value(&file("carrier"))),
        carrier: root.value::<u32>(&file("carrier")).map(|carrier| carrier != 0),
        mtu: root.value(&file("mtu")),
        mac: root.value::<MacAddress>(&file("address")),
        rx_queues: rx_queues(root, &file("queues")),
        tx_queues: tx_queues(root, &file("queues")),
        interrupts: place.map(|place| interrupts::of_device(root, place, names)).unwrap_or_default(),
        ..Nic::named(name)
    }
}

fn kind(root: &Root, name: &str) -> NicKind {
    match root.value::<u32>(&format!("{NET}/{name}/type")) {
        Some(LOOPBACK) => NicKind::Loopback,
        None if name == "lo" => NicKind::Loopback,
        _ if device_path(root, name).is_some() => NicKind::Device,
        _ => NicKind::Virtual,
    }
}

/// The folder of the device behind the interface, relative to the root.
///
/// Where a captured tree holds the interface's link but not what it leads to, the link's text still names the device.
fn device_path(root: &Root, name: &str) -> Option<String> {
    root.real_path(&format!("{NET}/{name}/device")).or_else(|| {
        let link = root.link(&format!("{NET}/{name}"))?;
        let (_, path) = link.split_once("devices/")?;
        let device = path.strip_suffix(&format!("/net/{name}"))?;
        let is_virtual = device == "virtual" || device.starts_with("virtual/");
        (!is_virtual).then(|| format!("sys/devices/{device}"))
    })
}

/// The PCI function that the device is, or that it hangs on (a virtio device is a child of its function).
fn pci_function(device: &str) -> Option<(String, PciAddress)> {
    let mut path = device;
    loop {
        let (parent, name) = path.rsplit_once('/')?;
        match name.parse() {
            Ok(address) => return Some((path.to_owned(), address)),
            Err(_) => path = parent,
        }
    }
}

/// The node of a device; firmware that does not say leaves -1.
fn node(root: &Root, device: &str) -> Option<NodeId> {
    root.value::<u32>(&format!("{device}/numa_node")).map(NodeId)
}

/// The CPUs that the kernel calls local to a device.
///
/// For a device of unknown place it lists every CPU, which says nothing on a machine of several places.
fn local_cpus(root: &Root, device: &str, machine: &Surroundings<'_>) -> Option<CpuSet> {
    let cpus = root.set::<CpuId>(&format!("{device}/local_cpulist"), &format!("{device}/local_cpus"))?;
    let cpus = cpus.intersection(machine.online);
    let several_places = machine.nodes.len() > 1 || machine.packages > 1;
    let says_nothing = cpus.is_empty() || (several_places && cpus == *machine.online);
    (!says_nothing).then_some(cpus)
}

/// `speed` is in Mbit/s. "Unknown" is -1, and in kernels and drivers of all ages also that number without its sign in
/// 16 or 32 bits (SPEED_UNKNOWN in include/uapi/linux/ethtool.h), and 0.
pub(super) fn speed(megabits: i64) -> Option<Bandwidth> {
    match megabits {
        ..=0 | 0xffff | 0xffff_ffff.. => None,
        megabits => u64::try_from(megabits).ok().map(Bandwidth::mbps),
    }
}

/// `operstate` is RFC 2863's; drivers that do not keep it say `unknown`, and then the carrier decides.
fn up(operstate: Option<&str>, carrier: Option<u32>) -> Option<bool> {
    match operstate {
        Some("up") => Some(true),
        Some("down" | "lowerlayerdown" | "notpresent" | "dormant" | "testing") => Some(false),
        _ => carrier.map(|carrier| carrier != 0),
    }
}

fn rx_queues(root: &Root, folder: &str) -> Vec<RxQueue> {
    let mask = |index| root.text(&format!("{folder}/rx-{index}/rps_cpus"));
    let queue = |index| RxQueue {
        index,
        rps_cpus: mask(index).and_then(|mask| CpuSet::parse_mask(&mask).ok()),
        ..RxQueue::default()
    };
    root.numbered(folder, "rx-").into_iter().map(queue).collect()
}

fn tx_queues(root: &Root, folder: &str) -> Vec<TxQueue> {
    let mask = |index| root.text(&format!("{folder}/tx-{index}/xps_cpus"));
    let queue = |index| TxQueue {
        index,
        xps_cpus: mask(index).and_then(|mask| CpuSet::parse_mask(&mask).ok()),
        ..TxQueue::default()
    };
    root.numbered(folder, "tx-").into_iter().map(queue).collect()
}

/// The interface's lines of `/proc/net/if_inet6`: address, index, length of the prefix, scope, flags (all in
/// hexadecimal) and name.
fn addresses6(if_inet6: &str, name: &str) -> Vec<InterfaceAddress> {
    let address = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [ip, _, prefix_len, _, _, of] = fields[..] else { return None };
        let ip = Ipv6Addr::from_bits(u128::from_str_radix(ip, 16).ok()?);
        let prefix_len = u8::from_str_radix(prefix_len, 16).ok()?;
        (of == name).then_some(InterfaceAddress { ip: ip.into(), prefix_len })
    };
    if_inet6.lines().filter_map(address).collect()
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
    fn the_carrier_decides_where_the_state_is_unknown() {
        assert_eq!(up(Some("up"), None), Some(true));
        assert_eq!(up(Some("down"), Some(1)), Some(false));
        assert_eq!(up(Some("unknown"), Some(1)), Some(true));
        assert_eq!(up(Some("unknown"), None), None);
        assert_eq!(up(None, None), None);
    }

    #[test]
    fn the_function_behind_a_device_is_the_nearest_above() {
        let function = |path| pci_function(path).map(|(path, address)| (path, address.to_string()));
        let found = |path: &str, address: &str| Some((path.to_owned(), address.to_owned()));
        let virtio = "sys/devices/pci0000:00/0000:00:03.0/virtio2";
        assert_eq!(function(virtio), found("sys/devices/pci0000:00/0000:00:03.0", "0000:00:03.0"));
        let behind_bridge = "sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0";
        assert_eq!(function(behind_bridge), found(behind_bridge, "0000:02:00.0"));
        assert_eq!(function("sys/devices/platform/soc/ethernet"), None);
    }

    #[test]
    fn addresses_of_version_6_are_read_by_interface() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe80000000000000000000fffe000001 02 40 20 80     eth0\nnonsense";
        let addresses = addresses6(text, "eth0");
        assert_eq!(addresses, [InterfaceAddress { ip: "fe80::ff:fe00:1".parse().unwrap(), prefix_len: 64 }]);
    }
}
