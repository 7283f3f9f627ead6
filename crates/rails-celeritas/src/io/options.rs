//! How connections are opened.

use crate::proto::rate::{Adaptive, AdaptiveOptions, Fixed, RateController, SharedRate};
use rails_net::{LocalEnd, UdpOptions};
use rails_proto::{parameters::SILENCE_LIMIT, security::Security};
use rails_topo::{Bandwidth, DataSize};
use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

/// The options of connections. Each end has its own, and they need not be alike.
#[derive(Clone)]
#[must_use]
pub struct CeleritasOptions {
    pub(super) controller: Arc<dyn Fn() -> Box<dyn RateController> + Send + Sync>,
    pub(super) window: DataSize,
    pub(super) max_message: DataSize,
    pub(super) max_unacknowledged: DataSize,
    pub(super) max_unsent: DataSize,
    pub(super) max_datagram: u16,
    pub(super) depth: Duration,
    pub(super) burst: Duration,
    pub(super) security: Security,
    pub(super) local: LocalEnd,
    pub(super) udp: UdpOptions,
    pub(super) greeting_limit: Duration,
    pub(super) max_silence: Duration,
    pub(super) keep_alive: Option<Duration>,
    pub(super) close_timeout: Duration,
}

impl CeleritasOptions {
    /// Connections that send at that rate, which counts IP packets with their headers: for a path,
    /// or a share of one, that no other sender uses. A shared path needs a
    /// [controller](Self::controller) that makes way for others.
    pub fn fixed(rate: Bandwidth) -> Self {
        Self::controller(move || Box::new(Fixed(rate)))
    }

    /// Connections that share a rate with others, each with a share of this weight.
    pub fn shared(rate: &SharedRate, weight: NonZeroU32) -> Self {
        let rate = rate.clone();
        Self::controller(move || Box::new(rate.share(weight)))
    }

    /// Connections that search for the rate of the path, and make way for others: for a path whose
    /// rate is unknown, or that others use too.
    pub fn adaptive(options: AdaptiveOptions) -> Self {
        Self::controller(move || Box::new(Adaptive::new(options)))
    }

    /// Connections whose rates these controllers decide, each of them made for one connection.
    pub fn controller(make: impl Fn() -> Box<dyn RateController> + Send + Sync + 'static) -> Self {
        Self {
            controller: Arc::new(make),
            window: DataSize::bytes(16 << 20),
            max_message: DataSize::bytes(256 << 20),
            max_unacknowledged: DataSize::bytes(64 << 20),
            max_unsent: DataSize::bytes(16 << 20),
            max_datagram: 8972,
            depth: Duration::from_millis(2),
            burst: Duration::from_micros(250),
            security: Security::insecure(),
            local: LocalEnd::Any,
            udp: UdpOptions::new().send_buffer(DataSize::bytes(4 << 20)).receive_buffer(DataSize::bytes(8 << 20)),
            greeting_limit: Duration::from_secs(10),
            max_silence: SILENCE_LIMIT,
            keep_alive: Some(Duration::from_secs(25)),
            close_timeout: Duration::from_secs(30),
        }
    }

    /// The memory for messages that arrive before a caller asks for them. Default: 16 MiB. A path
    /// carries no more than this in a round trip to an application that asks late.
    pub fn window(self, size: DataSize) -> Self {
        Self { window: size, ..self }
    }

    /// The longest message that [`Connection::receive`](super::Connection::receive) takes, which
    /// gets memory as it arrives. Default: 256 MiB. Longer ones take
    /// [`receive_into`](super::Connection::receive_into).
    pub fn max_message(self, size: DataSize) -> Self {
        Self { max_message: size, ..self }
    }

    /// The most bytes that this end has sent and not known to have arrived, where each message
    /// counts [512 more](crate::proto::sender::MESSAGE_COST) than its length. Default: 64 MiB,
    /// which a path of 10 Gbit/s and 50 ms has under way. It takes about 40 bytes of memory for
    /// each segment.
    ///
    /// A message is kept until all of it has arrived: behind the first that has begun, those that
    /// have begun have at most [four times](crate::proto::sender::MAX_KEPT) as many bytes, or
    /// are one message.
    pub fn max_unacknowledged(self, size: DataSize) -> Self {
        Self { max_unacknowledged: size, ..self }
    }

