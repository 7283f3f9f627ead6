//! Receiving trains of datagrams.

use super::stats::Count;
use crate::{
    Received, UdpSocket,
    sys::receive::{self, Arrived, receive, receive_several},
};
use std::{
    io::{self, IoSliceMut},
    os::fd::AsFd,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
};

impl UdpSocket {
    /// The maximum number of datagrams or trains of one call.
    pub const MAX_TRAINS: usize = receive::MAX_TRAINS;

    /// Polls for datagrams. Reports of ICMP alone do not wake the caller; the next send or receive
    /// returns them.
    ///
    /// # Errors
    /// The runtime's, when it shuts down.
    pub fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.arrivals.poll(context)
    }

    /// Receives a datagram, or a train of them, into the buffers, one after the other, by one
    /// system call. The call neither blocks nor allocates memory.
    ///
    /// With [`coalescing`](crate::UdpOptions::coalescing), a train is up to 65,507 bytes (over IPv6
    /// 65,527) long. Bytes that do not fit into the buffers are lost
    /// ([`Received::is_truncated`]).
    ///
    /// Datagrams that other senders sent before the socket was connected are received too.
    ///
    /// # Errors
    /// * [`WouldBlock`](io::ErrorKind::WouldBlock): none waits.
    /// * [`InvalidInput`](io::ErrorKind::InvalidInput): more buffers than
    ///   [`MAX_SLICES`](Self::MAX_SLICES).
    /// * [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), `EMSGSIZE` and other reports of
    ///   ICMP about datagrams that a connected socket sent before; the next call goes on.
    ///
    /// # References
    /// [recvmsg(2)](https://man7.org/linux/man-pages/man2/recvmsg.2.html),
    /// [udp(7)](https://man7.org/linux/man-pages/man7/udp.7.html), `UDP_GRO`
    pub fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Received> {
        let mut received = None;
        self.receive(&mut [buffers], |train| received = Some(train))?;
        received.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// As [`try_receive`](Self::try_receive), for several datagrams or trains at once: each goes
    /// into a list of buffers of its own, in their order. Appends the received ones to `received`:
    /// one or more, and at most [`MAX_TRAINS`](Self::MAX_TRAINS). If the kernel does not have the
    /// call, each call receives one.
    ///
    /// # Errors
    /// Those of [`try_receive`](Self::try_receive); no train was received then.
    ///
    /// # References
    /// [recvmmsg(2)](https://man7.org/linux/man-pages/man2/recvmmsg.2.html)
    pub fn try_receive_trains(
        &self,
        lists: &mut [&mut [IoSliceMut<'_>]],
        received: &mut Vec<Received>,
    ) -> io::Result<()> {
        self.receive(lists, |train| received.push(train))
    }

    fn receive(&self, lists: &mut [&mut [IoSliceMut<'_>]], mut took: impl FnMut(Received)) -> io::Result<()> {
        if lists.iter().any(|buffers| buffers.len() > Self::MAX_SLICES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.arrivals.try_receive(|socket| {
            let (mut count, mut all_are_named) = (Count::default(), true);
            let mut look = |arrived: Arrived<'_>| match Received::of(&arrived) {
                Some(train) => {
                    count.add(&train);
                    took(train);
                }
                None => all_are_named = false,
            };
            let socket = socket.as_fd();
            let outcome = match lists {
                [] => Ok(()),
                [buffers] => receive(socket, buffers, look),
                [first, ..] if self.receives_singly.load(Relaxed) => receive(socket, first, look),
                [..] => match receive_several(socket, lists, &mut look) {
                    // A filter of system calls, or another kernel.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                        self.receives_singly.store(true, Relaxed);
                        receive(socket, lists[0], look)
                    }
                    outcome => outcome,
                },
            };
            self.counters.received(&count);
            // The kernel names the sender of every UDP datagram (`udp_recvmsg` in net/ipv4/udp.c).
            outcome.and_then(|()| if all_are_named { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) })
        })
    }
}
