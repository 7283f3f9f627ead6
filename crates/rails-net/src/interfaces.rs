//! The interfaces of this network namespace, by name, index and address.

use std::{io, net::IpAddr};

/// The index of an interface of this network namespace, if there is one of that name.
pub(crate) fn index_of(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

/// The name of the interface of that index in this network namespace, if there is one.
pub(crate) fn name_of(index: u32) -> Option<String> {
    // nix gives an empty name for an index that no interface has.
    nix::net::if_::if_indextoname(index).ok()?.into_string().ok().filter(|name| !name.is_empty())
}

/// The name of the interface that has this address, if there is one.
pub(crate) fn name_with_address(address: IpAddr) -> io::Result<Option<String>> {
    let mut interfaces = nix::ifaddrs::getifaddrs()?;
    let holder = interfaces.find(|interface| {
        let known = interface.address.as_ref();
        let v4 = known.and_then(|known| known.as_sockaddr_in()).map(|v4| v4.ip().into());
        let v6 = || known.and_then(|known| known.as_sockaddr_in6()).map(|v6| v6.ip().into());
        v4.or_else(v6) == Some(address.to_canonical())
    });
    Ok(holder.map(|interface| interface.interface_name))
}
