//! Detection of the machine that this process runs on.

use crate::{DetectError, InterfaceAddress, Nic, Origin, Topology, linux};
use std::{collections::BTreeMap, io, net::IpAddr, path::Path};

impl Topology {
    /// Reads this machine: the kernel's files, and with cargo feature `hwloc` (on by default) packages, nodes, caches,
    /// cores and distances as hwloc sees them.
    ///
    /// # Allowed CPUs and nodes
    ///
    /// The allowed CPUs are those that `/proc/self/status` and the cpuset of the process's control group both allow.
    /// The mask is that of the process's *main thread*, whichever thread calls, so a pinned thread still sees the rest
    /// of the machine. Pinning the main thread hides the rest: detect first and pin it afterwards. hwloc leaves out the
    /// CPUs that the cgroup forbids, which are not in the kernel's mask either; all three are taken together.
    ///
    /// # Errors
    ///
    /// [`DetectError`], by source. hwloc's environment variables can make it describe another machine: that is
    /// [`DetectError::NotThisMachine`], because a binding by such a description would be wrong.
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
