//! The maps that the programs and this process share, and the bytes in them.

use super::{
    limits,
    networks::{self, Entry, KEY_BYTES, PORTS_BYTES},
};
use crate::sys::bpf::{Map, MapKind};
use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

/// The maps of a redirect.
#[derive(Debug)]
pub(super) struct Tables {
    /// One slot with the table of prefixes that holds now. Setting it swaps all networks at once.
    pub(super) networks: Map<4, 4>,
    /// Beside each socket, the diversion of its last connect(2).
    pub(super) diversions: Map<4, DIVERSION_BYTES>,
    /// The diverted connections that were established and not accepted yet, by the port that they
    /// come from and the listener that they go to.
    pub(super) established: Map<8, DIVERSION_BYTES>,
}

impl Tables {
    pub(super) fn new(networks: &[Entry]) -> io::Result<Self> {
        let prefixes = prefixes(networks)?;
        let tables = Self {
            networks: Map::slot_for(prefixes.as_fd())?,
            diversions: Map::for_sockets()?,
            established: Map::new(MapKind::Hash, ESTABLISHED)?,
        };
        tables.set_prefixes(&prefixes)?;
        Ok(tables)
    }

    /// Swaps the networks.
    pub(super) fn set_networks(&self, networks: &[Entry]) -> io::Result<()> {
        self.set_prefixes(&prefixes(networks)?)
    }

    /// The slot keeps the table when its descriptor is closed.
    fn set_prefixes(&self, prefixes: &Prefixes) -> io::Result<()> {
        self.networks.insert(&[0; 4], &prefixes.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Leaves the connections of a socket alone from now on.
    pub(super) fn pass_on(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut value = [0; DIVERSION_BYTES];
        value[PATH as usize..].copy_from_slice(&PASSED_ON.to_ne_bytes());
        self.diversions.insert(&socket.as_raw_fd().to_ne_bytes(), &value)
    }

    /// The destination of a connection that comes from `peer`.
    pub(super) fn destination(&self, peer: SocketAddr) -> io::Result<Option<SocketAddr>> {
        Ok(self.established.lookup(&established_key(peer))?.map(|value| destination(&value)))
    }

    /// Forgets the connection that comes from `peer`.
    pub(super) fn forget(&self, peer: SocketAddr) -> io::Result<()> {
        self.established.remove(&established_key(peer))
    }
}

type Prefixes = Map<KEY_BYTES, PORTS_BYTES>;

fn prefixes(entries: &[Entry]) -> io::Result<Prefixes> {
    let prefixes = Map::new(MapKind::Prefixes, (limits::MAX_NETWORKS + networks::OWN_ENTRIES) as u32)?;
    for entry in entries {
        prefixes.insert(&entry.key, &entry.ports)?;
    }
    Ok(prefixes)
}

/// The address and the port as the programs copied them from the program's call: each in the
/// network's order of bytes, the port in 32 bits.
fn destination(value: &[u8; DIVERSION_BYTES]) -> SocketAddr {
    let address: [u8; 16] = value[..16].try_into().expect("an IPv6 address has 16 bytes");
    let port: [u8; 4] = value[PORT as usize..][..4].try_into().expect("four bytes");
    let port = u16::from_be(u32::from_ne_bytes(port) as u16);
    SocketAddr::new(Ipv6Addr::from(address).to_canonical(), port)
}

fn established_key(peer: SocketAddr) -> [u8; 8] {
    let path = if peer.is_ipv4() { TO_IPV4 } else { TO_IPV6 };
    let mut key = [0; 8];
    key[..4].copy_from_slice(&u32::from(peer.port()).to_ne_bytes());
    key[4..].copy_from_slice(&path.to_ne_bytes());
    key
}

/// A diversion: the destination's address, an IPv4 one mapped into IPv6; its port; the path that
/// the connection takes.
pub(super) const DIVERSION_BYTES: usize = 24;
/// The offsets in a diversion.
pub(super) const ADDRESS: i16 = 0;
pub(super) const PORT: i16 = 16;
pub(super) const PATH: i16 = 20;

/// The paths: untouched; to the IPv4 listener; to the IPv6 listener; and untouched for ever, at the
/// carrying process's request.
pub(super) const UNTOUCHED: i32 = 0;
pub(super) const TO_IPV4: i32 = 4;
pub(super) const TO_IPV6: i32 = 6;
pub(super) const PASSED_ON: i32 = 1;

/// Each port, with each listener.
const ESTABLISHED: u32 = 2 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_as_the_programs_write_them() {
        for (address, expected) in [("::ffff:192.0.2.7", "192.0.2.7:443"), ("2001:db8::7", "[2001:db8::7]:443")] {
            let mut value = [0; DIVERSION_BYTES];
            value[..16].copy_from_slice(&address.parse::<Ipv6Addr>().unwrap().octets());
            value[16..20].copy_from_slice(&u32::from(443_u16.to_be()).to_ne_bytes());
            assert_eq!(destination(&value), expected.parse().unwrap());
        }
    }
}
