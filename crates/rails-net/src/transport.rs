//! The interface between streams and transports.

use crate::{AcceptError, ConnectError, ListenError, LocalEnd, StatsError, TcpStats, ZeroCopyStats};
use bytes::Bytes;
use rails_topo::{Bandwidth, DataSize};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_with::{As, DurationMicroSeconds};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A transport of lanes between two hosts: it connects lanes at one end, and accepts them at the
/// other.
///
/// [`TcpTransport`](crate::TcpTransport) is one. A transport's options belong to its own type, and
/// not to this trait. The repository's `docs/decisions/transport-trait.md` lists the files of a new
/// one.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// The transport's name in addresses such as `tcp://10.0.0.1:7575` (RFC 3986, section 3.1): a
    /// lower-case letter, then lower-case letters, digits, `+`, `-` and `.`, at most 15
    /// characters in all.
    fn scheme(&self) -> &'static str;

    /// Opens a lane from `local` to `remote`. The caller runs on the runtime that will drive the
    /// lane, and may open several lanes at a time. Dropping the future closes the lane.
    fn connect<'a>(&'a self, local: &'a LocalEnd, remote: SocketAddr) -> Connecting<'a>;

    /// Accepts the lanes that peers open to `address`. Port 0 stands for any free port, which
    /// [`Acceptor::local_addr`] then has. The caller runs on the runtime that will accept.
    ///
    /// # Errors
    /// [`ListenError`] for an address that this machine does not have or that is in use, and if the
    /// transport cannot listen.
    fn listen(&self, address: SocketAddr) -> Result<Box<dyn Acceptor>, ListenError>;
}

/// The future of a lane that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Lane>, ConnectError>> + Send + 'a>>;

/// A listener that accepts the lanes that peers open to one address.
pub trait Acceptor: fmt::Debug + Send + 'static {
    /// The address that peers open lanes to, with the chosen port in place of port 0.
    fn local_addr(&self) -> SocketAddr;

    /// Waits for the next lane. One task waits at a time. Cancelling the wait loses no lane.
    ///
    /// # Errors
    /// [`AcceptError`]. The acceptor goes on after an error that
    /// [`is_transient`](AcceptError::is_transient); any other error is permanent.
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Result<IncomingLane, AcceptError>>;
}

/// A lane that a peer has opened, without a runtime yet: the rail that will drive the lane
/// [opens](Self::open) it. Dropping the value closes the lane.
pub struct IncomingLane {
    local: SocketAddr,
    peer: SocketAddr,
    open: Box<OpenLane>,
}

/// Creates the lane on the runtime that will drive it.
type OpenLane = dyn FnOnce() -> Result<Arc<dyn Lane>, AcceptError> + Send;

impl IncomingLane {
    /// A lane between these addresses. `open` creates it on the runtime that will drive it.
    pub fn new(
        local: SocketAddr,
        peer: SocketAddr,
        open: impl FnOnce() -> Result<Arc<dyn Lane>, AcceptError> + Send + 'static,
    ) -> Self {
        Self { local, peer, open: Box::new(open) }
    }

    /// The local address to which the peer has connected.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Creates the lane on the calling runtime.
    ///
    /// # Errors
    /// [`AcceptError::Lost`] if the connection has failed since, or an option cannot be set.
    pub fn open(self) -> Result<Arc<dyn Lane>, AcceptError> {
        (self.open)()
    }
}

