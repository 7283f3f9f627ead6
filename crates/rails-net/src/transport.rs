//! What a stream needs of a lane, whatever carries it.

use crate::{ConnectError, LaneOptions, StatsError, TcpStats, ZeroCopyStats};
use bytes::Bytes;
use rails_topo::{Bandwidth, DataSize};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::{
    fmt,
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// One connection on one rail, over whatever transport: the seam below which transports are, and above which nothing knows them.
///
/// [`TcpLane`](crate::TcpLane) is one. A stream holds its lanes as `Arc<dyn Lane>`.
///
/// # What an implementation promises
/// - **Ordered and reliable**: the other end receives the bytes that were submitted, in their order, each once, up to where the lane fails. A lane
///   that cannot keep that fails: every call then gives an error, and every wait ends. Bytes may arrive in other portions than they were submitted
///   in. Chunks have checksums or tags of their own, so a transport needs none for them.
/// - **Bound when taken**: what [`try_submit`](Self::try_submit) has taken is this lane's, and cannot be given to another that is faster. So a lane has
///   [room](Self::poll_room) only while little waits in it unsent.
/// - **Nothing waits inside a call**: the `try_` methods give [`io::ErrorKind::WouldBlock`] where they would have to, and have done nothing then. So
///   dropping a future that waits loses nothing (cancel safety).
/// - **Wakers**: a `poll_` method that is pending wakes the waker of its context, once it is worth calling again. One task waits in each direction at
///   a time, for [room](Self::poll_room) or to [submit](Self::poll_submit_ready) in one and to [receive](Self::poll_receive_ready) in the other, so
///   that the latest waker of each direction is enough; both may be the same task's. Ready may be wrong: the next `try_` call then blocks, and the
///   waiting begins anew. It must not be wrong for ever, or a rail's thread spins.
/// - **Threads**: any thread may call any method at any time. A lane is driven on the thread of its rail, and asked for its figures from others. No
///   method blocks, but for the time of a system call.
/// - **Dropping** a lane ends it: the other end finds its end or an error, now or after what was submitted. Memory that was handed in and is still
///   being read, by a kernel or by a device, stays as it is for as long.
pub trait Lane: fmt::Debug + Send + Sync + 'static {
    /// This end's address.
    fn local_addr(&self) -> SocketAddr;

    /// The other end's address.
    fn peer_addr(&self) -> SocketAddr;

    /// Takes bytes from the front of `control`, and then of `payload`, as one run of bytes, and says how many. It is at least one, unless both are
    /// empty.
    ///
    /// What is taken of `control` is copied, or gone when this returns. Of `payload` a transport may keep clones until it has sent them.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where it can take nothing now. Any other is the end of the lane.
    fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize>;

    /// Waits until [`try_submit`](Self::try_submit) is worth calling.
    ///
    /// # Errors
    /// The lane's, where it has failed.
    fn poll_submit_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until the lane would soon begin to send what it is given: little waits in it unsent. What is to be sent is chosen then, and not before. It is not
    /// asked while less than 16 KiB of the lane are unacknowledged.
    ///
    /// # Errors
    /// The lane's, where it has failed; it may as well be ready, so that submitting finds out.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The most that may wait unsent in the lane before it has no [room](Self::poll_room), as it was opened; `None` where there is nothing to be set.
    ///
    /// The default is that: right for a transport in which nothing waits that it has not begun to send, and for one whose limit is fixed.
    fn most_unsent(&self) -> Option<DataSize> {
        None
    }

    /// How much may wait unsent from now on, for a lane whose speed turned out other than expected. A hint: it is given only where
    /// [`most_unsent`](Self::most_unsent) names a size, and never exceeds that. The default does nothing, as there is nothing to be set.
    ///
    /// # Errors
    /// The transport's, and the end of the lane.
    fn limit_unsent(&self, size: DataSize) -> io::Result<()> {
        let _ = size;
        Ok(())
    }

    /// Closes the sending side: the other end receives to the end of what was submitted, and then zero bytes.
    ///
    /// # Errors
    /// The transport's, most of all that the lane is gone.
    fn close_write(&self) -> io::Result<()>;

    /// Puts bytes that have arrived into the buffers, in their order, and says how many: zero where the other end has closed its sending side and
    /// everything was received.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing is there now. Any other is the end of the lane.
    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Waits until [`try_receive`](Self::try_receive) is worth calling: something is there, or the lane has ended.
    ///
    /// # Errors
    /// The lane's, where it has failed.
    fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// What the transport knows of the lane now. The health of a lane is judged by it some times per round trip, so it is to be cheap.
    ///
    /// # Errors
    /// [`StatsError`] where it cannot say at the moment. That does not end the lane.
    fn stats(&self) -> Result<TransportStats, StatsError>;

    /// What only TCP knows; `None` of other transports, and where the kernel does not say.
    fn tcp_stats(&self) -> Option<TcpStats> {
        None
    }

    /// The number of the interface that the lane leaves by, as [`LinkWatch`](crate::LinkWatch) names links; `None` where there is none, or none is
    /// known. Without it a link that goes down is found out by the silence of its lane.
    fn link_index(&self) -> Option<u32> {
        None
    }
}

/// What opens lanes of one transport.
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// Opens a lane to `remote`, which begins where `options` say ([`LaneOptions::local_end`]). It is called on the runtime that will drive the lane, and may be
    /// called for several lanes at a time. Dropping the future gives the lane up.
    fn connect<'a>(&'a self, options: &'a LaneOptions, remote: SocketAddr) -> Connecting<'a>;
}

/// A lane on its way.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Lane>, ConnectError>> + Send + 'a>>;

/// Figures of a lane that mean the same for every transport.
///
/// What a transport does not know is `None`, and never zero. Serialized names carry their units.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TransportStats {
    /// Smoothed round-trip time.
    #[serde(rename = "rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    #[serde(rename = "rtt_variation_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt_variation: Option<Duration>,
    /// Least round-trip time seen lately.
    #[serde(rename = "least_rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub least_rtt: Option<Duration>,
    /// Packets that were sent and are not acknowledged. A lane that does not say is never taken for silent, so that it is used until it fails.
    pub unacknowledged_packets: Option<u64>,
    /// Bytes that the other end has acknowledged since the lane was made, give or take a few for its beginning and its end: what counts is whether
    /// they become more.
    pub bytes_acknowledged: Option<u64>,
    /// Time since the other end last acknowledged anything, be it news or not.
    #[serde(rename = "since_acknowledgement_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub since_acknowledgement: Option<Duration>,
    /// Rate of the latest delivery.
    #[serde(rename = "rate_bits_per_second")]
    pub rate: Option<Bandwidth>,
    /// Bytes sent again since the lane was made.
    pub bytes_retransmitted: Option<u64>,
    /// Packets sent again since the lane was made.
    pub packets_retransmitted: Option<u64>,
    /// What decides how much is under way, by its name.
    pub congestion: Option<String>,
    /// What became of sending without copies; `None` where the lane does not.
    pub zero_copy: Option<ZeroCopyStats>,
}
