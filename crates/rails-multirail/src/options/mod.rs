//! How a stream behaves.

mod limits;

pub use limits::Limits;

use crate::{Driver, RailId, Security, error::NoTransport};
use rails_net::{TcpTransport, Transport};
use rails_proto::{
    Scheme,
    connection::{Config, Connection},
    parameters::{MOST_LANES, TransportParameters},
    policy::{Policy, StripePolicy},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// How a stream, or every stream of a listener, behaves. Each end has its own.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    pub(crate) security: Security,
    pub(crate) limits: Limits,
    policy: PolicySource,
    pub(crate) parallel: usize,
    pub(crate) driver: Driver,
    pub(crate) longest_chunk: usize,
    pub(crate) send_buffer: usize,
    pub(crate) window: u64,
    transports: BTreeMap<Scheme, Arc<dyn Transport>>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) join_grace: Duration,
    pub(crate) linger: Duration,
    pub(crate) outage_limit: Duration,
    pub(crate) weights: Vec<u32>,
    pub(crate) interleaved_messages: bool,
    recorded_decisions: usize,
}

/// What makes a policy for each stream.
#[derive(Clone)]
enum PolicySource {
    Ours(Policy),
    Own(Arc<dyn Fn() -> Box<dyn StripePolicy> + Send + Sync>),
}

impl PolicySource {
    fn build(&self) -> Box<dyn StripePolicy> {
        match self {
            Self::Ours(policy) => policy.build(),
            Self::Own(make) => make(),
        }
    }
}

impl fmt::Debug for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(policy) => policy.fmt(f),
            Self::Own(_) => f.write_str("Own(..)"),
        }
    }
}

/// A setting outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {value}: it is at least {least} and at most {most}")]
pub struct OptionError {
    /// The setting.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// The least that is taken.
    pub least: u64,
    /// The most that is taken.
    pub most: u64,
}

impl StreamOptions {
    /// Options with this security, and everything else at its default. A [`Secret`](crate::Secret) stands for
    /// [`Security::psk`]; [`Security::insecure`] lets anyone join.
    pub fn new(security: impl Into<Security>) -> Self {
        Self {
            security: security.into(),
            limits: Limits::default(),
            policy: PolicySource::Ours(Policy::default()),
            parallel: 1,
            driver: Driver::default(),
            longest_chunk: 512 << 10,
            send_buffer: 4 << 20,
            window: 16 << 20,
            transports: BTreeMap::from([(Scheme::TCP, Arc::new(TcpTransport::new()) as Arc<dyn Transport>)]),
            handshake_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(15),
            join_grace: Duration::from_secs(1),
            linger: Duration::from_secs(10),
            outage_limit: Duration::from_secs(10),
            weights: Vec::new(),
            interleaved_messages: false,
            recorded_decisions: 0,
        }
    }

