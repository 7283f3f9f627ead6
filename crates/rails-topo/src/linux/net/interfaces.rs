//! The interfaces of the machine, and whether their files are theirs.
//!
//! `/sys/class/net` shows the interfaces of the network namespace in which `/sys` was mounted,
//! which may be another than the one of the thread that reads. The kernel lists those of the
//! thread's namespace (getifaddrs(3)); files count as an interface's own where index and hardware
//! address agree.

use super::{super::root::Root, NET, addresses};
use crate::{InterfaceAddress, MacAddress, Nic, NicKind};
use nix::{
    ifaddrs::getifaddrs,
    net::if_::{InterfaceFlags, if_nametoindex},
    sys::socket::SockaddrStorage,
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::IpAddr,
};

/// An interface.
pub(super) struct Interface {
    /// The facts that are known without the interface's files.
    pub(super) nic: Nic,
    /// Whether the files below the interface's name are its own.
    pub(super) has_files: bool,
}

/// The interfaces, by name: of this machine those of the thread's namespace, of a tree all that
/// have files.
pub(super) fn interfaces(root: &Root) -> Vec<Interface> {
    match of_this_thread(root) {
        Some(nics) => {
            let interface = |nic: Nic| Interface { has_files: has_its_files(root, &nic), nic };
            nics.into_iter().map(interface).collect()
        }
        None => with_files(root),
    }
}

/// The interfaces of the calling thread's network namespace with their addresses, by name, as the
/// kernel lists them; `None` where it refuses.
pub(in super::super) fn listed_by_kernel(root: &Root) -> Option<Vec<Nic>> {
    let mut nics: BTreeMap<String, Nic> = BTreeMap::new();
    for found in root.answer(None, getifaddrs().map_err(Into::into))? {
        // An address of version 4 can have a label, which is the interface's name with a suffix: `eth0:1`.
        let name = found.interface_name.split(':').next().unwrap_or_default();
        let nic = match nics.entry(name.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Nic { kind: NicKind::Unknown, ..Nic::named(name) }),
        };
        if let Some(link) = found.address.as_ref().and_then(SockaddrStorage::as_link_addr) {
            let has = |flag| found.flags.contains(flag);
            let is_set_up = has(InterfaceFlags::IFF_UP);
            nic.index = u32::try_from(link.ifindex()).ok();
            nic.mac = link.addr().filter(|_| link.halen() == 6).map(MacAddress);
            nic.up = Some(is_set_up && has(InterfaceFlags::IFF_RUNNING));
            nic.carrier = is_set_up.then(|| has(InterfaceFlags::IFF_LOWER_UP));
            if has(InterfaceFlags::IFF_LOOPBACK) {
                nic.kind = NicKind::Loopback;
            }
        }
        let ip = found.address.as_ref().and_then(ip_of);
        let mask = found.netmask.as_ref().and_then(ip_of);
        if let (Some(ip), Some(mask)) = (ip, mask) {
            nic.addresses.push(InterfaceAddress { ip, prefix_len: prefix_len(mask) });
        }
    }
    // The answer is made of two lists; a link that went between the two has left its addresses.
    Some(nics.into_values().filter(|nic| nic.index.is_some()).collect())
}

/// The interfaces that have files, with the addresses that files state. Of this machine, where the
/// kernel does not list interfaces, those whose name has the same index when it is looked up.
fn with_files(root: &Root) -> Vec<Interface> {
    let mut addresses = addresses::of_version_6(root);
    if root.is_this_machine() {
        for (name, address) in addresses::of_version_4(root) {
            addresses.entry(name).or_default().push(address);
        }
    }
    // The folder also has plain files, such as `bonding_masters`.
    let is_interface = |name: &String| {
        let path = format!("{NET}/{name}");
        root.is_dir(&path) || root.link(&path).is_some()
    };
    let is_own = |name: &String| !root.is_this_machine() || if_nametoindex(name.as_str()).ok() == index(root, name);
    let names = root.names(NET).into_iter().filter(is_interface).filter(is_own);
    let interface = |name: String| {
        let addresses = addresses.remove(&name).unwrap_or_default();
        Interface { nic: Nic { addresses, ..Nic::named(&name) }, has_files: true }
    };
    names.map(interface).collect()
}

/// Whether the thread's namespace has an interface of that name whose files are its own.
pub(crate) fn has_own_files(root: &Root, name: &str) -> bool {
    match of_this_thread(root) {
        // The files of one interface, and not those of all, as settings ask for each of a NIC's queues.
        Some(nics) => nics.iter().any(|nic| nic.name == name && has_its_files(root, nic)),
        None => with_files(root).iter().any(|interface| interface.nic.name == name),
    }
}

/// As [`listed_by_kernel`], where the tree is that of this machine.
fn of_this_thread(root: &Root) -> Option<Vec<Nic>> {
    root.is_this_machine().then(|| listed_by_kernel(root)).flatten()
}

/// Whether the files below the name of an interface are its own, and not those of one in another
/// network namespace. Addresses of other lengths than 48 bits are unknown on both sides.
pub(in super::super) fn has_its_files(root: &Root, nic: &Nic) -> bool {
    let name = &nic.name;
    nic.index.is_some() && index(root, name) == nic.index && root.value(&format!("{NET}/{name}/address")) == nic.mac
}

fn index(root: &Root, name: &str) -> Option<u32> {
    root.value(&format!("{NET}/{name}/ifindex"))
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

fn prefix_len(netmask: IpAddr) -> u8 {
    let ones = match netmask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    ones as u8
}
