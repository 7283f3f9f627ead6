//! One UDP socket.

use super::{arrivals::Arrivals, bursts::Bursts, pacing::Pacer, room::Room, stats::Counters};
use crate::{BindEndError, Deviation, PacingUse, UdpError, UdpStats};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::AtomicBool,
};

/// A UDP socket with the options of a [`UdpOptions`](crate::UdpOptions), on the tokio runtime where
/// it was opened.
///
/// Sending and receiving take a shared reference, from any thread. [`try_send`](Self::try_send) and
/// [`try_receive`](Self::try_receive) never block. Before the first call, and after
/// [`WouldBlock`](io::ErrorKind::WouldBlock), the caller waits with
/// [`poll_send_ready`](Self::poll_send_ready) or [`poll_receive_ready`](Self::poll_receive_ready);
/// each remembers the latest caller only.
///
/// A socket takes two descriptors: the socket, and an epoll instance by which the runtime watches
/// for room to send.
///
/// # Examples
/// ```
/// use rails_net::UdpOptions;
/// use std::{future::poll_fn, io::{IoSlice, IoSliceMut}, num::NonZeroU16};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let far = UdpOptions::new().bind("127.0.0.1:0".parse()?)?;
/// let near = UdpOptions::new().connect(far.local_addr()?)?;
///
/// // Two datagrams of six bytes: each a header of two and a payload of four.
/// let slices = [&b"h0"[..], b"abcd", b"h1", b"efgh"].map(IoSlice::new);
/// poll_fn(|context| near.poll_send_ready(context)).await?;
/// assert_eq!(near.try_send(&slices, NonZeroU16::new(6), None, None)?, 12);
///
/// let (mut headers, mut payload) = ([[0; 2]; 2], [0; 8]);
/// let ([header_0, header_1], (payload_0, payload_1)) = (&mut headers, payload.split_at_mut(4));
/// let mut buffers = [&mut header_0[..], payload_0, header_1, payload_1].map(IoSliceMut::new);
/// poll_fn(|context| far.poll_receive_ready(context)).await?;
/// let received = far.try_receive(&mut buffers)?;
/// if received.segment_bytes.is_some() {
///     assert_eq!((headers, &payload), ([*b"h0", *b"h1"], b"abcdefgh"));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    pub(super) arrivals: Arrivals,
    pub(super) room: Room,
    pub(super) is_ipv4: bool,
    pub(super) deviations: Vec<Deviation>,
    pub(super) bursts: Bursts,
    pub(super) pacer: Pacer,
    pub(super) counters: Counters,
    /// Whether the kernel lacks calls that receive several trains.
    pub(super) receives_singly: AtomicBool,
}

impl UdpSocket {
    /// The local address; the kernel chooses it when the socket is connected, if it was not bound
    /// to one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    /// The peer's address; `None` if the socket is not connected.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<Option<SocketAddr>> {
        match self.socket().peer_addr() {
            Ok(peer) => Ok(Some(peer)),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Connects the socket, or connects it anew, as after a NAT has given the peer another address.
    /// From now on the socket sends to `remote` by default, receives only from there, and decides
    /// anew whether it paces.
    ///
    /// The local port stays, and so does a local address that an earlier connect has chosen.
    /// Datagrams in the buffer stay too, from all senders.
    ///
    /// Call it on a thread in the socket's own network namespace: the route is looked up there.
    ///
    /// # Errors
    /// [`UdpError::LocalEnd`] if `remote` is of the other address family, [`UdpError::Connect`] if
    /// no route leads there. After an error an earlier peer may stay.
    pub fn connect(&self, remote: SocketAddr) -> Result<(), UdpError> {
        let local = self.address(remote)?;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(BindEndError::Mismatch { local: local.ip(), other: remote }.into());
        }
        let socket = socket2::SockRef::from(self.socket());
        socket.connect(&remote.into()).map_err(|source| UdpError::Connect { local, remote, source })?;
        self.decide_pacing();
        Ok(())
    }

    /// Moves the socket to the calling thread's runtime.
    ///
    /// # Errors
    /// The kernel's, mostly for too many descriptors. The socket is closed then.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its I/O driver (`enable_all`).
    pub fn register_here(self) -> io::Result<Self> {
        let room = Room::of(self.socket())?;
        Ok(Self { arrivals: self.arrivals.register_here()?, room, ..self })
    }

    /// Makes the calling thread's runtime watch for arrivals, as a new socket's does, or no
    /// runtime. While none watches, [`poll_receive_ready`](Self::poll_receive_ready) is never
    /// ready, and [`try_receive`](Self::try_receive) asks the kernel each time. A caller that reads
    /// at its own intervals so receives several datagrams for one wake of its thread, although they
    /// come one by one.
    ///
    /// # Errors
    /// The kernel's, mostly for too many descriptors to watch. No runtime watches then.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its I/O driver (`enable_all`).
    pub fn watch_arrivals(&mut self, is_watched: bool) -> io::Result<()> {
        self.arrivals.watch(is_watched)
    }

    /// Whether a runtime [watches for arrivals](Self::watch_arrivals).
    pub fn watches_arrivals(&self) -> bool {
        self.arrivals.are_watched()
    }

    /// The options whose values the kernel had changed when the socket was opened.
    pub fn deviations(&self) -> &[Deviation] {
        &self.deviations
    }

    /// Whether [`try_send`](Self::try_send) accepts times, and why not.
    pub fn pacing(&self) -> PacingUse {
        self.pacer.in_use()
    }

    /// The counters so far.
    pub fn stats(&self) -> UdpStats {
        self.counters.read()
    }

    pub(super) fn socket(&self) -> &std::net::UdpSocket {
        self.arrivals.socket()
    }

    /// The local address, for errors that are about `other`.
    pub(super) fn address(&self, other: SocketAddr) -> Result<SocketAddr, UdpError> {
        self.local_addr().map_err(|source| UdpError::Call { call: "getsockname", address: other, source })
    }

    pub(super) fn decide_pacing(&self) {
        if self.pacer.is_wanted() {
            self.pacer.decide(self.socket(), self.route());
        }
    }
}

impl AsFd for UdpSocket {
    /// The descriptor, for options that this crate does not set.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}
