//! The options of streams and listeners.

mod custom_policy;
mod driver;
mod limits;

use crate::{
    RailId, Security,
    error::{NoTransport, OptionError},
};
use custom_policy::CustomPolicy;
pub use driver::Driver;
pub use limits::Limits;
use rails_net::{TcpTransport, Transport};
use rails_proto::{
    Scheme,
    handshake::Purpose,
    parameters::{MAX_LANES, SILENCE_LIMIT, StreamParameters, TransportParameters},
    policy::{Policy, StripePolicy},
    session::{Config, Session},
    stream_number::Side,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::runtime::{self, Handle};

/// The options of a stream, or of every stream of a listener. Each end has its own.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    pub(crate) security: Security,
    pub(crate) limits: Limits,
    policy: PolicySource,
    pub(crate) parallel: usize,
    pub(crate) driver: Driver,
    pub(crate) longest_chunk: usize,
    pub(crate) send_buffer: usize,
    max_unacknowledged: Option<u64>,
    pub(crate) window: u64,
    max_concurrent_bi_streams: u32,
    max_concurrent_uni_streams: u32,
    stream_window: Option<u64>,
    transports: BTreeMap<Scheme, Arc<dyn Transport>>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) join_grace: Duration,
    pub(crate) linger: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) outage_limit: Duration,
    pub(crate) weights: Vec<u32>,
    pub(crate) interleaved_messages: bool,
    pub(crate) application_runtime: Option<runtime::Id>,
    recorded_decisions: usize,
}

/// The factory of each stream's policy.
#[derive(Clone)]
enum PolicySource {
    BuiltIn(Policy),
    Custom(Arc<dyn Fn() -> Box<dyn StripePolicy> + Send + Sync>),
}

impl PolicySource {
    fn build(&self) -> Box<dyn StripePolicy> {
        match self {
            Self::BuiltIn(policy) => policy.build(),
            Self::Custom(make) => Box::new(CustomPolicy::new(make())),
        }
    }
}

impl fmt::Debug for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(policy) => policy.fmt(f),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

impl StreamOptions {
    /// Options with this security, and all others at their defaults. A [`Secret`](crate::Secret)
    /// stands for [`Security::psk`]; [`Security::insecure`] lets every peer join.
    pub fn new(security: impl Into<Security>) -> Self {
        Self {
            security: security.into(),
            limits: Limits::default(),
            policy: PolicySource::BuiltIn(Policy::default()),
            parallel: 1,
            driver: Driver::default(),
            longest_chunk: 512 << 10,
            send_buffer: 4 << 20,
            max_unacknowledged: None,
            window: 16 << 20,
            max_concurrent_bi_streams: 100,
            max_concurrent_uni_streams: 100,
            stream_window: None,
            transports: BTreeMap::from([(Scheme::TCP, Arc::new(TcpTransport::new()) as Arc<dyn Transport>)]),
            handshake_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(15),
            join_grace: Duration::from_secs(1),
            linger: Duration::from_secs(10),
            close_timeout: Duration::from_secs(30),
            outage_limit: SILENCE_LIMIT,
            weights: Vec::new(),
            interleaved_messages: false,
            application_runtime: None,
            recorded_decisions: 0,
        }
    }

