//! TCP as a transport: its sockets' options.

use super::zero_copy::ZeroCopy;
use crate::LocalEnd;
use rails_topo::{CpuId, DataSize};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The TCP transport: the options with which it opens lanes and sets their sockets.
///
/// Setters take and return the options, so they chain. One value opens any number of lanes, with
/// [`connect`](Self::connect) and [`listen`](Self::listen).
///
/// An option at its default only improves a lane. A kernel that lacks the option, or a filter that
/// refuses it, leaves the lane without it: a warning says so, and
/// [`TcpSettings`](crate::TcpSettings) show it. An option with another value that is refused is an
/// error, unless [`leave_out_refused`](Self::leave_out_refused) is on.
///
/// # Examples
/// ```
/// use rails_net::{TcpTransport, LocalEnd};
/// use rails_topo::DataSize;
///
/// let options = TcpTransport::new()
///     .local(LocalEnd::Device("eth0".to_owned()))
///     .congestion("cubic")
///     .send_buffer(DataSize::bytes(4 << 20));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct TcpTransport {
    // The local end.
    pub(crate) local: LocalEnd,
    pub(crate) incoming_cpu: Option<CpuId>,
    // The kernel's buffers.
    pub(crate) send_buffer: Option<DataSize>,
    pub(crate) receive_buffer: Option<DataSize>,
    pub(crate) not_sent_lowat: Option<DataSize>,
    // Sending.
    pub(crate) no_delay: bool,
    pub(crate) max_segment: Option<DataSize>,
    pub(crate) congestion: Option<String>,
    pub(crate) zero_copy: Option<ZeroCopy>,
    // Waiting.
    pub(crate) busy_poll: Option<Duration>,
    // Timeouts.
    pub(crate) connect_timeout: Duration,
    pub(crate) keepalive: Option<KeepAlive>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) rto_max: Option<Duration>,
    // Listening.
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    pub(crate) backlog: u32,
    // Refusals.
    pub(crate) leaves_out_refused: bool,
}

/// The probes of a silent peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAlive {
    /// Silence before the first probe (`TCP_KEEPIDLE`); whole seconds, rounded up.
    #[serde(rename = "idle_s", with = "seconds")]
    pub idle: Duration,
    /// Time between probes (`TCP_KEEPINTVL`); whole seconds, rounded up.
    #[serde(rename = "interval_s", with = "seconds")]
    pub interval: Duration,
    /// The number of unanswered probes after which the kernel takes the peer for dead
    /// (`TCP_KEEPCNT`).
    pub probes: u32,
}

impl TcpTransport {
    /// The defaults, as each setter names them.
    pub fn new() -> Self {
        Self {
            local: LocalEnd::Any,
            incoming_cpu: None,
            send_buffer: None,
            receive_buffer: None,
            not_sent_lowat: Some(DataSize::bytes(1 << 20)),
            no_delay: true,
            max_segment: None,
            congestion: None,
            zero_copy: None,
            busy_poll: None,
            connect_timeout: Duration::from_secs(10),
            keepalive: Some(KeepAlive::default()),
            user_timeout: None,
            rto_max: Some(Duration::from_secs(1)),
            reuse_address: true,
            reuse_port: false,
            backlog: 1024,
            leaves_out_refused: false,
        }
    }

    /// The local end of lanes. A listener has its address from [`listen`](Self::listen), and takes
    /// only the device from here.
    ///
    /// # Default
    /// [`LocalEnd::Any`].
    ///
    /// # Privileges
    /// None; a device since Linux 5.7 (before, `CAP_NET_RAW`).
    pub fn local(mut self, local: impl Into<LocalEnd>) -> Self {
        self.local = local.into();
        self
    }

    /// The CPU that is expected to handle this socket's packets (`SO_INCOMING_CPU`): of several
    /// listeners that share a port ([`reuse_port`](Self::reuse_port)), the kernel prefers the one
    /// with the CPU that received the packet. The option moves no interrupt.
    ///
    /// # Default
    /// None: the kernel notes the CPU of the last packet.
    pub fn incoming_cpu(mut self, cpu: impl Into<Option<CpuId>>) -> Self {
        self.incoming_cpu = cpu.into();
        self
    }

    /// Bytes that the kernel may hold for sending (`SO_SNDBUF`).
    ///
    /// # Default
    /// None: the kernel tunes it by itself, up to `net.ipv4.tcp_wmem`.
    ///
    /// # Cost
    /// A fixed size ends the tuning, and `net.core.wmem_max` cuts it; the lane's
    /// [`deviations`](crate::TcpLane::deviations) say if it did.
    ///
    /// # Worth
    /// Over 400 Mbit/s and 50 ms, with both buffers set: tuned 352 Mbit/s, 4 MiB 298, 1 MiB 201,
    /// 256 KiB 51 (`docs/lanes.md`). A fixed size suits paths for which the system's limits are
    /// too low, and bounds memory.
    pub fn send_buffer(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.send_buffer = size.into();
        self
    }

