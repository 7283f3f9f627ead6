//! Where a lane begins.

use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// The local end of a lane: what decides which NIC it leaves by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalEnd {
    /// The kernel's routes decide.
    #[default]
    Any,
    /// An address of this machine. Which NIC its packets leave by is still the routes' decision (with several NICs in
    /// one network, or without rules by source address, it can be another's).
    Address(IpAddr),
    /// An interface, by name (`SO_BINDTODEVICE`): packets leave and arrive by it and no other.
    Device(String),
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
        }
    }
}