    /// The policy that shares bytes among the lanes. Default: [`Policy::Adaptive`].
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy: PolicySource::BuiltIn(policy), ..self }
    }

    /// Shares bytes by a policy of the application: each stream calls `make` once. The stream calls
    /// the policy under its lock, so the policy must not use streams: a call that would wait for
    /// that lock panics. [`Policy::Adaptive`] takes the place of a policy that has panicked.
    #[must_use]
    pub fn custom_policy(self, make: impl Fn() -> Box<dyn StripePolicy> + Send + Sync + 'static) -> Self {
        Self { policy: PolicySource::Custom(Arc::new(make)), ..self }
    }

    /// The number of connections for each pair of a rail and an address (parallel TCP). The policy
    /// treats each as a lane of its own. Default: 1. More help if one connection does not fill
    /// its link, because of loss on a long path or a window that is too small; on a short link
    /// they only cost. Only the end that opens the stream uses this option; a stream has at
    /// most 64 connections.
    #[must_use]
    pub fn parallel(self, connections: usize) -> Self {
        Self { parallel: connections, ..self }
    }

    /// The threads that drive the lanes of this end. Default: [`Driver::PerCpu`].
    #[must_use]
    pub fn driver(self, driver: Driver) -> Self {
        Self { driver, ..self }
    }

    /// The runtime of the tasks that read, other than a rail's. Default: none.
    ///
    /// While small messages arrive for such a task, its runtime watches the sockets of the lanes,
    /// and no rail's thread wakes. Without this option each arrival wakes the rail's thread
    /// first. A current-thread runtime should be in `block_on` as long as streams are in use:
    /// outside of it, nothing watches.
    ///
    /// # Panics
    /// If a runtime without an I/O driver (`enable_io`, `enable_all`) is named here, reads panic.
    #[must_use]
    pub fn application_runtime(self, runtime: &Handle) -> Self {
        Self { application_runtime: Some(runtime.id()), ..self }
    }

    /// The longest chunk that this end sends and takes, in bytes, from 1 KiB to 16 MiB. Default:
    /// 512 KiB.
    ///
    /// Longer chunks cost fewer system calls and wakes; slow lanes get shorter ones. The smaller
    /// limit of the two ends holds. On an unshaped veth pair, one lane reached 1.05 times the
    /// rate of a plain flow with 256 KiB writes with the default, and 0.91 times with 256 KiB
    /// (two cores of an EPYC, medians of three rounds, `rails-bench compare --rates unshaped`).
    #[must_use]
    pub fn longest_chunk(self, bytes: usize) -> Self {
        Self { longest_chunk: bytes, ..self }
    }

    /// The most written bytes that wait for a lane, from 1 KiB to 1 GiB. Default: 4 MiB. Beyond
    /// that the writer waits. In a session each stream may have as many wait.
    #[must_use]
    pub fn send_buffer(self, bytes: usize) -> Self {
        Self { send_buffer: bytes, ..self }
    }

    /// The most sent bytes that this end keeps until the peer acknowledges them, from the longest
    /// chunk to 1 GiB. Default: as much as this end's [window](Self::window).
    ///
    /// The peer states its window and chooses when it acknowledges. This bound is the sender's own:
    /// it sends no byte further than that behind the first one that is not acknowledged, and
    /// then waits for the peer, even if the peer's window is larger. For a long path, raise it
    /// at the end that sends and the window at the end that reads.
    ///
    /// A [`Bytes`](bytes::Bytes) counts by its own length, not by that of the buffer which it is a
    /// part of.
    #[must_use]
    pub fn max_unacknowledged(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { max_unacknowledged: bytes.into(), ..self }
    }

    /// The most unread bytes that this end takes, from the longest chunk to 1 GiB. Default: 16 MiB.
    ///
    /// The window must hold the bytes that all lanes carry while the slowest lane carries one
    /// chunk; otherwise the fast lanes wait for it. The default suits 8 lanes of 200 Mbit/s
    /// with 80 ms, or 2 of 25 Gbit/s with 2.7 ms. For longer paths or faster links, raise it
    /// together with the kernel's `tcp_rmem`, and at the peer
    /// [`max_unacknowledged`](Self::max_unacknowledged).
    ///
    /// # Memory of a stream
    /// This end's memory for arriving bytes is at most the window and a tenth of it, and for each
    /// lane half a mebibyte and the [longest chunk](Self::longest_chunk), for every behaviour
    /// of the peer: with the default, 17.6 MiB and 1 MiB per lane, of which a peer may open 64
    /// (`tests/memory` floods a stream in a dozen ways and reads the process's resident set).
    /// The stream allocates it as needed: an idle stream has next to none, because it frees a
    /// buffer that was not used for 10 s. Bytes that the application has received and not dropped
    /// are the application's, and do not count.
    ///
    /// For sending, the stream keeps at most the [send buffer](Self::send_buffer), one message and
    /// the bytes that [wait for the peer's acknowledgement](Self::max_unacknowledged), without
    /// a copy of those that came as [`Bytes`](bytes::Bytes): with the default, 20 MiB. Its
    /// notes on them take at most a fifth of that, and half a mebibyte for each lane: as much
    /// only if the peer takes nothing but tiny chunks. The kernel's socket buffers do
    /// not count.
    #[must_use]
    pub fn window(self, bytes: u64) -> Self {
        Self { window: bytes, ..self }
    }

    /// How many streams in both directions the peer of a
    /// [`MultiRailSession`](crate::MultiRailSession) may have open at a time, up to 1,048,576.
    /// Default: 100. With 0 the peer opens none. A stream counts until both ends are done with
    /// both of its directions and this end's handles are dropped.
    ///
    /// The session can [change](crate::MultiRailSession::set_max_concurrent_bi_streams) the limit
    /// later. A [`MultiRailStream`](crate::MultiRailStream) does not use it.
    #[must_use]
    pub fn max_concurrent_bi_streams(self, max: u32) -> Self {
        Self { max_concurrent_bi_streams: max, ..self }
    }

    /// How many streams in one direction the peer of a
    /// [`MultiRailSession`](crate::MultiRailSession) may have open at a time, up to 1,048,576.
    /// Default: 100. With 0 the peer opens none.
    ///
    /// The session can [change](crate::MultiRailSession::set_max_concurrent_uni_streams) the limit
    /// later. A [`MultiRailStream`](crate::MultiRailStream) does not use it.
    #[must_use]
    pub fn max_concurrent_uni_streams(self, max: u32) -> Self {
        Self { max_concurrent_uni_streams: max, ..self }
    }

    /// The most unread bytes that this end takes at first in one stream of a
    /// [`MultiRailSession`](crate::MultiRailSession), from 1 KiB to the [window](Self::window).
    /// Default: 256 KiB, or the window if that is smaller.
    ///
    /// The window of a stream whose application reads fast doubles, up to the window of the
    /// session, which bounds the unread bytes of all streams together. A stream that is not read
    /// holds up the others no more than its own window allows. A
    /// [`MultiRailStream`](crate::MultiRailStream) does not use this option.
    #[must_use]
    pub fn stream_window(self, bytes: u64) -> Self {
        Self { stream_window: Some(bytes), ..self }
    }

    /// Adds a transport with its options, for lanes whose addresses have its
    /// [scheme](Transport::scheme). It replaces a transport with the same scheme. Default:
    /// [`TcpTransport`] with its defaults, whose addresses need no scheme.
    ///
    /// # Panics
    /// If the scheme is not a valid name ([`Scheme::new`]).
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        let scheme = Scheme::new(transport.scheme()).expect("a transport's scheme is a name");
        self.transports.insert(scheme, Arc::new(transport));
        self
    }

    /// The limits on the resources that peers take at a
    /// [`MultiRailListener`](crate::MultiRailListener). The connecting end does not use them.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The longest time of a handshake, including that of TLS, from the connection to the last
    /// message. Default: 5 s.
    #[must_use]
    pub fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { handshake_timeout: timeout, ..self }
    }

    /// The longest time that [`MultiRailStream::connect`](crate::MultiRailStream::connect) tries to
    /// open a stream, over all attempts on all lanes. Default: 15 s.
    ///
    /// The call takes that long only if a peer is busy and asks to try again, or if TCP cannot
    /// reach it. If peers refuse every lane, the call fails at once. If peers do not answer, it
    /// fails after a [handshake's time](Self::handshake_timeout) and the second in which the
    /// attempts on all lanes begin.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// How long [`MultiRailStream::connect`](crate::MultiRailStream::connect) waits for the other
    /// lanes after the first is up. Default: 1 s. Slower lanes join later. Where each name is
    /// reached at one of its addresses, the call waits for the others 250 ms at most.
    #[must_use]
    pub fn join_grace(self, grace: Duration) -> Self {
        Self { join_grace: grace, ..self }
    }

    /// The longest time that a dropped stream goes on to deliver the written bytes. Default: 10 s.
    ///
    /// The stream ends sooner if all bytes are delivered, and the peer has ended its own direction
    /// or has heard that this end reads no more. Bytes that are not delivered in time are
    /// thrown away: the peer gets [`ConnectionReset`](std::io::ErrorKind::ConnectionReset), and
    /// the log says how many bytes these were. The end of the process waits as long
    /// ([`MultiRailStream`](crate::MultiRailStream)). A time in which the process was stopped
    /// (`SIGSTOP`) does not count, except for an eighth of the limit at most.
    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        Self { linger, ..self }
    }

    /// The longest time that [`close`](crate::MultiRailStream::close) waits without any progress,
    /// of a stream or of messages: the peer takes none of the written bytes, or it sends
    /// nothing and does not end its own direction. Default: 30 s. Time counts as for
    /// [`linger`](Self::linger).
    #[must_use]
    pub fn close_timeout(self, timeout: Duration) -> Self {
        Self { close_timeout: timeout, ..self }
    }

    /// The weights of this end's rails under [`Policy::Weighted`], by rail; a rail beyond the list
    /// has a weight of 1. Default: none.
    #[must_use]
    pub fn weights(self, weights: impl Into<Vec<u32>>) -> Self {
        Self { weights: weights.into(), ..self }
    }

    /// How long a stream without a usable lane (every lane is down or stalled) waits before it
    /// fails. Default: 15 minutes, about as long as TCP waits for a machine that is silent: a
    /// laptop may be closed, and a guest may
    /// migrate. [`EventKind::Outage`](crate::EventKind::Outage) tells of the outage at once. With
    /// zero the stream fails as soon as the last lane is lost. Each end has its own limit,
    /// which counts time as [`linger`](Self::linger) does.
    ///
    /// The limit does not run while a lane is usable, also if the peer does not read. But only
    /// acknowledged bytes set it back, where any wait for that: lanes may join and carry
    /// nothing, over a path that swallows large packets.
    ///
    /// If the peer's host has closed or reset every lane, or refuses them, the stream waits for ten
    /// seconds at most: a middlebox can do that as well, and the lanes come back. So the end
    /// that accepts hears only then that the other end was killed. The end that dials fails at
    /// once, if the peer's host has ended every lane and refuses every new one.
    #[must_use]
    pub fn outage_limit(self, limit: Duration) -> Self {
        Self { outage_limit: limit, ..self }
    }

    /// Whether the pages of buffers for messages of 1 MiB and more are interleaved over the nodes
    /// of the rails that have a lane up. Default: no.
    ///
    /// Several rails write to such a buffer, so it cannot be local to all of them, and the thread
    /// that reads the message is on one node at most. Without interleaving, each page of a new
    /// buffer lies on the node of the rail that happened to receive it, and stays there when the
    /// buffer is used again. With interleaving, the memory controllers of the nodes share each
    /// message evenly, regardless of the rail that receives a part: the memory interleaving of the
    /// Rails Toolkit paper (sections II.A and III.B). On two nodes half of a rail's writes then go
    /// to the remote one. It suits machines whose bottleneck is the memory of one node, and not the
    /// link between nodes. Chunks of bytes are not interleaved: one rail writes to each.
    ///
    /// The policy of each buffer is read back. If the kernel does not apply it, the buffer comes
    /// from the heap, or lies on a part of the nodes, and the log says so. On one node the
    /// option does nothing. Its gain has not been measured: that takes a machine with several
    /// physical nodes, because the nodes of a virtual machine may share one memory. There,
    /// `cargo bench --bench messages` compares both.
    #[must_use]
    pub fn interleaved_messages(self, interleaved: bool) -> Self {
        Self { interleaved_messages: interleaved, ..self }
    }

    /// Checks that every setting is inside its bounds. Every call that opens streams or listens
    /// with these options checks first, so the order of setters does not matter.
    ///
    /// # Errors
    /// [`OptionError`] names the first setting outside its bounds.
    pub fn validate(&self) -> Result<(), OptionError> {
        let Self { parallel, longest_chunk, send_buffer, window, recorded_decisions, .. } = self;
        bounded("parallel connections", *parallel as u64, 1, MAX_LANES as u64)?;
        bounded("a longest chunk in bytes", *longest_chunk as u64, 1 << 10, 16 << 20)?;
        bounded("a send buffer in bytes", *send_buffer as u64, 1 << 10, 1 << 30)?;
        // These times are added to the clock. The limit is 34 years.
        for (what, time) in [
            ("a connect timeout in seconds", self.connect_timeout),
            ("a join grace in seconds", self.join_grace),
            ("a linger in seconds", self.linger),
            ("a close timeout in seconds", self.close_timeout),
            ("an outage limit in seconds", self.outage_limit),
        ] {
            bounded(what, time.as_secs(), 0, 1 << 30)?;
        }
        self.limits.validate()?;
        bounded("recorded decisions", *recorded_decisions as u64, 0, 1 << 20)?;
        bounded("unacknowledged bytes", self.unacknowledged(), *longest_chunk as u64, 1 << 30)?;
        bounded("a window in bytes", *window, *longest_chunk as u64, 1 << 30)?;
        for (what, max) in [
            ("concurrent streams in both directions", self.max_concurrent_bi_streams),
            ("concurrent streams in one direction", self.max_concurrent_uni_streams),
        ] {
            bounded(what, max.into(), 0, MAX_STREAMS)?;
        }
        bounded("a window of a stream in bytes", self.window_of_stream(), 1 << 10, self.window)
    }

    /// Keeps the newest scheduling decisions of each stream, and the events between them, up to
    /// 1,048,576 entries in all. Default: 0, which keeps none.
    ///
    /// [`MultiRailStream::decisions`](crate::MultiRailStream::decisions) hands them out, for a file
    /// that can be [replayed](crate::record::Record::replay). An entry takes some 200 bytes,
    /// and 80 more for each lane; the ring is allocated with the stream. A decision costs a
    /// fraction of a microsecond more while it is recorded.
    #[must_use]
    pub fn record_decisions(self, entries: usize) -> Self {
        Self { recorded_decisions: entries, ..self }
    }

    /// The security of streams.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// The transport of that scheme.
    pub(crate) fn transport_of(&self, scheme: Scheme) -> Result<&Arc<dyn Transport>, NoTransport> {
        self.transports.get(&scheme).ok_or(NoTransport(scheme))
    }

    pub(crate) fn weight(&self, rail: RailId) -> u32 {
        self.weights.get(rail.0).copied().unwrap_or(1)
    }

    fn unacknowledged(&self) -> u64 {
        self.max_unacknowledged.unwrap_or(self.window)
    }

    fn window_of_stream(&self) -> u64 {
        self.stream_window.unwrap_or(DEFAULT_STREAM_WINDOW.min(self.window))
    }

    /// The most bytes that a stream makes this end keep for the peer: those that the application
    /// has not read, those that arrive on as many lanes as a stream may have, and those that
    /// wait to be sent and for an acknowledgement.
    pub(crate) fn memory_of_stream(&self) -> u64 {
        let arrived = self.window + self.window / 10;
        let arriving = MAX_LANES as u64 * (self.longest_chunk as u64 + FIXED_PER_LANE);
        arrived + arriving + self.send_buffer as u64 + self.unacknowledged()
    }

    /// The parameters that this end tells its peer as a lane joins for that purpose.
    pub(crate) fn parameters(&self, purpose: Purpose) -> TransportParameters {
        let streams = (purpose == Purpose::OpenSession).then_some(StreamParameters {
            window: self.window_of_stream(),
            max_bi: self.max_concurrent_bi_streams,
            max_uni: self.max_concurrent_uni_streams,
        });
        TransportParameters { streams, ..TransportParameters::one_stream(self.longest_chunk as u32, self.window) }
    }

    /// Makes this end of a new stream or session, as its purpose says, to a peer with these
    /// parameters.
    pub(crate) fn session(&self, purpose: Purpose, theirs: TransportParameters, side: Side) -> Session {
        let config = Config {
            longest_chunk: self.longest_chunk,
            send_buffer: self.send_buffer,
            max_unacknowledged: self.unacknowledged(),
            parameters: self.parameters(purpose),
            side,
            outage_limit: self.outage_limit,
            linger: self.linger,
        };
        let mut session = Session::new(config, self.policy.build(), theirs);
        if self.recorded_decisions > 0 {
            session.record_decisions(self.recorded_decisions);
        }
        session
    }
}

