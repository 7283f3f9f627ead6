//! The machine that this process runs on.

use crate::{DetectError, InterfaceAddress, Nic, Origin, Topology, linux};
use std::{collections::BTreeMap, io, net::IpAddr, path::Path};

impl Topology {
    /// Reads this machine: the kernel's files, and with cargo feature `hwloc` (on by default) packages, nodes, caches,
    /// cores and distances as hwloc sees them.
    ///
    /// # Allowed CPUs and nodes
    ///
    /// What `/proc/self/status` and the cpuset of the process's control group allow together: the mask of the *main thread* of the
    /// process, whichever thread calls. A thread that was pinned before thus does not hide the rest of the machine from its
    /// process; pinning the main thread does, so detect first and pin it afterwards. hwloc leaves out what the cgroup forbids,
    /// which the kernel's mask never holds either; all are taken together.
    ///
    /// # Errors
    ///
    /// [`DetectError`], by source. hwloc's environment variables can make it describe another machine: that is
    /// [`DetectError::NotThisMachine`], for binding by such a description would do something else than it says.
    pub fn detect() -> Result<Self, DetectError> {
        let topology = linux::read(Path::new("/"), Origin::ThisMachine { reader: "sysfs".to_owned() })?;
        #[cfg(feature = "hwloc")]
        let topology = crate::hwloc::complete(topology)?;
        Ok(with_addresses(topology, addresses()?))
    }
}

/// The addresses of the interfaces, by their names: of version 4 too, which no file has by interface.
pub(crate) fn addresses() -> Result<Vec<(String, InterfaceAddress)>, DetectError> {
    let failed = |errno| DetectError::Addresses { source: io::Error::from(errno) };
    let known = |interface: nix::ifaddrs::InterfaceAddress| {
        let ip = interface.address.as_ref().and_then(ip_of)?;
        let prefix_len = interface.netmask.as_ref().and_then(ip_of).map(prefix_len)?;
        Some((interface.interface_name, InterfaceAddress { ip, prefix_len }))
    };
    Ok(nix::ifaddrs::getifaddrs().map_err(failed)?.filter_map(known).collect())
}

/// The machine with these addresses and no others.
pub(crate) fn with_addresses(mut topology: Topology, addresses: Vec<(String, InterfaceAddress)>) -> Topology {
    give_addresses(&mut topology.nics, addresses);
    topology
}

/// Gives the interfaces these addresses and no others.
pub(crate) fn give_addresses(nics: &mut [Nic], addresses: Vec<(String, InterfaceAddress)>) {
    let mut of_name: BTreeMap<String, Vec<InterfaceAddress>> = BTreeMap::new();
    for (name, address) in addresses {
        of_name.entry(name).or_default().push(address);
    }
    nics.iter_mut().for_each(|nic| nic.addresses = of_name.remove(&nic.name).unwrap_or_default());
}

fn ip_of(address: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
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
