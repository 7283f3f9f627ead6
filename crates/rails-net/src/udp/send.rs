//! Sending bursts.

use super::{
    bursts::{Bursts, is_refusal},
    control::Control,
};
use crate::UdpSocket;
use socket2::{MsgHdr, SockAddr, SockRef};
use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    num::NonZeroU16,
    task::{Context, Poll},
    time::Instant,
};

impl UdpSocket {
    /// The maximum bytes of one burst: those of an IPv4 datagram, since the kernel builds one and
    /// cuts it.
    pub const MAX_BURST_BYTES: usize = Bursts::MAX_BURST_BYTES;

    /// The maximum number of datagrams of one burst (`UDP_MAX_SEGMENTS` in include/linux/udp.h,
    /// since Linux 6.9).
    pub const MAX_SEGMENTS: u16 = Bursts::MAX_SEGMENTS;

    /// The maximum number of datagrams of one burst on older kernels. A socket detects the limit:
    /// [`max_segments`](Self::max_segments).
    pub const FEWER_SEGMENTS: u16 = Bursts::FEWER_SEGMENTS;

    /// The maximum number of slices of one call (`UIO_MAXIOV` in include/uapi/linux/uio.h).
    pub const MAX_SLICES: usize = Bursts::MAX_SLICES;

    /// The datagrams that the kernel takes at once at most, as far as the socket knows:
    /// [`MAX_SEGMENTS`] until a longer burst than [`FEWER_SEGMENTS`] was refused.
    ///
    /// [`MAX_SEGMENTS`]: Self::MAX_SEGMENTS
    /// [`FEWER_SEGMENTS`]: Self::FEWER_SEGMENTS
    pub fn max_segments(&self) -> u16 {
        self.bursts.max_segments()
    }

