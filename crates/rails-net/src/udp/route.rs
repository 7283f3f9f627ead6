//! The route of a UDP socket.

use rails_topo::DataSize;
use serde::Serialize;

/// The interface by which a socket's datagrams leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UdpRoute {
    /// The interface's number (`if_nametoindex(3)`), by which [`LinkWatch`](crate::LinkWatch) names
    /// links.
    pub index: u32,
    /// The interface's name.
    pub interface: String,
    /// The interface's MTU: the bytes of the largest IP packet.
    #[serde(rename = "mtu_bytes")]
    pub mtu: DataSize,
    /// The payload of the largest datagram that fits the interface's MTU, without the headers of IP
    /// and UDP; the path may carry less.
    #[serde(rename = "max_payload_bytes")]
    pub max_payload: DataSize,
}
