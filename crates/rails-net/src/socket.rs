//! Sockets of any transport: bound to an address or a device, with errors that name the option.

use crate::{BindEndError, LocalEnd, Repeated, SocketOptionError};
use socket2::{SockRef, Socket};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    time::Instant,
};

/// Binds the socket to a device, and reads the device back.
pub(crate) fn bind_device(socket: &Socket, device: &str) -> Result<(), BindEndError> {
    let failed = |source| BindEndError::Device { device: device.to_owned(), source };
    // The kernel takes an empty name for "no device" and cuts a long one (`sock_setbindtodevice` in
    // net/core/sock.c): neither would bind to the requested device.
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
        Some(address) if address.is_ipv4() == remote.is_ipv4() => bind_address(socket, beside(address, remote)),
        Some(local) if device.is_none() => Err(BindEndError::Mismatch { local, other: remote }),
        _ => Ok(()),
    }
}

/// The local address of a connection to `remote`, with the scope of `remote` if the local address
/// is link-local: both ends are on one link.
fn beside(address: IpAddr, remote: SocketAddr) -> SocketAddr {
    match (address, remote) {
        (IpAddr::V6(ip), SocketAddr::V6(remote)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, 0, 0, remote.scope_id()).into()
        }
        _ => SocketAddr::new(address, 0),
    }
}

/// The device that the socket is bound to, if it is.
pub(crate) fn bound_device(socket: &SockRef<'_>) -> Result<Option<String>, SocketOptionError> {
    let name = get("SO_BINDTODEVICE", socket.device())?;
    Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
}

pub(crate) fn set(
    option: &'static str,
    value: impl fmt::Display,
    result: io::Result<()>,
) -> Result<(), SocketOptionError> {
    result.map_err(|source| SocketOptionError { call: "setsockopt", option, value: Some(value.to_string()), source })
}

/// Sets an option that only improves a socket. If the kernel lacks the option, or a filter refuses
/// the call with any error, the socket is used without it, unless the caller requested it; the
/// settings that are read back show that.
pub(crate) fn prefer(
    option: &'static str,
    value: impl fmt::Display,
    is_asked: bool,
    result: io::Result<()>,
) -> Result<(), SocketOptionError> {
    match result {
        Err(error) if !is_asked => {
            match REFUSED.due(Instant::now(), option) {
                Some(left_out) => tracing::warn!(option, %error, left_out, "sockets go without an option"),
                None => tracing::debug!(option, %error, "a socket goes without an option"),
            }
            Ok(())
        }
        result => set(option, value, result),
    }
}

/// Whether the system does not have the option, which some systems report as EINVAL, or refuses it
/// to this process.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EINVAL)
    )
}

/// The value of an option; `None` where it may not be read, as [`is_refused`] says.
pub(crate) fn known<R>(option: &'static str, result: io::Result<R>) -> Result<Option<R>, SocketOptionError> {
    match result {
        Err(error) if is_refused(&error) => Ok(None),
        result => get(option, result).map(Some),
    }
}

pub(crate) fn get<R>(option: &'static str, result: io::Result<R>) -> Result<R, SocketOptionError> {
    result.map_err(|source| SocketOptionError { call: "getsockopt", option, value: None, source })
}

/// The warnings of options that are refused.
static REFUSED: Repeated = Repeated::new();