    /// Bytes that the kernel may hold for reading (`SO_RCVBUF`). It is set before the connection is
    /// established, and bounds the window that the kernel ever offers the peer.
    ///
    /// # Default
    /// None: the kernel tunes it by itself, up to `net.ipv4.tcp_rmem`.
    ///
    /// # Cost
    /// A fixed size ends the tuning, and `net.core.rmem_max` cuts it; the lane's
    /// [`deviations`](crate::TcpLane::deviations) say if it did.
    ///
    /// # Worth
    /// See [`send_buffer`](Self::send_buffer).
    pub fn receive_buffer(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.receive_buffer = size.into();
        self
    }

    /// The unsent bytes in the kernel at which the socket stops being writable
    /// (`TCP_NOTSENT_LOWAT`). A stream lowers the limit of a lane that needs less.
    ///
    /// # Default
    /// 1 MiB: two chunks of 512 KiB, one on its way and one in reserve. Zero is refused when the
    /// lane is opened. None leaves the system's `net.ipv4.tcp_notsent_lowat`, which is unlimited by
    /// default.
    ///
    /// # Cost
    /// Bytes that wait in the kernel belong to this lane, even if another is free: more of them
    /// keep the lane of a late sender busy, fewer leave more bytes to share among lanes. With
    /// fewer than two chunks the kernel takes each chunk in several pieces, and wakes the
    /// sender for each.
    pub fn not_sent_lowat(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.not_sent_lowat = size.into();
        self
    }

    /// Whether the kernel sends small writes at once (`TCP_NODELAY`), and does not hold them back
    /// to join them with the next.
    ///
    /// # Default
    /// On.
    ///
    /// # Cost
    /// Many small writes make many small packets.
    pub fn no_delay(mut self, on: bool) -> Self {
        self.no_delay = on;
        self
    }

