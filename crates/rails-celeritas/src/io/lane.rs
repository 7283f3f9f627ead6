//! Celeritas as a transport of lanes, below streams that know the transport's interface alone.

use super::{
    CeleritasListener, CeleritasOptions, OpenConnectionError,
    byte_stream::{ByteStream, MAX_WRITTEN},
    open::Greeted,
    stream::within_budget,
};
use bytes::Bytes;
use rails_net::{
    AcceptError, Acceptor, ConnectError, Connecting, IncomingLane, Lane, ListenError, LocalEnd, StatsError, Transport,
    TransportDetails, TransportStats,
};
use rails_topo::DataSize;
use std::{
    collections::BTreeMap,
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Celeritas as a [`Transport`] of lanes: `celeritas://10.0.0.1:7575`.
///
/// A lane is a connection that carries bytes. Submitted bytes go out in messages of at most 256
/// KiB; 1 MiB may wait unsent, where each message counts 512 bytes more than its length. Received
/// bytes are copied once, into the buffers of the stream.
///
/// # Examples
/// ```
/// use rails_celeritas::{CeleritasOptions, CeleritasTransport};
/// use rails_topo::Bandwidth;
///
/// // One path carries less than the others.
/// let transport = CeleritasTransport::new(CeleritasOptions::fixed(Bandwidth::mbps(495)))
///     .path("10.0.2.1".parse()?, CeleritasOptions::fixed(Bandwidth::mbps(99)));
/// # let _ = transport;
/// # Ok::<_, std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct CeleritasTransport {
    options: CeleritasOptions,
    paths: BTreeMap<IpAddr, CeleritasOptions>,
}

#[derive(Debug)]
struct CeleritasAcceptor {
    listener: CeleritasListener,
}

#[derive(Debug)]
struct CeleritasLane(ByteStream);

impl CeleritasTransport {
    /// Lanes that are connections with these options, apart from the local end.
    pub fn new(options: CeleritasOptions) -> Self {
        Self { options, paths: BTreeMap::new() }
    }

    /// Other options for the lanes of one path: those that connect to this address, and those that
    /// are accepted on it.
    pub fn path(mut self, address: IpAddr, options: CeleritasOptions) -> Self {
        self.paths.insert(address, options);
        self
    }

    fn options(&self, address: IpAddr) -> CeleritasOptions {
        let options = self.paths.get(&address).unwrap_or(&self.options);
        // A peer's messages are those of a lane.
        options.clone().max_message(DataSize::bytes(MAX_WRITTEN as u64))
    }
}

impl Transport for CeleritasTransport {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn connect<'a>(&'a self, local: &'a LocalEnd, remote: SocketAddr) -> Connecting<'a> {
        let options = self.options(remote.ip()).local(local.clone());
        Box::pin(async move {
            let connection = options.connect(remote).await.map_err(|error| match error {
                OpenConnectionError::Connect(error) => error,
                error => ConnectError::Other { remote, local: local.clone(), source: error.into() },
            })?;
            Ok(Arc::new(CeleritasLane(ByteStream::new(connection))) as Arc<dyn Lane>)
        })
    }

    fn listen(&self, address: SocketAddr) -> Result<Box<dyn Acceptor>, ListenError> {
        match self.options(address.ip()).listen(address) {
            Ok(listener) => Ok(Box::new(CeleritasAcceptor { listener })),
            Err(OpenConnectionError::Listen(error)) => Err(error),
            Err(error) => Err(ListenError::Other { local: address, source: error.into() }),
        }
    }
}

impl Acceptor for CeleritasAcceptor {
    fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Result<IncomingLane, AcceptError>> {
        let local = self.local_addr();
        let greeted = ready!(self.listener.poll_greeted(context));
        Poll::Ready(match greeted.unwrap_or(Err(OpenConnectionError::Ended { address: local })) {
            Ok(greeted) => Ok(incoming(greeted)),
            Err(OpenConnectionError::Accept(error)) => Err(error),
            Err(error) => Err(AcceptError::Other { local, source: error.into() }),
        })
    }
}

/// The lane of a peer that has greeted.
fn incoming(greeted: Greeted) -> IncomingLane {
    let (local, peer) = (greeted.local, greeted.remote);
    IncomingLane::new(local, peer, move || {
        let lost = |error: OpenConnectionError| {
            let source = StatsError::Other { local, peer, source: error.into() };
            AcceptError::Lost { local, source }
        };
        let connection = greeted.start().map_err(lost)?;
        Ok(Arc::new(CeleritasLane(ByteStream::new(connection))))
    })
}

impl Lane for CeleritasLane {
    fn local_addr(&self) -> SocketAddr {
        self.0.connection.local_addr()
    }

    fn peer_addr(&self) -> SocketAddr {
        self.0.connection.peer_addr()
    }

    fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize> {
        self.0.try_write(control, payload)
    }

    fn poll_submit_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        within_budget(context, |context| self.0.poll_writable(context, 1))
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        within_budget(context, |context| self.0.poll_writable(context, 2))
    }

    fn max_unsent(&self) -> Option<DataSize> {
        Some(DataSize::bytes(self.0.max_unsent()))
    }

    fn limit_unsent(&self, size: DataSize) -> io::Result<()> {
        self.0.limit_unsent(size.as_bytes());
        Ok(())
    }

    fn close_write(&self) -> io::Result<()> {
        self.0.finish();
        Ok(())
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.try_read(buffers)
    }

    fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        within_budget(context, |context| self.0.poll_readable(context))
    }

    fn stats(&self) -> Result<TransportStats, StatsError> {
        let state = self.0.connection.shared.lock();
        let (sender, _) = state.protocol.stats();
        let rtt = state.protocol.rtt();
        let mut stats = TransportStats::default();
        stats.rtt = Some(rtt.smoothed());
        stats.rtt_variation = Some(rtt.variation());
        stats.min_rtt = Some(rtt.min());
        // Bytes that are to be sent again are not in flight, and not acknowledged either.
        let is_unacknowledged = state.protocol.unacknowledged() > 0;
        let packets = state.protocol.packets_in_flight().max(is_unacknowledged.into());
        // As over TCP: nothing is overdue at a host that lives, whose process is stopped.
        stats.unacknowledged_packets = Some(if state.protocol.peer_is_stopped() { 0 } else { packets });
        stats.bytes_acknowledged = Some(sender.acknowledged_bytes);
        stats.since_acknowledgement = Some(state.protocol.heard_at().elapsed());
        stats.bytes_retransmitted = Some(sender.retransmitted_bytes);
        stats.packets_retransmitted = Some(sender.retransmitted_segments);
        stats.congestion = Some(state.protocol.controller().to_owned());
        Ok(stats)
    }

    fn detailed_stats(&self) -> Result<TransportStats, StatsError> {
        let mut all = self.stats()?;
        let stats = self.0.connection.stats();
        let figures = BTreeMap::from([
            ("sending_rate_bits_per_second", stats.rate.as_bits_per_second()),
            ("path_mtu_bytes", stats.path_mtu.into()),
            ("segments_sent", stats.sender.segments),
            ("probes_sent", stats.sender.probes),
            ("segments_received", stats.receiver.segments),
            ("duplicates_received", stats.receiver.duplicates),
            ("segments_in_place", stats.scatter.in_place),
            ("segments_copied", stats.scatter.copied),
            ("foreign_datagrams", stats.scatter.foreign),
        ]);
        all.details = Some(TransportDetails::Other { scheme: SCHEME, figures });
        Ok(all)
    }

    fn link_index(&self) -> Option<u32> {
        self.0.connection.link
    }
}

const SCHEME: &str = "celeritas";
