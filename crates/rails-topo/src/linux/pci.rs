//! PCI functions, from `/sys/bus/pci/devices` (Documentation/ABI/testing/sysfs-bus-pci in the
//! kernel's sources).

use super::{
    attachment::{Surroundings, entry_path},
    pci_config::{CONFIG_LEN, PciConfig},
    root::Root,
};
use crate::{PciAddress, PciBridge, PciDevice, PciLink, VirtualFunctions};
use std::collections::{BTreeMap, BTreeSet};

/// The functions, by address.
pub(super) fn devices(root: &Root, machine: &Surroundings<'_>) -> Vec<PciDevice> {
    // An address has one spelling, so that two entries cannot claim the same one.
    let address = |name: String| name.parse::<PciAddress>().ok().filter(|address| address.to_string() == name);
    let known: BTreeSet<PciAddress> = root.names(DEVICES).into_iter().filter_map(address).collect();
    let device = |address: &PciAddress| {
        let path = entry_path(root, &format!("{DEVICES}/{address}"));
        let parent = path.and_then(|path| parent(&path, &known));
        (*address, PciDevice { parent, ..device(root, *address, machine) })
    };
    let mut devices: BTreeMap<PciAddress, PciDevice> = known.iter().map(device).collect();
    cut_loops(&mut devices);
    devices.into_values().collect()
}

/// The function's own facts.
fn device(root: &Root, address: PciAddress, machine: &Surroundings<'_>) -> PciDevice {
    let folder = format!("{DEVICES}/{address}");
    let file = |name: &str| format!("{folder}/{name}");
    let hexadecimal = |name| root.text(&file(name)).as_deref().and_then(hexadecimal);
    // The bytes are read once, and only where a file is missing that an old kernel lacks: a guest asks
    // the hypervisor for every four of them. Where Linux gives the file `power_state`, since 5.11,
    // it gives those, since 4.13, to each function that has a link or buses behind it.
    let config = std::cell::OnceCell::new();
    let is_old = || root.text(&file("power_state")).is_none();
    let read = || root.bytes(&file("config"), CONFIG_LEN).map(PciConfig::of);
    let config = || config.get_or_init(|| is_old().then(read).flatten()).as_ref();
    let (link, max_link) = match root.text(&file("current_link_speed")) {
        Some(speed) => {
            let width = |name| root.value(&file(name));
            let possible = || link(&root.text(&file("max_link_speed"))?, width("max_link_width")?);
            (width("current_link_width").and_then(|width| link(&speed, width)), possible())
        }
        None => config().and_then(PciConfig::links).map_or((None, None), |links| (links.negotiated, links.possible)),
    };
    let class = hexadecimal("class").filter(|class| *class < 1 << 24);
    let bridge = match class.map(|class| class >> 16) {
        Some(BRIDGES) | None => buses(root, &folder).or_else(|| config()?.bridge()),
        Some(_) => None,
    };
    PciDevice {
        class,
        vendor: hexadecimal("vendor").and_then(|id| id.try_into().ok()),
        device: hexadecimal("device").and_then(|id| id.try_into().ok()),
        bridge: bridge.filter(|bridge| is_possible(*bridge, address)),
        link,
        max_link,
        bandwidth: link.map(PciLink::bandwidth),
        driver: root.link_name(&file("driver")),
        node: machine.node(root, &folder),
        local_cpus: machine.local_cpus(root, &folder),
        physical_function: root
            .link_name(&file("physfn"))
            .and_then(|name| name.parse().ok())
            .filter(|found| *found != address),
        virtual_functions: virtual_functions(root, &folder),
        ..PciDevice::at(address)
    }
}

fn buses(root: &Root, folder: &str) -> Option<PciBridge> {
    let bus = |name| root.value(&format!("{folder}/{name}"));
    Some(PciBridge { secondary: bus("secondary_bus_number")?, subordinate: bus("subordinate_bus_number")? })
}

/// A bridge that firmware left alone has no buses behind it, or nonsense: good numbers are higher
/// than its own.
fn is_possible(bridge: PciBridge, address: PciAddress) -> bool {
    address.bus < bridge.secondary && bridge.secondary <= bridge.subordinate
}

fn virtual_functions(root: &Root, folder: &str) -> Option<VirtualFunctions> {
    let count = |name| root.value::<u16>(&format!("{folder}/{name}"));
    Some(VirtualFunctions { enabled: count("sriov_numvfs")?, total: count("sriov_totalvfs")? })
}

/// The nearest of the functions above, which are the components of the path before the last one, up
/// to a root bus (`pci0000:00`).
///
/// A captured tree may hold the folder of a bridge and not its entry on the bus.
fn parent(path: &str, known: &BTreeSet<PciAddress>) -> Option<PciAddress> {
    let mut above = path.rsplit('/').skip(1).map_while(|name| name.parse::<PciAddress>().ok());
    above.find(|address| known.contains(address))
}