    /// Polls for room to send. A pending error, such as a report of ICMP, counts as room: the next
    /// send returns it.
    ///
    /// # Errors
    /// The runtime's, when it shuts down.
    pub fn poll_send_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.room.poll(context)
    }

    /// Sends the slices, one after the other, as datagrams of `segment_bytes`, the last of which
    /// may be shorter; without `segment_bytes`, as one datagram. They go to `to`, or to the
    /// connected peer. The kernel holds the whole burst back until `at`: cut bursts to the
    /// granularity of the times.
    ///
    /// Returns the bytes of the datagrams that the kernel took. Those are the first datagrams, and
    /// not always all, if the kernel does not segment or takes fewer at once. No datagram is taken
    /// in part, and after an error none is.
    ///
    /// Slices need not end where datagrams do. The call neither blocks nor allocates memory, except
    /// where the kernel does not segment and a datagram has more than 16 slices.
    ///
    /// # Segmentation
    /// If the kernel or the device refuses to segment, the socket sends each datagram by a call of
    /// its own, from then on and also to other peers.
    /// [`UdpStats::segmentation_refused`](crate::UdpStats::segmentation_refused) and
    /// [`UdpSettings::segmentation`](crate::UdpSettings::segmentation) report it.
    ///
    /// # Errors
    /// * [`WouldBlock`](io::ErrorKind::WouldBlock): the send buffer is full.
    /// * `EMSGSIZE`: a datagram is larger than the interface's MTU, or than the path's with
    ///   [`PathMtuDiscovery::Do`](crate::PathMtuDiscovery::Do)
    ///   ([`is_too_large`](Self::is_too_large)). A connected socket gives it also for an ICMP
    ///   message about a datagram sent before.
    /// * [`InvalidInput`](io::ErrorKind::InvalidInput): a burst beyond
    ///   [`MAX_BURST_BYTES`](Self::MAX_BURST_BYTES), [`MAX_SEGMENTS`](Self::MAX_SEGMENTS) or
    ///   [`MAX_SLICES`](Self::MAX_SLICES).
    /// * [`Unsupported`](io::ErrorKind::Unsupported): a time, though [`pacing`](Self::pacing) is
    ///   not in use. With `fq`, a time beyond its horizon (10 s) is dropped; with `etf`, so is one
    ///   that has passed.
    /// * [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) and other reports of ICMP about
    ///   datagrams sent before; the next call goes on.
    /// * The kernel's others: `EDESTADDRREQ` without `to` and without a peer, `EAFNOSUPPORT` for an
    ///   address of the other family, `ENETUNREACH`, `EPERM` from a firewall.
    ///
    /// # References
    /// [udp(7)](https://man7.org/linux/man-pages/man7/udp.7.html), `UDP_SEGMENT`
    pub fn try_send(
        &self,
        slices: &[IoSlice<'_>],
        segment_bytes: Option<NonZeroU16>,
        to: Option<SocketAddr>,
        at: Option<Instant>,
    ) -> io::Result<usize> {
        let at = at.map(|at| self.pacer.stamp(at)).transpose()?;
        let to = to.map(SockAddr::from);
        self.room.try_send(self.socket(), || {
            self.bursts.send(slices, segment_bytes, |slices, segment| self.send_once(slices, segment, to.as_ref(), at))
        })
    }

    /// Whether an error of [`try_send`](Self::try_send) says that a datagram was larger than an MTU
    /// (`EMSGSIZE`).
    pub fn is_too_large(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::EMSGSIZE)
    }

    /// Makes one call of `sendmsg`.
    fn send_once(
        &self,
        slices: &[IoSlice<'_>],
        segment: Option<NonZeroU16>,
        to: Option<&SockAddr>,
        at: Option<u64>,
    ) -> io::Result<usize> {
        let mut control = Control::new();
        if let Some(segment) = segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment.get().to_ne_bytes());
        }
        if let Some(nanoseconds) = at {
            control.push(libc::SOL_SOCKET, libc::SCM_TXTIME, nanoseconds.to_ne_bytes());
        }
        let mut message = MsgHdr::new().with_buffers(slices).with_control(control.as_bytes());
        if let Some(to) = to {
            message = message.with_addr(to);
        }
        let outcome = SockRef::from(self.socket()).sendmsg(&message, 0);
        match &outcome {
            Ok(bytes) => {
                let datagrams = segment.map_or(1, |segment| bytes.div_ceil(segment.get().into()));
                self.counters.sent(datagrams as u64, *bytes as u64);
            }
            Err(error) => self.counters.not_sent(Self::is_too_large(error), segment.is_some() && is_refusal(error)),
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use crate::{PacingUse, UdpOptions, UdpSocket, UdpStats, netlink::Qdisc, sys::option::SocketOption};
    use netlink_packet_route::tc::TcHandle;
    use std::{
        future::poll_fn,
        io::{self, IoSlice, IoSliceMut},
        num::NonZeroU16,
        time::Instant,
    };

    async fn receive(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 100];
        loop {
            poll_fn(|context| socket.poll_receive_ready(context)).await.expect("the runtime runs");
            match socket.try_receive(&mut [IoSliceMut::new(&mut buffer)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return buffer[..received.expect("it is open").bytes].to_vec(),
            }
        }
    }

    #[tokio::test]
    async fn refused_segmentation_sends_each_datagram_once() {
        let far = UdpOptions::new().bind(([127, 0, 0, 1], 0).into()).expect("loopback is there");
        let near = UdpOptions::new().connect(far.local_addr().expect("it has one")).expect("loopback is there");
        SocketOption::NO_CHECK.set(&near, 1).expect("no privilege is needed");
        assert!(near.settings().expect("readable").segmentation);
        let burst = [b"first ", b"second", b"third ", b"fourth"].map(|datagram| IoSlice::new(datagram));
        poll_fn(|context| near.poll_send_ready(context)).await.expect("the runtime runs");
        for _ in 0..2 {
            assert_eq!(near.try_send(&burst, NonZeroU16::new(6), None, None).expect("there is room"), 24);
            for datagram in burst {
                assert_eq!(receive(&far).await, &*datagram);
            }
        }
        let UdpStats { datagrams_sent, send_calls, segmentation_refused, .. } = near.stats();
        assert_eq!((datagrams_sent, send_calls, segmentation_refused), (8, 9, 1), "it asked once");
        assert!(!near.settings().expect("readable").segmentation);
    }

    #[tokio::test]
    async fn kernel_takes_times_with_a_burst_under_fq() {
        let far = UdpOptions::new().coalescing(false).bind(([127, 0, 0, 1], 0).into()).expect("loopback is there");
        let near = UdpOptions::new().connect(far.local_addr().expect("it has one")).expect("loopback is there");
        let root = |kind: &str| Qdisc { kind: kind.to_owned(), handle: TcHandle::default(), parent: TcHandle::ROOT };
        near.pacer.decide_by(&near, &[root("fq")]);
        let pacing = PacingUse::InUse { interface: "eth0".to_owned(), qdisc: "fq".to_owned() };
        assert_eq!(near.pacing(), pacing);
        poll_fn(|context| near.poll_send_ready(context)).await.expect("the runtime runs");
        let burst = [IoSlice::new(b"paced 1"), IoSlice::new(b"paced 2")];
        let sent = near.try_send(&burst, NonZeroU16::new(7), None, Some(Instant::now()));
        assert_eq!((sent.expect("there is room"), near.stats().send_calls), (14, 1));
        assert_eq!((receive(&far).await, receive(&far).await), (b"paced 1".to_vec(), b"paced 2".to_vec()));
    }
}
