//! RDMA devices, from `/sys/class/infiniband` (Documentation/ABI/stable/sysfs-class-infiniband in
//! the kernel's sources).

use super::{
    attachment::{Attachment, Surroundings, entry_path, is_virtual},
    root::Root,
};
use crate::{Bandwidth, Nic, NicKind, PciAddress, RdmaDevice, RdmaPort};

/// The devices, by name; each port finds its interface among `nics`.
pub(super) fn devices(root: &Root, machine: &Surroundings<'_>, nics: &[Nic]) -> Vec<RdmaDevice> {
    let device = |name: String| {
        let path = entry_path(root, &format!("{INFINIBAND}/{name}"))?;
        let hardware = !is_virtual(&path);
        let attachment = if hardware { machine.attachment(root, &path) } else { Attachment::default() };
        let ports = ports(root, &name, attachment.pci, nics);
        Some(RdmaDevice { name, pci: attachment.pci, node: attachment.node, local_cpus: attachment.local_cpus, ports })
    };
    root.names(INFINIBAND).into_iter().filter_map(device).collect()
}

fn ports(root: &Root, device: &str, pci: Option<PciAddress>, nics: &[Nic]) -> Vec<RdmaPort> {
    let folder = format!("{INFINIBAND}/{device}/ports");
    let numbers = root.numbered(&folder, "");
    let only_port = numbers.len() == 1;
    let port = |number: u32| {
        let file = |name| root.text(&format!("{folder}/{number}/{name}"));
        let state = file("state").as_deref().and_then(state);
        let has_files = |nic: &Nic| nic.kind != NicKind::Unknown;
        let named = file("gid_attrs/ndevs/0").filter(|name| nics.iter().any(|nic| nic.name == *name && has_files(nic)));
        RdmaPort {
            number,
            nic: named.or_else(|| beside(root, pci?, number, only_port, nics)),
            active: state.map(|state| state == ACTIVE),
            link_layer: file("link_layer").filter(|layer| LINK_LAYERS.contains(&layer.as_str())),
            speed: file("rate").filter(|_| state != Some(DOWN)).as_deref().and_then(rate),
        }
    };
    numbers.into_iter().filter(|number| *number > 0).map(port).collect()
}

/// The interface of the same function and port, where there is exactly one.
///
/// This finds IP over InfiniBand, whose ports have no `ndevs`. Interfaces of other partitions
/// (`ib0.8001`) have a `parent`, and are not the port's own.
fn beside(root: &Root, pci: PciAddress, port: u32, only_port: bool, nics: &[Nic]) -> Option<String> {
    let file = |nic: &Nic, name: &str| root.text(&format!("{NET}/{}/{name}", nic.name));
    let own = |nic: &&Nic| nic.pci == Some(pci) && file(nic, "parent").is_none();
    let siblings: Vec<&Nic> = nics.iter().filter(own).collect();
    if let ([nic], true) = (&siblings[..], only_port) {
        return Some(nic.name.clone());
    }
    // `dev_port` counts from 0. Drivers older than it (Linux 3.15) put the port into `dev_id`, in
    // hexadecimal.
    let on_port = |nic: &&&Nic| {
        let of_old = || u32::from_str_radix(file(nic, "dev_id")?.strip_prefix("0x")?, 16).ok();
        file(nic, "dev_port").map_or_else(of_old, |text| text.parse().ok()) == port.checked_sub(1)
    };
    let mut found = siblings.iter().filter(on_port);
    found.next().filter(|_| found.next().is_none()).map(|nic| nic.name.clone())
}

/// `4: ACTIVE`.
fn state(text: &str) -> Option<u32> {
    text.split_once(':')?.0.parse().ok()
}

/// `56 Gb/sec (4X FDR)`; there are rates of half a gigabit too.
fn rate(text: &str) -> Option<Bandwidth> {
    let (number, _) = text.split_once(" Gb/sec")?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u64 = fraction.parse().ok().filter(|_| fraction.len() == 1)?;
    let megabits = whole.parse::<u32>().map(u64::from).ok()? * 1_000 + tenths * 100;
    (megabits > 0).then(|| Bandwidth::mbps(megabits))
}

/// The folders of the devices and of the interfaces.
const INFINIBAND: &str = "sys/class/infiniband";
const NET: &str = "sys/class/net";

/// States of a port (`enum ib_port_state` in the kernel's `include/rdma/ib_verbs.h`).
const DOWN: u32 = 1;
const ACTIVE: u32 = 4;

const LINK_LAYERS: [&str; 2] = ["InfiniBand", "Ethernet"];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_in_gigabits() {
        assert_eq!(rate("56 Gb/sec (4X FDR)"), Some(Bandwidth::mbps(56_000)));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Some(Bandwidth::mbps(2_500)));
        for text in ["", "0 Gb/sec", "-1 Gb/sec", "2.55 Gb/sec", "2. Gb/sec", "56", "99999999999 Gb/sec (4X)"] {
            assert_eq!(rate(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn texts_of_any_kind_are_read_or_not(text in ".*") {
            rate(&text);
            state(&text);
        }
    }
}
