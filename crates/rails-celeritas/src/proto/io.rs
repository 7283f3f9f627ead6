//! The sockets that a [`Round`](super::round::Round) moves bytes through.

use super::connection::ConnectionProtocol;
use std::{
    io,
    time::{Duration, Instant},
};

/// The sockets of a connection. No call waits.
pub trait Io {
    /// Receives some of the segments that have come, and passes them to the protocol. Returns
    /// whether more may have come.
    fn receive(&mut self, now: Instant, protocol: &mut ConnectionProtocol) -> bool;

    /// Sends some of the probes and segments that the protocol lets leave now. Returns whether more
    /// may leave at once.
    fn transmit(&mut self, now: Instant, protocol: &mut ConnectionProtocol) -> bool;

    /// Reads bytes of the control channel; 0 at its end.
    ///
    /// # Errors
    /// The socket's, [`WouldBlock`](io::ErrorKind::WouldBlock) if none wait.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Writes bytes to the control channel. Returns how many it took.
    ///
    /// # Errors
    /// The socket's, [`WouldBlock`](io::ErrorKind::WouldBlock) if it takes none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Closes the sending side of the control channel.
    ///
    /// # Errors
    /// The socket's.
    fn shut(&mut self) -> io::Result<()>;

    /// Whether the peer's host has answered all packets of the control channel, or one of them in
    /// the last `within`. Such a host lives, also while the peer's process is stopped.
    fn peer_host_lives(&mut self, within: Duration) -> bool;
}