impl fmt::Debug for IncomingLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingLane").field("local", &self.local).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// One connection on one rail, over any transport. A stream holds its lanes as `Arc<dyn Lane>`.
///
/// # Contract of an implementation
/// - **Ordered and reliable**: the peer receives the submitted bytes in order, each once, up to the
///   point where the lane fails. A lane that cannot do that fails: every call then gives an error,
///   and every wait ends. Bytes may arrive in other portions than those of the calls. Chunks have
///   checksums or tags of their own, so a transport needs none for them.
/// - **Bound when taken**: bytes that [`try_submit`](Self::try_submit) has taken belong to this
///   lane, and cannot move to a faster one. So a lane has [room](Self::poll_room) only while few
///   bytes wait in it unsent.
/// - **No call blocks**: the `try_` methods give [`io::ErrorKind::WouldBlock`] if they would have
///   to wait, and have no effect then. So dropping a future that waits loses no bytes (cancel
///   safety).
/// - **Wakers**: a pending `poll_` method wakes the waker of its context when another call is
///   worthwhile. One waker waits in each direction at a time, for [room](Self::poll_room) or to
///   [submit](Self::poll_submit_ready) in one and to [receive](Self::poll_receive_ready) in the
///   other. So the latest waker of each direction is enough; both may be the same task's. A ready
///   result may be wrong: the next `try_` call then gives `WouldBlock`, and the task waits again.
///   It must not be wrong for ever, or a rail's thread spins.
/// - **Threads**: any thread may call any method at any time. The task of a lane drives it on its
///   rail, and reads and writes of the application drive it on theirs, one thread at a time; other
///   threads read its figures, and one submits beside the one that receives if the lane [allows
///   that](Self::submits_beside_receiving). No method blocks for longer than a system call.
/// - **Dropping** a lane ends it: the peer receives its end or an error, now or after the submitted
///   bytes. Submitted memory that a kernel or a device still reads stays unchanged for as long.
///   Dropping the [`Acceptor`] that a lane came from does not end it.
///
/// # The stream's conclusions
/// | the transport | the stream |
/// |---|---|
/// | [`ConnectError::Refused`] | The peer's host answers, and nothing listens there. Without any lane the stream fails before its outage limit |
/// | [`ConnectError::SelfConnect`] | No process listens there at the moment: the stream dials the lane again |
/// | another [`ConnectError`] | The path is at fault: the stream dials the lane again |
/// | [`ConnectionReset`](io::ErrorKind::ConnectionReset) or [`BrokenPipe`](io::ErrorKind::BrokenPipe) of a lane | The peer has ended the lane |
/// | another error of a lane | The path is at fault: the stream dials the lane again |
/// | zero bytes received | The peer has closed its sending side |
/// | [`unacknowledged_packets`](TransportStats::unacknowledged_packets) while [`bytes_acknowledged`](TransportStats::bytes_acknowledged) stands still, and [`peer_window_bytes`](TransportStats::peer_window_bytes) is not zero | The lane has stalled after a few round trips: other lanes carry its chunks |
/// | [`unsent_bytes`](TransportStats::unsent_bytes) for as long, which the peer's window takes | As above: this host drops the lane's packets |
/// | three [`unanswered_probes`](TransportStats::unanswered_probes) | As above, for any window of the peer |
/// | [`min_rtt`](TransportStats::min_rtt), or else [`rtt`](TransportStats::rtt) | The time that a chunk takes on this lane |
pub trait Lane: fmt::Debug + Send + Sync + 'static {
    /// The local address.
    fn local_addr(&self) -> SocketAddr;

    /// The peer's address.
    fn peer_addr(&self) -> SocketAddr;

    /// Takes bytes from the front of `control`, and then of `payload`, as one run of bytes, and
    /// returns how many: at least one, unless both are empty.
    ///
    /// When this returns, the transport has copied or sent the taken bytes of `control`. It may
    /// keep clones of `payload` until it has sent them.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the lane can take no bytes now. Any other error ends the
    /// lane.
    fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize>;

    /// Whether one thread may submit while another receives, without either waiting for the other,
    /// also if one loses its CPU within the call. Default: no.
    fn submits_beside_receiving(&self) -> bool {
        false
    }

    /// Waits until [`try_submit`](Self::try_submit) is worth calling.
    ///
    /// # Errors
    /// The lane's, if it has failed.
    fn poll_submit_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until few bytes wait unsent in the lane, so that it would soon begin to send further
    /// ones. The scheduler chooses the bytes only then. The driver does not call this while less
    /// than 16 KiB of the lane are unacknowledged.
    ///
    /// # Errors
    /// The lane's, if it has failed. A failed lane may also be ready, so that the next submit gives
    /// the error.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The unsent bytes at which the lane has no [room](Self::poll_room) any more, as set when it
    /// was opened; `None` if the transport has no such limit to set.
    ///
    /// The default is `None`: right for a transport in which no bytes wait unsent, and for one
    /// whose limit is fixed.
    fn max_unsent(&self) -> Option<DataSize> {
        None
    }

    /// Sets the limit on unsent bytes, for a lane whose speed differs from the expected one. A
    /// hint: the driver calls it only if [`max_unsent`](Self::max_unsent) gives a size, and never
    /// exceeds that size. The default does nothing.
    ///
    /// # Errors
    /// The transport's. An error ends the lane.
    fn limit_unsent(&self, size: DataSize) -> io::Result<()> {
        let _ = size;
        Ok(())
    }

    /// Closes the sending side: the peer receives the submitted bytes to their end, and then zero
    /// bytes.
    ///
    /// # Errors
    /// The transport's, usually that the lane has ended.
    fn close_write(&self) -> io::Result<()>;

    /// Puts arrived bytes into the buffers, in order, and returns how many: zero if the peer has
    /// closed its sending side and all bytes were received.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no bytes have arrived. Any other error ends the lane.
    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Waits until [`try_receive`](Self::try_receive) is worth calling: bytes have arrived, or the
    /// lane has ended.
    ///
    /// # Errors
    /// The lane's, if it has failed.
    fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Makes [`poll_receive_ready`](Self::poll_receive_ready) wait until this many bytes have
    /// arrived, the lane has ended or the transport can hold no more bytes; until the first call it
    /// waits for one byte. Arrived bytes that are enough now wake the waker. A hint: the transport
    /// may be ready earlier. The default does nothing.
    ///
    /// # Errors
    /// The transport's. An error ends the lane.
    fn set_receive_low_water(&self, size: DataSize) -> io::Result<()> {
        let _ = size;
        Ok(())
    }

    /// The transport's present figures of the lane. The stream judges the lane's health by them
    /// several times per round trip, so this should be cheap.
    ///
    /// # Errors
    /// [`StatsError`] if the figures cannot be read at the moment. That does not end the lane.
    fn stats(&self) -> Result<TransportStats, StatsError>;

    /// The figures of [`stats`](Self::stats) and those that only this transport has, for reports.
    /// The default has none of the latter.
    ///
    /// # Errors
    /// Those of [`stats`](Self::stats).
    fn detailed_stats(&self) -> Result<TransportStats, StatsError> {
        self.stats()
    }

    /// The index of the lane's interface, by which [`LinkWatch`](crate::LinkWatch) identifies
    /// links; `None` if there is none, or it is unknown. Without an index the stream notices a link
    /// that went down only by the silence of its lane.
    fn link_index(&self) -> Option<u32> {
        None
    }

    /// Registers the lane with the calling thread's runtime, which calls the wakers from then on.
    /// An earlier pending poll is forgotten: the caller polls again. The default does nothing:
    /// right for a transport whose wakers no runtime calls.
    ///
    /// # Errors
    /// The transport's. The lane goes on as before.
    ///
    /// # Panics
    /// For some transports, outside of a tokio runtime with its I/O driver.
    fn register_here(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Figures of a lane with one meaning for all transports.
///
/// A figure that a transport does not know is `None`, and never zero. Serialized names carry their
/// units. Another crate starts from the default, in which every figure is unknown, and sets those
/// that its transport knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TransportStats {
    /// Smoothed round-trip time.
    #[serde(rename = "rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    #[serde(rename = "rtt_variation_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt_variation: Option<Duration>,
    /// Minimum round-trip time seen lately.
    #[serde(rename = "min_rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub min_rtt: Option<Duration>,
    /// Packets sent and not acknowledged. A lane without this figure or
    /// [`bytes_acknowledged`](Self::bytes_acknowledged) never stalls: the stream uses it until it
    /// fails.
    pub unacknowledged_packets: Option<u64>,
    /// Bytes that the peer has acknowledged since the lane was opened. It may differ by a few for
    /// the lane's beginning and end: only its growth matters.
    pub bytes_acknowledged: Option<u64>,
    /// Time since the last acknowledgement of the peer, duplicates included.
    #[serde(rename = "since_acknowledgement_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub since_acknowledgement: Option<Duration>,
    /// Bytes that the peer's host accepts at the moment; zero while the peer's application does not
    /// read. A lane whose peer takes nothing has not stalled, unless the host does not answer
    /// [probes](Self::unanswered_probes).
    pub peer_window_bytes: Option<u64>,
    /// Probes of the peer's host since it last answered a packet. A lane with three unanswered
    /// probes has stalled, if the stream waits for an answer.
    pub unanswered_probes: Option<u64>,
    /// Bytes that wait in the transport to be sent. A lane with unsent bytes that its peer would
    /// accept stalls as one with packets in flight does: this host drops its packets.
    pub unsent_bytes: Option<u64>,
    /// Rate of the latest delivery.
    #[serde(rename = "rate_bits_per_second")]
    pub rate: Option<Bandwidth>,
    /// Bytes retransmitted since the lane was opened.
    pub bytes_retransmitted: Option<u64>,
    /// Packets retransmitted since the lane was opened.
    pub packets_retransmitted: Option<u64>,
    /// The congestion control, by its name.
    pub congestion: Option<String>,
    /// The counters of sending without copies; `None` if the lane copies.
    pub zero_copy: Option<ZeroCopyStats>,
    /// The figures that only this transport has ([`Lane::detailed_stats`]).
    #[serde(flatten)]
    pub details: Option<TransportDetails>,
}

/// Figures that one transport has and others do not. Serialized under the transport's
/// [scheme](Transport::scheme).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportDetails {
    /// TCP's figures.
    Tcp(Box<TcpStats>),
    /// The figures of a transport outside of this crate.
    Other {
        /// The transport's scheme.
        scheme: &'static str,
        /// The figures, by names that carry their units.
        figures: BTreeMap<&'static str, u64>,
    },
}

impl Serialize for TransportDetails {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Tcp(tcp) => map.serialize_entry("tcp", tcp)?,
            Self::Other { scheme, figures } => map.serialize_entry(scheme, figures)?,
        }
        map.end()
    }
}
