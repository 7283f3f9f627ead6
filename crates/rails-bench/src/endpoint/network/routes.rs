//! The local addresses towards a peer.

use crate::exit::Help;
use anyhow::{Context, Result};
use std::net::{IpAddr, SocketAddr};

/// The local address from which packets to `remote` leave, by the routing table.
pub(super) fn local_address(remote: SocketAddr) -> Result<IpAddr> {
    let found = rails_net::local_address_towards(remote);
    found.with_context(|| format!("--to {remote}: no route leads there")).map_err(|error| {
        error.help(match remote {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
                format!("a link-local address names its interface, such as {}%eth0", v6.ip())
            }
            _ => format!("`ip route get {}` prints the route that the kernel chooses", remote.ip()),
        })
    })
}
