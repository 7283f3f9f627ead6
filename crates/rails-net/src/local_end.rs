//! The local end of a lane.

use crate::interfaces;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// The local end of a lane, which decides by which NIC the lane leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LocalEnd {
    /// The kernel's routes decide.
    #[default]
    Any,
    /// An address of this machine. The routes still choose the NIC of the packets, which need not
    /// be the one with the address (with several NICs in one network, or without rules by source
    /// address).
    Address(IpAddr),
    /// An interface, by name (`SO_BINDTODEVICE`): packets leave and arrive only by that interface.
    Device(String),
    /// An interface, and one of its addresses. A lane to a peer of the other address family is
    /// bound to the interface alone.
    DeviceAddress {
        /// The interface's name.
        device: String,
        /// The address.
        address: IpAddr,
    },
}

impl LocalEnd {
    /// The end that has this address, on the interface of its scope if it has one.
    pub fn at(address: SocketAddr) -> Self {
        let scope = match address {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let ip = address.ip();
        match Some(scope).filter(|scope| *scope != 0).and_then(interfaces::name_of) {
            Some(device) => Self::DeviceAddress { device, address: ip },
            None => Self::Address(ip),
        }
    }

    /// The interface.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Device(device) | Self::DeviceAddress { device, .. } => Some(device),
            Self::Any | Self::Address(_) => None,
        }
    }

    /// The address.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) | Self::DeviceAddress { address, .. } => Some(*address),
            Self::Any | Self::Device(_) => None,
        }
    }
}

impl From<IpAddr> for LocalEnd {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => write!(f, "any local address"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Device(device) => write!(f, "device {device}"),
            Self::DeviceAddress { device, address } => write!(f, "{address} on device {device}"),
        }
    }
}