/// The memory of a lane beside the chunk that is arriving on it: bytes read ahead, and the share of
/// the allocator and the runtime.
const FIXED_PER_LANE: u64 = 512 << 10;

/// The most streams of one kind that a peer may have open at a time.
pub(crate) const MAX_STREAMS: u64 = 1 << 20;
const DEFAULT_STREAM_WINDOW: u64 = 256 << 10;

fn bounded(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), OptionError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(OptionError { what, value, min, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_their_bounds_are_refused() {
        let options = || StreamOptions::new(Security::insecure());
        let said = |options: StreamOptions| options.validate().unwrap_err().to_string();
        assert_eq!(options().validate(), Ok(()));
        assert!(options().record_decisions(1 << 21).validate().is_err());
        let for_ever = Duration::MAX;
        for endless in [
            options().linger(for_ever),
            options().close_timeout(for_ever),
            options().outage_limit(for_ever),
            options().connect_timeout(for_ever),
            options().join_grace(for_ever),
        ] {
            assert!(endless.validate().is_err());
        }
        assert_eq!(
            said(options().send_buffer(0)),
            "a send buffer in bytes of 0: it is at least 1024 and at most 1073741824"
        );
        for nobody in [Limits::default().handshakes(0), Limits::default().memory_per_peer(0)] {
            assert!(options().limits(nobody).validate().is_err(), "a limit of zero admits no peer");
        }
        assert!(options().longest_chunk(1 << 9).validate().is_err());
        assert!(options().parallel(0).validate().is_err() && options().parallel(65).validate().is_err());
        assert!(options().window(1 << 10).validate().is_err(), "a window holds a chunk");
        assert!(options().max_unacknowledged(1 << 10).validate().is_err(), "a chunk waits for its acknowledgement");
        assert!(options().max_unacknowledged(1 << 31).validate().is_err());
        assert!(options().max_concurrent_bi_streams(1 << 21).validate().is_err());
        assert!(options().max_concurrent_uni_streams(1 << 21).validate().is_err());
        assert!(
            options().stream_window(1 << 9).validate().is_err() && options().stream_window(1 << 25).validate().is_err()
        );
        assert_eq!(options().stream_window(1 << 24).max_concurrent_bi_streams(0).validate(), Ok(()));
        for both in [options().window(1 << 12).longest_chunk(1 << 12), options().longest_chunk(1 << 12).window(1 << 12)]
        {
            assert_eq!(both.validate(), Ok(()), "in either order");
        }
    }
}
