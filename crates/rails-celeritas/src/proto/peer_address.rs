//! The UDP address of the peer, which a NAT on the way may change.

use std::net::SocketAddr;

/// The destination of segments for the peer: the source port of its newest packet, at the host of
/// the control channel. The handshake there has validated the path to that host, so no third host
/// can be flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress {
    address: SocketAddr,
    newest: Option<u64>,
}

impl PeerAddress {
    /// The address that the peer has told.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, newest: None }
    }

    /// Where segments go now.
    pub fn get(&self) -> SocketAddr {
        self.address
    }

    /// Takes the source of a packet of the peer, whose token was right, and its seal if it has one.
    /// A repeated or late packet changes nothing.
    pub fn handle(&mut self, packet: u64, from: SocketAddr) {
        if self.newest.is_some_and(|newest| packet <= newest) || from.ip() != self.address.ip() {
            return;
        }
        self.newest = Some(packet);
        self.address.set_port(from.port());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_packet_of_the_same_host_moves_it() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut peer = PeerAddress::new(address("10.0.0.1:4000"));
        for (packet, from, then) in [
            (0, "10.0.0.1:4000", "10.0.0.1:4000"),
            (1, "10.0.0.1:5000", "10.0.0.1:5000"),
            (0, "10.0.0.1:4000", "10.0.0.1:5000"),
            (1, "10.0.0.1:4000", "10.0.0.1:5000"),
            (2, "10.0.0.2:6000", "10.0.0.1:5000"),
            (2, "10.0.0.1:6000", "10.0.0.1:6000"),
        ] {
            peer.handle(packet, address(from));
            assert_eq!(peer.get(), address(then), "packet {packet} from {from}");
        }
        // A link-local address keeps its interface.
        let mut peer = PeerAddress::new(address("[fe80::1%2]:4000"));
        peer.handle(0, address("[fe80::1%2]:5000"));
        assert_eq!(peer.get(), address("[fe80::1%2]:5000"));
    }
}