/// Takes the parents away from functions that are below themselves.
///
/// An invented tree may hold such a circle, and a walk up from a device must end.
fn cut_loops(devices: &mut BTreeMap<PciAddress, PciDevice>) {
    let addresses: Vec<PciAddress> = devices.keys().copied().collect();
    for address in addresses {
        let above = |address: &PciAddress| devices.get(address)?.parent;
        let steps = std::iter::successors(above(&address), above).take(devices.len() + 1).count();
        if steps > devices.len() {
            devices.entry(address).and_modify(|device| device.parent = None);
        }
    }
}

/// `8 GT/s`, or `8.0 GT/s PCIe` since Linux 5.8, and a number of lanes.
fn link(speed: &str, width: u32) -> Option<PciLink> {
    let (number, _) = speed.split_once(" GT/s")?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    let tenths = digits(fraction).filter(|_| fraction.len() == 1)?;
    PciLink::of(digits(whole)?.checked_mul(1_000)?.checked_add(tenths * 100)?, width)
}

/// `0x8086`.
fn hexadecimal(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// The folder of the functions.
const DEVICES: &str = "sys/bus/pci/devices";

/// The class of bridges of all kinds.
const BRIDGES: u32 = 0x06;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_are_read_as_old_and_new_kernels_write_them() {
        let found = |speed, width| Some(PciLink { speed, width });
        assert_eq!(link("2.5 GT/s", 1), found(2_500, 1));
        assert_eq!(link("8 GT/s", 16), found(8_000, 16));
        assert_eq!(link("16.0 GT/s PCIe", 8), found(16_000, 8));
        for (speed, width) in [
            ("Unknown", 4),
            ("Unknown speed", 4),
            ("8 GT/s", 0),
            ("8 GT/s", 255),
            ("0 GT/s", 1),
            ("-8 GT/s", 1),
            ("+8 GT/s", 1),
            ("8. GT/s", 1),
            ("99999999999 GT/s", 1),
            ("4294968 GT/s", 1),
            ("66 MHz PCI", 1),
        ] {
            assert_eq!(link(speed, width), None, "{speed} x{width}");
        }
    }

    #[test]
    fn parent_is_the_nearest_known_function_above() {
        let known = ["0000:00:01.1", "0000:01:00.0", "0000:5d:05.5"].map(|text| text.parse().unwrap()).into();
        let above = |path| parent(path, &known).map(|address| address.to_string());
        let switch = "sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:08.0/0000:03:00.0";
        assert_eq!(above(switch).as_deref(), Some("0000:01:00.0"));
        assert_eq!(above("sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0").as_deref(), Some("0000:00:01.1"));
        assert_eq!(above("sys/devices/pci0000:00/0000:00:01.1"), None);
        assert_eq!(above("sys/devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0"), None, "a root bus");
    }

    #[test]
    fn bridge_to_its_own_bus_or_below_it_is_none() {
        let address = "0000:05:00.0".parse().unwrap();
        let possible = |secondary, subordinate| is_possible(PciBridge { secondary, subordinate }, address);
        assert!(possible(6, 6) && possible(6, 255));
        assert!(!possible(0, 0) && !possible(5, 6) && !possible(7, 6));
    }

    fn linked(parents: &[(u8, Option<u8>)]) -> BTreeMap<PciAddress, PciDevice> {
        let address = |bus| PciAddress { domain: 0, bus, device: 0, function: 0 };
        let device = |(bus, parent): &(u8, Option<u8>)| PciDevice {
            parent: parent.map(address),
            ..PciDevice::at(address(*bus))
        };
        parents.iter().map(|entry| (address(entry.0), device(entry))).collect()
    }

    #[test]
    fn parents_that_run_in_a_circle_are_cut() {
        let mut devices = linked(&[(1, Some(2)), (2, Some(3)), (3, Some(1)), (4, Some(3)), (5, Some(5)), (6, None)]);
        cut_loops(&mut devices);
        let parents: Vec<Option<u8>> = devices.values().map(|device| device.parent.map(|above| above.bus)).collect();
        assert_eq!(parents, [None, Some(3), Some(1), Some(3), None, None]);
    }

    proptest! {
        #[test]
        fn every_walk_up_ends(parents in proptest::collection::vec(proptest::option::of(0..12u8), 12)) {
            let parents: Vec<(u8, Option<u8>)> = (0..).zip(parents).collect();
            let mut devices = linked(&parents);
            cut_loops(&mut devices);
            for device in devices.values() {
                let mut above = Some(device.address);
                for _ in 0..=devices.len() {
                    above = above.and_then(|above| devices[&above].parent);
                }
                prop_assert_eq!(above, None);
            }
        }

        #[test]
        fn texts_of_any_kind_are_read_or_not(text in ".*", width: u32) {
            link(&text, width);
            hexadecimal(&text);
            parent(&text, &BTreeSet::new());
        }
    }
}