    /// The congestion control, by the kernel's name for it (`TCP_CONGESTION`): `cubic`, `bbr`,
    /// `reno`.
    ///
    /// # Default
    /// None: the system's (`net.ipv4.tcp_congestion_control`).
    ///
    /// # Privileges
    /// None for those in `net.ipv4.tcp_allowed_congestion_control`, `CAP_NET_ADMIN` for the others.
    pub fn congestion<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        self.congestion = name.into().map(str::to_owned);
        self
    }

    /// Whether [`Lane::try_submit`](crate::Lane::try_submit) sends large payload straight from its
    /// memory, without the kernel copying it (`MSG_ZEROCOPY`). The lane keeps that memory until the
    /// kernel is done with it, also beyond its own end.
    ///
    /// # Default
    /// None: the kernel copies payload.
    ///
    /// # Cost
    /// The kernel pins pages, and each send causes a notice that takes a call of its own to read.
    /// Each lane takes two more descriptors and memory ([`ZeroCopy::max_outstanding`]). If the
    /// kernel copies after all, the option only costs; [`ZeroCopyStats`](crate::ZeroCopyStats)
    /// reports that, and the lane stops asking. tokio takes the kernel's notices for the end of
    /// the sending side, so write to such a lane only through the trait, and not through
    /// [`get_mut`](crate::TcpLane::get_mut).
    ///
    /// An encrypted stream seals its bytes into a buffer that it uses again, and the kernel copies
    /// them from there regardless of this option.
    ///
    /// # Worth
    /// None between namespaces, where the kernel copies after all: 26.7 Gbit/s against 23.4 with
    /// spreads that overlap (`docs/lanes.md`). With a NIC it saves the sender's copy; that has
    /// not been measured.
    pub fn zero_copy(mut self, zero_copy: impl Into<Option<ZeroCopy>>) -> Self {
        self.zero_copy = zero_copy.into();
        self
    }

    /// The time that a lane polls its socket after a use before its thread sleeps, in whole
    /// microseconds, rounded up (`SO_BUSY_POLL`).
    ///
    /// The kernel polls the NIC's queue at each read that finds no bytes, if the driver supports
    /// it; that alone does not help a thread that sleeps in epoll. So
    /// [`Lane::poll_receive_ready`](crate::Lane::poll_receive_ready) reads the socket
    /// repeatedly for that long, and lets the other tasks of its thread run in between.
    ///
    /// # Default
    /// None: the thread sleeps at once, and the system's `net.core.busy_read` holds. Opening a lane
    /// with zero fails.
    ///
    /// # Cost
    /// A core that spins for that long after each use of the lane.
    ///
    /// # Privileges
    /// `CAP_NET_ADMIN` for more than `net.core.busy_read`.
    ///
    /// # Worth
    /// With 50 us at both ends, each with a CPU to itself, the round trip of 64 bytes took 24 us
    /// instead of 97 (medians, `docs/lanes.md`); a plain tokio TCP flow takes 64.
    pub fn busy_poll(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.busy_poll = time.into();
        self
    }

    /// The timeout for establishing a connection.
    ///
    /// # Default
    /// 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The probes of a silent peer (`SO_KEEPALIVE`).
    ///
    /// # Default
    /// After 10 s of silence, every 5 s, three times. `None` sends no probes, so only a send
    /// notices that a peer has vanished.
    pub fn keepalive(mut self, keepalive: impl Into<Option<KeepAlive>>) -> Self {
        self.keepalive = keepalive.into();
        self
    }

    /// The time that data may wait to be acknowledged, or to be sent, before the kernel gives the
    /// connection up (`TCP_USER_TIMEOUT`), in milliseconds, rounded up. It also bounds the
    /// probes of [`keepalive`](Self::keepalive).
    ///
    /// # Default
    /// None: the kernel gives up after `net.ipv4.tcp_retries2` transmissions without an answer.
    /// That takes 14 s with the default of [`rto_max`](Self::rto_max), and a quarter of an hour
    /// before Linux 6.15. A stream does not wait for it: it moves the bytes of a lane to other
    /// lanes if nothing acknowledges them, or the peer's host leaves three probes of its closed
    /// window unanswered, and dials the lane again. Opening a lane with zero fails.
    ///
    /// # Cost
    /// The time also runs while the peer's window is closed, although its kernel answers each probe
    /// (`tcp_probe_timer` in net/ipv4/tcp_timer.c): a peer that is alive loses the lane if its
    /// process is stopped, or does not read, for as long.
    pub fn user_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.user_timeout = timeout.into();
        self
    }

    /// The maximum payload of a segment, in both directions (`TCP_MAXSEG`, 88 to 32,767 bytes): on
    /// a path that silently drops packets above some size, TCP would repeat a larger segment for
    /// ever.
    ///
    /// # Default
    /// None: as much as the interfaces and ICMP allow. Opening a lane with a size outside of the
    /// kernel's bounds fails.
    ///
    /// # Cost
    /// CPU time, where segments could be larger.
    ///
    /// # References
    /// [tcp(7)](https://man7.org/linux/man-pages/man7/tcp.7.html)
    pub fn max_segment(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.max_segment = size.into();
        self
    }

    /// The longest time between two retransmissions of an unacknowledged segment
    /// (`TCP_RTO_MAX_MS`), in milliseconds, rounded up, and by the kernel to its own ticks.
    /// Otherwise the time doubles with each retransmission, so an outage of some seconds may
    /// take as many seconds more to end for TCP. The listening end cannot dial again to
    /// avoid that.
    ///
    /// # Default
    /// 1 s, the minimum of Linux; the maximum is 120 s. None: the system's
    /// (`net.ipv4.tcp_rto_max_ms`, 120 s).
    ///
    /// Before Linux 6.15 the option does not exist, and lanes work without it;
    /// [`TcpSettings::rto_max`](crate::TcpSettings::rto_max) is `None` then.
    ///
    /// # Cost
    /// A packet each second on a lane without acknowledgements. Without a
    /// [`user_timeout`](Self::user_timeout), the kernel gives the connection up after as many
    /// retransmissions as before (`net.ipv4.tcp_retries2`), which take less time: 14 s with the
    /// default.
    ///
    /// # Worth
    /// A link was down for 4 s behind a bridge, and the accepting end sent. The link carried bytes
    /// again 3.1 s later; with this option, after a second at most.
    pub fn rto_max(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.rto_max = longest.into();
        self
    }

    /// Whether a listener may bind a port whose former connections are still closing
    /// (`SO_REUSEADDR`).
    ///
    /// # Default
    /// On.
    pub fn reuse_address(mut self, on: bool) -> Self {
        self.reuse_address = on;
        self
    }

    /// Whether several listeners of one user may share a port (`SO_REUSEPORT`), each on its own
    /// rail; the kernel distributes connections among them.
    ///
    /// # Default
    /// Off.
    ///
    /// # Cost
    /// A program that is started twice by mistake takes half of the connections, without an error.
    pub fn reuse_port(mut self, on: bool) -> Self {
        self.reuse_port = on;
        self
    }

    /// The limit on connections that wait to be accepted; `net.core.somaxconn` cuts it.
    ///
    /// # Default
    /// 1,024.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Whether lanes are opened without any option that the system refuses, as they are without
    /// refused options at their defaults. For a caller whose user has not requested the options.
    ///
    /// # Default
    /// Off: a refused option with another value than its default is an error.
    pub fn leave_out_refused(mut self, on: bool) -> Self {
        self.leaves_out_refused = on;
        self
    }
}

impl Default for TcpTransport {
    fn default() -> Self {
        Self::new()
    }
}

/// Probes after 10 s of silence, every 5 s, three times: the kernel notices that a peer has
/// vanished after 25 s.
impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle: Duration::from_secs(10), interval: Duration::from_secs(5), probes: 3 }
    }
}

/// Serializes durations as whole seconds, the kernel's unit for them.
mod seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_secs().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}
