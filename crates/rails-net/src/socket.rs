//! Sockets of any transport: bound to an address or a device, with errors that name the option.

use crate::{BindEndError, LocalEnd, OptionError};
use socket2::{SockRef, Socket};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
};

/// Binds the socket to a device, and reads the device back.
pub(crate) fn bind_device(socket: &Socket, device: &str) -> Result<(), BindEndError> {
    let failed = |source| BindEndError::Device { device: device.to_owned(), source };
    // The kernel takes an empty name for "no device" and cuts a long one (`sock_setbindtodevice` in net/core/sock.c):
    // neither would bind to the requested device.
    if device.is_empty() || device.len() >= libc::IFNAMSIZ {
        return Err(failed(io::Error::from_raw_os_error(libc::ENODEV)));
    }
    socket.bind_device(Some(device.as_bytes())).map_err(failed)?;
    match socket.device().map_err(failed)? {
        Some(got) if got == device.as_bytes() => Ok(()),
        _ => Err(failed(io::Error::other("it does not read back as bound to the device"))),
    }
}

/// Binds the socket to an address.
pub(crate) fn bind_address(socket: &Socket, address: SocketAddr) -> Result<(), BindEndError> {
    socket.bind(&address.into()).map_err(|source| BindEndError::Address { address, source })
}

/// Binds the local end of a connection to `remote`.
pub(crate) fn bind_local(socket: &Socket, local: &LocalEnd, remote: SocketAddr) -> Result<(), BindEndError> {
    let device = local.device();
    device.map_or(Ok(()), |device| bind_device(socket, device))?;
    match local.address() {
        Some(address) if address.is_ipv4() == remote.is_ipv4() => bind_address(socket, SocketAddr::new(address, 0)),
        Some(local) if device.is_none() => Err(BindEndError::Mismatch { local, other: remote }),
        _ => Ok(()),
    }
}

/// The device that the socket is bound to, if it is.
pub(crate) fn bound_device(socket: &SockRef<'_>) -> Result<Option<String>, OptionError> {
    let name = get("SO_BINDTODEVICE", socket.device())?;
    Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
}

/// The index of an interface of this network namespace, if there is one of that name.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

/// The interface that has this address, if one has.
pub(crate) fn interface_of(address: IpAddr) -> io::Result<Option<String>> {
    let mut interfaces = nix::ifaddrs::getifaddrs()?;
    let holder = interfaces.find(|interface| {
        let known = interface.address.as_ref();
        let v4 = known.and_then(|known| known.as_sockaddr_in()).map(|v4| v4.ip().into());
        let v6 = || known.and_then(|known| known.as_sockaddr_in6()).map(|v6| v6.ip().into());
        v4.or_else(v6) == Some(address.to_canonical())
    });
    Ok(holder.map(|interface| interface.interface_name))
}

pub(crate) fn set(option: &'static str, value: impl fmt::Display, result: io::Result<()>) -> Result<(), OptionError> {
    result.map_err(|source| OptionError { call: "setsockopt", option, value: Some(value.to_string()), source })
}

pub(crate) fn get<R>(option: &'static str, result: io::Result<R>) -> Result<R, OptionError> {
    result.map_err(|source| OptionError { call: "getsockopt", option, value: None, source })
}