    /// How bytes are shared out among the lanes. Default: [`Policy::Adaptive`].
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy: PolicySource::Ours(policy), ..self }
    }

    /// Shares bytes out by a policy of the application's own: `make` is called for each stream.
    #[must_use]
    pub fn own_policy(self, make: impl Fn() -> Box<dyn StripePolicy> + Send + Sync + 'static) -> Self {
        Self { policy: PolicySource::Own(Arc::new(make)), ..self }
    }

    /// How many connections a lane has: each is a lane of its own for the policy, on the same rail and to the same address (parallel TCP). Default: 1.
    /// It helps where one connection does not fill its link, for loss on a long way or for a window that is too small;
    /// on a short link it only costs. Only the end that opens the stream asks for it; a stream has at most 64 connections.
    #[must_use]
    pub fn parallel(self, connections: usize) -> Self {
        Self { parallel: connections, ..self }
    }

    /// Which threads drive the lanes of this end. Default: [`Driver::PerRail`].
    #[must_use]
    pub fn driver(self, driver: Driver) -> Self {
        Self { driver, ..self }
    }

    /// The longest chunk that is sent and taken, in bytes, from 1 KiB to 16 MiB. Default: 512 KiB.
    ///
    /// Longer chunks cost fewer system calls and wakes; lanes that are slow are given shorter ones. The shorter of both ends' wishes
    /// holds. On an unshaped veth pair one lane carried 1.05 times what a plain flow with 256 KiB writes did with the default, and
    /// 0.91 times with 256 KiB (two cores of an EPYC, medians of three rounds, `rails-bench compare --rates unshaped`).
    #[must_use]
    pub fn longest_chunk(self, bytes: usize) -> Self {
        Self { longest_chunk: bytes, ..self }
    }

    /// How many written bytes may wait for a lane, from 1 KiB to 1 GiB. Default: 4 MiB. A writer waits beyond that.
    #[must_use]
    pub fn send_buffer(self, bytes: usize) -> Self {
        Self { send_buffer: bytes, ..self }
    }

    /// How many bytes this end takes that its application has not read, from the longest chunk to 1 GiB. Default: 16 MiB.
    ///
    /// It must hold what all lanes carry in the time that the slowest takes for one chunk, or the fast ones wait for it. The default is 8 lanes of
    /// 200 Mbit/s with 80 ms, or 2 of 25 Gbit/s with 2.7 ms; between machines with longer ways and faster links it is worth raising, together with
    /// the kernel's `tcp_rmem`.
    ///
    /// # What a stream costs
    /// This end's memory for what arrives is at most the window and a tenth of it, beside 1 MiB for each lane, whatever the peer sends: with the default, 17.6 MiB
    /// and 1 MiB per lane (`tests/memory` floods a stream in a dozen ways and reads the process's resident set). That is taken as it is needed: an idle stream
    /// has next to nothing, for a buffer that was not used for 10 s is given back. What the application has received and not dropped is its own, and not counted. For what
    /// is sent, up to the [send buffer](Self::send_buffer) and the peer's window are kept; nothing of that is copied where it came as
    /// [`Bytes`](bytes::Bytes). The kernel's socket buffers are not counted.
    #[must_use]
    pub fn window(self, bytes: u64) -> Self {
        Self { window: bytes, ..self }
    }

    /// Carries lanes over this transport too, with its options: those whose addresses have its [scheme](Transport::scheme). It takes the place of another
    /// with the same scheme. Default: [`TcpTransport`] with its defaults, whose addresses need no scheme.
    ///
    /// # Panics
    /// If the scheme is no name ([`Scheme::new`]).
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        let scheme = Scheme::new(transport.scheme()).expect("a transport's scheme is a name");
        self.transports.insert(scheme, Arc::new(transport));
        self
    }

    /// What peers may have of a [`MultiRailListener`](crate::MultiRailListener). The end that connects has no use for it.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// How long a handshake may take, TLS and all, from the connection to the last message. Default: 5 s.
    #[must_use]
    pub fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { handshake_timeout: timeout, ..self }
    }

    /// How long [`MultiRailStream::connect`](crate::MultiRailStream::connect) tries to open a stream, all attempts on all lanes together. Default: 15 s.
    ///
    /// It takes that long only where a peer is busy and asks to be tried again, or cannot be reached by TCP. Where every lane was refused it fails at once; where
    /// peers are mute, after a [handshake's time](Self::handshake_timeout) and the second in which attempts on all lanes begin.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// How long [`MultiRailStream::connect`](crate::MultiRailStream::connect) waits for the other lanes once one is up. Default: 1 s. Lanes that take longer join later.
    #[must_use]
    pub fn join_grace(self, grace: Duration) -> Self {
        Self { join_grace: grace, ..self }
    }

    /// How long a stream lives on after the application has dropped it, to deliver what was written. Default: 10 s.
    ///
    /// It ends sooner where everything is delivered and the peer has ended its own direction, or was told that nobody reads it. What could not be delivered
    /// by then is thrown away: the peer gets [`ConnectionReset`](std::io::ErrorKind::ConnectionReset), and the log says how many bytes that were.
    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        Self { linger, ..self }
    }

    /// The shares of the rails at this end under [`Policy::Weighted`], by rail; a rail beyond the list has a share of 1. Default: none.
    #[must_use]
    pub fn weights(self, weights: impl Into<Vec<u32>>) -> Self {
        Self { weights: weights.into(), ..self }
    }

    /// How long a stream waits for a lane that can be used when every one is down or stalled, before it fails with what was delivered. Default: 10 s.
    /// Zero: it fails as soon as the last lane is lost.
    #[must_use]
    pub fn outage_limit(self, limit: Duration) -> Self {
        Self { outage_limit: limit, ..self }
    }

    /// Whether the buffers of large messages, of 1 MiB and more, are laid page by page in turn on the nodes of the rails that have a lane up.
    /// Default: no.
    ///
    /// Several rails write to such a buffer, so that it cannot lie beside all of them, and whoever reads the message is on one node at most. Without this each
    /// page of a new buffer comes to lie beside the rail that happened to receive it, and stays there when the buffer is used again. With it both memory
    /// controllers share each message evenly, whichever rail receives what: the memory interleaving of the Rails Toolkit paper (sections II.A and III.B). Half of what a
    /// rail writes then is to a remote node. It is for machines where one node's memory, and not the link between them, is what is short. Chunks of bytes are not
    /// interleaved: one rail writes to each.
    ///
    /// The policy of each buffer is read back; where the kernel does not take it the buffer comes from the heap, or lies on what is left of
    /// the nodes, and the log says so. On one node this does nothing. What it is worth has not been measured: that takes a machine of several nodes
    /// whose memory is not all the same, which a virtual one's is. There, `cargo bench --bench messages` compares both.
    #[must_use]
    pub fn interleaved_messages(self, interleaved: bool) -> Self {
        Self { interleaved_messages: interleaved, ..self }
    }

    /// Whether every setting is inside its bounds. Whatever opens streams or listens with these options asks this first, so that the order of setters does not
    /// matter.
    ///
    /// # Errors
    /// [`OptionError`] names the first setting that is not.
    pub fn validate(&self) -> Result<(), OptionError> {
        let Self { parallel, longest_chunk, send_buffer, window, recorded_decisions, .. } = self;
        bounded("parallel connections", *parallel as u64, 1, MOST_LANES as u64)?;
        bounded("a longest chunk in bytes", *longest_chunk as u64, 1 << 10, 16 << 20)?;
        bounded("a send buffer in bytes", *send_buffer as u64, 1 << 10, 1 << 30)?;
        // A time that is added to the clock: 34 years are for ever.
        for (what, time) in [
            ("a connect timeout in seconds", self.connect_timeout),
            ("a join grace in seconds", self.join_grace),
            ("a linger in seconds", self.linger),
            ("an outage limit in seconds", self.outage_limit),
        ] {
            bounded(what, time.as_secs(), 0, 1 << 30)?;
        }
        self.limits.validate()?;
        bounded("recorded decisions", *recorded_decisions as u64, 0, 1 << 20)?;
        bounded("a window in bytes", *window, *longest_chunk as u64, 1 << 30)
    }

    /// Keeps the newest scheduling decisions of each stream, and what happened between them, up to 1,048,576 entries in all. Default: 0, which keeps none.
    ///
    /// [`MultiRailStream::decisions`](crate::MultiRailStream::decisions) hands them out, for a file that can be
    /// [replayed](crate::record::Record::replay). An entry takes some 200 bytes, and 80 more for each lane; the ring is allocated with the stream.
    /// A decision costs a fraction of a microsecond more while it is recorded.
    #[must_use]
    pub fn record_decisions(self, entries: usize) -> Self {
        Self { recorded_decisions: entries, ..self }
    }

    /// How streams are kept.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// The transport of that scheme, where there is one.
    pub(crate) fn transport_of(&self, scheme: Scheme) -> Result<&Arc<dyn Transport>, NoTransport> {
        self.transports.get(&scheme).ok_or(NoTransport(scheme))
    }

    pub(crate) fn weight(&self, rail: RailId) -> u32 {
        self.weights.get(rail.0).copied().unwrap_or(1)
    }

    pub(crate) fn parameters(&self) -> TransportParameters {
        TransportParameters { longest_chunk: self.longest_chunk as u32, window: self.window }
    }

    /// This end of a new stream to an end with these parameters; `redials` says whether it dials lanes again.
    pub(crate) fn connection(&self, theirs: TransportParameters, redials: bool) -> Connection {
        let config = Config {
            longest_chunk: self.longest_chunk,
            send_buffer: self.send_buffer,
            parameters: self.parameters(),
            outage_limit: self.outage_limit,
            linger: self.linger,
            redials,
        };
        let mut connection = Connection::new(config, self.policy.build(), theirs);
        if self.recorded_decisions > 0 {
            connection.record_decisions(self.recorded_decisions);
        }
        connection
    }
}

fn bounded(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), OptionError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(OptionError { what, value, least, most }) }
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
            assert!(options().limits(nobody).validate().is_err(), "it would let nobody in");
        }
        assert!(options().longest_chunk(1 << 9).validate().is_err());
        assert!(options().parallel(0).validate().is_err() && options().parallel(65).validate().is_err());
        assert!(options().window(1 << 10).validate().is_err(), "it holds a chunk");
        for both in [options().window(1 << 12).longest_chunk(1 << 12), options().longest_chunk(1 << 12).window(1 << 12)]
        {
            assert_eq!(both.validate(), Ok(()), "in either order");
        }
    }
}
