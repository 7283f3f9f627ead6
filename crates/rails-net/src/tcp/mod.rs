//! TCP as a transport.

mod acceptor;
mod busy_poll;
mod connect;
mod lane;
mod options;
mod socket_options;
mod stats;
mod zero_copy;

use crate::{
    Acceptor, Connecting, Lane, ListenError, LocalEnd, StatsError, Transport, TransportDetails, TransportStats,
};
pub use acceptor::TcpAcceptor;
use bytes::Bytes;
pub use lane::{Deviation, TcpLane, TcpSettings};
pub use options::{KeepAlive, TcpTransport};
use rails_topo::DataSize;
use socket2::SockRef;
pub use stats::{TcpState, TcpStats, is_answered};
use std::{
    io::{self, IoSlice, IoSliceMut, Read},
    mem::MaybeUninit,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::{io::Interest, net::TcpStream};
pub use zero_copy::{ZeroCopy, ZeroCopyStats};

impl Transport for TcpTransport {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn connect<'a>(&'a self, local: &'a LocalEnd, remote: SocketAddr) -> Connecting<'a> {
        let from = self.clone().local(local.clone());
        Box::pin(async move { Ok(Arc::new(from.connect(remote).await?) as Arc<dyn Lane>) })
    }

    fn listen(&self, address: SocketAddr) -> Result<Box<dyn Acceptor>, ListenError> {
        Ok(Box::new(self.listen(address)?))
    }
}

impl Lane for TcpLane {
    fn local_addr(&self) -> SocketAddr {
        self.local_addr()
    }

    fn peer_addr(&self) -> SocketAddr {
        self.peer_addr()
    }

    fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize> {
        if let Some(busy) = &self.busy_poll {
            busy.note_use();
        }
        match &self.zero_copy {
            Some(sender) => sender.try_submit(control, payload),
            None => with_slices(control, payload, |slices| self.stream().try_write_vectored(slices)),
        }
    }

    fn poll_submit_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.zero_copy {
            Some(sender) => sender.poll_room(context),
            None => self.stream().poll_write_ready(context),
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(sender) = &self.zero_copy {
            return sender.poll_room(context);
        }
        loop {
            ready!(self.poll_submit_ready(context))?;
            match self.try_room() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    fn max_unsent(&self) -> Option<DataSize> {
        socket_options::not_sent_lowat(&SockRef::from(&*self.stream())).ok()?
    }

    fn limit_unsent(&self, size: DataSize) -> io::Result<()> {
        self.set_not_sent_lowat(size)
    }

    fn close_write(&self) -> io::Result<()> {
        self.close_write()
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let stream = self.stream();
        let mut short = None;
        let received = stream.try_io(Interest::READABLE, || match read(&stream, buffers)? {
            // The socket is empty, and another read would only cost a call. The runtime forgets that it was readable as
            // it does for `WouldBlock`: unless more has arrived since before the read. (tokio's own reads do the same.)
            count if 0 < count && count < room => {
                short = Some(count);
                Err(io::ErrorKind::WouldBlock.into())
            }
            count => Ok(count),
        });
        let received = match (short, received) {
            (Some(count), _) => Ok(count),
            // The busy poll may have found bytes that no event has reported to the runtime yet.
            (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock && self.busy_poll.is_some() => {
                read(&stream, buffers)
            }
            (None, received) => received,
        };
        if received.is_ok() {
            if let Some(busy) = &self.busy_poll {
                busy.note_use();
            }
            // Arriving bytes bring acknowledgements, so the kernel may be done with some memory.
            if let Some(sender) = &self.zero_copy {
                sender.settle();
            }
        }
        received
    }

    fn submits_beside_receiving(&self) -> bool {
        // The account of memory that the kernel still reads has a lock.
        self.zero_copy.is_none()
    }

    fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.stream().poll_read_ready(context);
        match &self.busy_poll {
            Some(busy) if ready.is_pending() && busy.goes_on(Instant::now()) => {
                // `peek` does not wait, and polls the NIC's queue (`tcp_recvmsg` in net/ipv4/tcp.c,
                // `sk_busy_loop`).
                match SockRef::from(&*self.stream()).peek(&mut [MaybeUninit::uninit()]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                    _ => Poll::Ready(Ok(())),
                }
            }
            _ => ready,
        }
    }

    fn set_receive_low_water(&self, size: DataSize) -> io::Result<()> {
        self.set_receive_low_water(size)
    }

    fn stats(&self) -> Result<TransportStats, StatsError> {
        Ok(self.transport_stats(self.stats()?))
    }

    fn detailed_stats(&self) -> Result<TransportStats, StatsError> {
        let tcp = self.stats()?;
        let details = Some(TransportDetails::Tcp(Box::new(tcp.clone())));
        Ok(TransportStats { details, ..self.transport_stats(tcp) })
    }

    fn link_index(&self) -> Option<u32> {
        self.link_index()
    }

    fn register_here(&self) -> io::Result<()> {
        self.register_here()
    }
}

impl TcpLane {
    fn transport_stats(&self, tcp: TcpStats) -> TransportStats {
        TransportStats {
            rtt: tcp.rtt,
            rtt_variation: tcp.rtt_variation,
            min_rtt: tcp.min_rtt,
            unacknowledged_packets: Some(tcp.unacked_segments.into()),
            bytes_acknowledged: tcp.bytes_acked,
            since_acknowledgement: tcp.since_acknowledgement,
            peer_window_bytes: tcp.peer_window_bytes.map(u64::from),
            unanswered_probes: Some(tcp.unanswered_probes.into()),
            unsent_bytes: tcp.not_sent_bytes.map(u64::from),
            rate: tcp.delivery_rate,
            bytes_retransmitted: tcp.bytes_retransmitted,
            packets_retransmitted: Some(tcp.retransmitted_segments.into()),
            congestion: tcp.congestion,
            zero_copy: self.zero_copy_stats(),
            details: None,
        }
    }
}

/// Calls `send` with `control` and `payload` as one list of slices. A short list needs no heap
/// memory.
fn with_slices<T>(control: &[u8], payload: &[Bytes], send: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
    if payload.len() < FEW {
        let mut slices = [IoSlice::new(&[]); FEW];
        slices[0] = IoSlice::new(control);
        slices[1..].iter_mut().zip(payload).for_each(|(slice, bytes)| *slice = IoSlice::new(bytes));
        return send(&slices[..=payload.len()]);
    }
    // The kernel takes no more slices at once (`UIO_MAXIOV` in include/uapi/linux/uio.h).
    let slices: Vec<IoSlice<'_>> =
        [control].into_iter().chain(payload.iter().map(|bytes| &bytes[..])).map(IoSlice::new).take(MAX).collect();
    send(&slices)
}

fn read(stream: &TcpStream, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    (&*SockRef::from(stream)).read_vectored(buffers)
}

/// The number of slices on the stack.
const FEW: usize = 16;
const MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{busy_poll::BusyPoll, *};
    use std::{future::poll_fn, time::Duration};

    #[tokio::test]
    async fn receiving_on_a_lane_that_busy_polls() {
        let time = Duration::from_millis(5);
        let options = TcpTransport::new();
        let listener = options.listen(([127, 0, 0, 1], 0).into()).expect("loopback is there");
        let near = options.connect(listener.local_addr()).await.expect("it listens");
        let mut far = listener.accept().await.expect("it was connected");
        // The socket's own option needs a privilege; repeated reads need none.
        far.busy_poll = Some(BusyPoll::new(time));
        for pause in [Duration::ZERO, time / 5, 10 * time] {
            let mut buffer = [0; 100];
            let sent = async {
                tokio::time::sleep(pause).await;
                near.try_submit(b"late", &[]).expect("there is room")
            };
            let received = async {
                loop {
                    poll_fn(|context| far.poll_receive_ready(context)).await.expect("it is up");
                    match far.try_receive(&mut [IoSliceMut::new(&mut buffer)]) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        count => return count.expect("it is up"),
                    }
                }
            };
            // Both tasks share one thread: a lane that polls lets the other task run.
            assert_eq!(tokio::join!(sent, received), (4, 4));
            assert_eq!(&buffer[..4], b"late");
        }
    }

    #[test]
    fn slices_are_one_run_of_bytes_however_many_there_are() {
        for pieces in [0, 1, FEW - 1, FEW, FEW + 1, 3 * MAX] {
            let payload: Vec<Bytes> = (0..pieces).map(|piece| Bytes::from(vec![piece as u8; 3])).collect();
            let run = with_slices(b"control", &payload, |slices| {
                assert!(slices.len() <= MAX);
                slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>()
            });
            let whole: Vec<u8> = b"control".iter().copied().chain(payload.iter().flatten().copied()).collect();
            assert_eq!(run, whole[..run.len()]);
            assert!(run.len() == whole.len() || pieces > FEW && run.len() == 7 + 3 * (MAX - 1));
        }
    }
}