    /// The most bytes of messages that wait to be sent before
    /// [`Connection::send`](super::Connection::send) waits. Default: 16 MiB. Each message counts
    /// [512 bytes more](crate::proto::sender::MESSAGE_COST) than its length, so that many short
    /// ones take no more memory than this; only blocks of few bytes do. A message that is longer is
    /// taken when no other waits. The connection keeps the messages that wait, and those of which
    /// [sent bytes](Self::max_unacknowledged) may be missing.
    pub fn max_unsent(self, size: DataSize) -> Self {
        Self { max_unsent: size, ..self }
    }

    /// The most bytes of a datagram, without the headers of IP and UDP; 64 at least. Default: 8972,
    /// and never more than the interfaces of both ends take. Connections begin with packets of
    /// 1,280 bytes, and find by probes how much of this the path carries.
    pub fn max_datagram(self, bytes: u16) -> Self {
        Self { max_datagram: bytes.max(64), ..self }
    }

    /// The time on the wire of one burst, which leaves by one system call. Default: 250 us. The
    /// queue on the path has to take it.
    pub fn burst(self, time: Duration) -> Self {
        Self { burst: time, ..self }
    }

    /// The time whose bytes may leave at once after the driver was late. Default: 2 ms. The queue
    /// on the path has to take them; a shorter time loses bandwidth where other tasks hold the
    /// driver up.
    pub fn depth(self, time: Duration) -> Self {
        Self { depth: time, ..self }
    }

    /// The time without an arrival after which the connection fails, while segments are under way.
    /// Default: [15 minutes](SILENCE_LIMIT), as TCP waits for a machine that is silent, and never
    /// less than eight probe timeouts of the path. A path that has never carried anything has at
    /// most 5 s. The time counts while both ends look: not while the process of one is stopped or
    /// computes. As over TCP, a peer whose process is stopped and whose host lives is waited for,
    /// and a peer whose host closes or resets the control channel is not.
    pub fn max_silence(self, time: Duration) -> Self {
        Self { max_silence: time, ..self }
    }

    /// The time without a datagram of this end after which it sends an empty one, as long as the
    /// connection is open: a NAT may forget an end that only receives. Default: 25 s, for NATs
    /// of the Internet forget a binding after 30 s and more (RFC 9308, section 3.2). `None`,
    /// where no NAT is: an idle connection sends nothing.
    pub fn keep_alive(self, time: impl Into<Option<Duration>>) -> Self {
        Self { keep_alive: time.into(), ..self }
    }

    /// The longest time that [`Connection::close`](super::Connection::close) waits without any
    /// progress: the peer takes none of the messages, or it sends nothing new and does not end
    /// its own direction. Default: 30 s. Of a time in which the process of this end is stopped,
    /// no more than an eighth of this counts, or 100 ms.
    pub fn close_timeout(self, timeout: Duration) -> Self {
        Self { close_timeout: timeout, ..self }
    }

    /// How the ends authenticate each other. Default: [`Security::insecure`]. With a secret or TLS,
    /// every segment and every control frame is sealed (AES-256-GCM), also with
    /// [`Security::psk`]. Both ends need the same. It takes this crate's feature `encryption`,
    /// TLS its feature `tls`: without them, connecting and listening fail.
    pub fn security(self, security: impl Into<Security>) -> Self {
        Self { security: security.into(), ..self }
    }

    /// The local end: the address or the device that connections begin at. A listener takes its
    /// address as an argument, and only the device from here. Default: [`LocalEnd::Any`].
    pub fn local(self, local: impl Into<LocalEnd>) -> Self {
        Self { local: local.into(), ..self }
    }

    /// The options of the sockets for segments, without their local end. Default: a send buffer of
    /// 4 MiB and a receive buffer of 8 MiB, as far as `net.core.wmem_max` and
    /// `net.core.rmem_max` allow them.
    pub fn udp(self, options: UdpOptions) -> Self {
        Self { udp: options, ..self }
    }
}

impl fmt::Debug for CeleritasOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CeleritasOptions")
            .field("controller", &(self.controller)())
            .field("window", &self.window)
            .field("max_message", &self.max_message)
            .field("max_unacknowledged", &self.max_unacknowledged)
            .field("max_unsent", &self.max_unsent)
            .field("max_datagram", &self.max_datagram)
            .field("depth", &self.depth)
            .field("burst", &self.burst)
            .field("max_silence", &self.max_silence)
            .field("keep_alive", &self.keep_alive)
            .field("close_timeout", &self.close_timeout)
            .field("security", &self.security)
            .field("local", &self.local)
            .field("udp", &self.udp)
            .finish_non_exhaustive()
    }
}
