//! The machine that this process runs on.

use crate::{DetectError, InterfaceAddress, Nic, Origin, Topology, linux};
use std::{io, net::IpAddr, path::Path};

impl Topology {
    /// Reads this machine: the kernel's files, and with cargo feature `hwloc` (on by default) packages, nodes, caches,
    /// cores and distances as hwloc sees them.
    ///
    /// # Allowed CPUs and nodes
    ///
    /// What `/proc/self/status` allows: the mask of the *main thread* of the process, whichever thread calls. A thread
    /// that was pinned before thus does not hide the rest of the machine from its process; pinning the main thread
    /// does, so detect first and pin it afterwards. hwloc leaves out what the cgroup forbids, which the kernel's mask
    /// never holds either; both are taken together.
    ///
    /// # Errors
    ///
    /// [`DetectError`], by source. hwloc's environment variables can make it describe another machine: that is
    /// [`DetectError::NotThisMachine`], for binding by such a description would do something else than it says.
    pub fn detect() -> Result<Self, DetectError> {
        let topology = linux::read(Path::new("/"), Origin::ThisMachine { reader: "sysfs".to_owned() })?;
        #[cfg(feature = "hwloc")]
        let topology = crate::hwloc::complete(topology)?;
        let mut topology = topology;
        read_addresses(&mut topology.nics)?;
        Ok(topology)
    }
}

/// Gives the interfaces the addresses that they have now.
pub(crate) fn read_addresses(nics: &mut [Nic]) -> Result<(), DetectError> {
    let failed = |errno| DetectError::Addresses { source: io::Error::from(errno) };
    nics.iter_mut().for_each(|nic| nic.addresses.clear());
    for interface in nix::ifaddrs::getifaddrs().map_err(failed)? {
        let nic = nics.iter_mut().find(|nic| nic.name == interface.interface_name);
        let ip = interface.address.as_ref().and_then(ip_of);
        let prefix_len = interface.netmask.as_ref().and_then(ip_of).map(prefix_len);
        if let (Some(nic), Some(ip), Some(prefix_len)) = (nic, ip, prefix_len) {
            nic.addresses.push(InterfaceAddress { ip, prefix_len });
        }
    }
    Ok(())
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
