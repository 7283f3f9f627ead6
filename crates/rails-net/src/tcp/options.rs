//! TCP as a transport: its sockets' options.

use super::zero_copy::ZeroCopy;
use crate::LocalEnd;
use rails_topo::{CpuId, DataSize};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// TCP: how its lanes are opened, where they begin, and how their sockets behave.
///
/// Setters take and return the options, so they chain. One value opens any number of lanes, with
/// [`connect`](Self::connect) and [`listen`](Self::listen).
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
    // Where the lane begins.
    pub(crate) local: LocalEnd,
    pub(crate) incoming_cpu: Option<CpuId>,
    // How much the kernel holds for it.
    pub(crate) send_buffer: Option<DataSize>,
    pub(crate) receive_buffer: Option<DataSize>,
    pub(crate) not_sent_lowat: Option<DataSize>,
    // How it sends.
    pub(crate) no_delay: bool,
    pub(crate) congestion: Option<String>,
    pub(crate) zero_copy: Option<ZeroCopy>,
    // How it waits.
    pub(crate) busy_poll: Option<Duration>,
    // When it is given up.
    pub(crate) connect_timeout: Duration,
    pub(crate) keepalive: Option<KeepAlive>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) rto_max: Option<Duration>,
    // How it is listened for.
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    pub(crate) backlog: u32,
}

/// How a silent peer is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAlive {
    /// Silence before the first probe (`TCP_KEEPIDLE`); whole seconds, rounded up.
    #[serde(rename = "idle_s", with = "seconds")]
    pub idle: Duration,
    /// Time between probes (`TCP_KEEPINTVL`); whole seconds, rounded up.
    #[serde(rename = "interval_s", with = "seconds")]
    pub interval: Duration,
    /// Probes without an answer after which the peer is taken for dead (`TCP_KEEPCNT`).
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
            not_sent_lowat: Some(DataSize::bytes(128 << 10)),
            no_delay: true,
            congestion: None,
            zero_copy: None,
            busy_poll: None,
            connect_timeout: Duration::from_secs(10),
            keepalive: Some(KeepAlive::default()),
            user_timeout: Some(Duration::from_secs(20)),
            rto_max: Some(Duration::from_secs(1)),
            reuse_address: true,
            reuse_port: false,
            backlog: 1024,
        }
    }

    /// Where lanes begin. A listener takes its address from [`listen`](Self::listen) and only the device from here.
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

    /// The CPU that this socket's packets are expected on (`SO_INCOMING_CPU`): of several listeners that share a port
    /// ([`reuse_port`](Self::reuse_port)), the kernel prefers the one of the CPU that received the packet. It moves no
    /// interrupt.
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
    /// Over 400 Mbit/s and 50 ms, with both buffers set: tuned 352 Mbit/s, 4 MiB 298, 1 MiB 201, 256 KiB 51 (`docs/lanes.md`). It is for paths of which the
    /// system's limits are known to be too low, and for holding memory down.
    pub fn send_buffer(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.send_buffer = size.into();
        self
    }

    /// Bytes that the kernel may hold for reading (`SO_RCVBUF`); it is set before the connection is made, which bounds
    /// the window that the peer is ever offered.
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

    /// Bytes that may wait in the kernel without having been sent; with that many, the socket stops being writable
    /// (`TCP_NOTSENT_LOWAT`).
    ///
    /// # Default
    /// 128 KiB: two packets of the largest size that segmentation offload takes (64 KiB), one on its way and one in
    /// reserve. Zero is refused when the lane is opened. None leaves the system's `net.ipv4.tcp_notsent_lowat`, which
    /// is no limit unless someone set it.
    ///
    /// # Cost
    /// What waits in the kernel is bound to this lane, even if another is free: more keeps a late sender's lane busy,
    /// less leaves more to be shared out.
    pub fn not_sent_lowat(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.not_sent_lowat = size.into();
        self
    }

    /// Whether small writes are sent at once (`TCP_NODELAY`) and not held back to be joined with the next.
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

    /// The congestion control, by the kernel's name for it (`TCP_CONGESTION`): `cubic`, `bbr`, `reno`.
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

    /// Whether large payload is sent from where it lies, without the kernel copying it (`MSG_ZEROCOPY`), by
    /// [`Lane::try_submit`](crate::Lane::try_submit). What lies there is kept until the kernel is done with it, also beyond the lane's end.
    ///
    /// # Default
    /// None: it is copied.
    ///
    /// # Cost
    /// Pages are pinned, and each send is followed by a notice that is read by a call of its own; two more descriptors and memory
    /// ([`ZeroCopy::most_outstanding`]) for each lane. Where the kernel copies in the end all the same, it is plain loss; [`ZeroCopyStats`](crate::ZeroCopyStats) tells, and the lane stops asking.
    /// tokio takes the kernel's notices for the end of the sending side, so such a lane is written to by the trait alone, and not by
    /// [`get_mut`](crate::TcpLane::get_mut).
    ///
    /// An encrypted stream seals what it sends into a buffer that is used again, and has it copied from there whatever this says.
    ///
    /// # Worth
    /// Between namespaces, where the kernel copies after all: none, 26.7 Gbit/s against 23.4 with spreads that overlap (`docs/lanes.md`). With a NIC it saves the
    /// sender's copy; that has not been measured.
    pub fn zero_copy(mut self, zero_copy: impl Into<Option<ZeroCopy>>) -> Self {
        self.zero_copy = zero_copy.into();
        self
    }

    /// For how long a lane that has just been used is asked for more before its thread sleeps, in whole microseconds, rounded up (`SO_BUSY_POLL`).
    ///
    /// The kernel polls the NIC's queue at each read that finds nothing, where the driver lets it; that alone does nothing for a thread that
    /// sleeps in epoll. So [`Lane::poll_receive_ready`](crate::Lane::poll_receive_ready) asks the socket again and again for that long, and lets the other tasks of its thread
    /// run in between.
    ///
    /// # Default
    /// None: the thread sleeps at once, and the system's `net.core.busy_read` is left as it is. Zero is refused when the lane is opened.
    ///
    /// # Cost
    /// A core that spins for that long after each use of the lane.
    ///
    /// # Privileges
    /// `CAP_NET_ADMIN` for more than `net.core.busy_read`.
    ///
    /// # Worth
    /// With 50 us at both ends, each with a CPU to itself, 64 bytes went and came back in 24 us instead of 97 (medians, `docs/lanes.md`), where a plain tokio
    /// TCP flow takes 64.
    pub fn busy_poll(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.busy_poll = time.into();
        self
    }

    /// How long a connection may take to be made.
    ///
    /// # Default
    /// 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How a silent peer is probed (`SO_KEEPALIVE`).
    ///
    /// # Default
    /// After 10 s of silence, every 5 s, three times. None: not at all, so that a peer that vanished is only noticed by
    /// sending.
    pub fn keepalive(mut self, keepalive: impl Into<Option<KeepAlive>>) -> Self {
        self.keepalive = keepalive.into();
        self
    }

    /// How long sent data may wait for its acknowledgement before the connection is given up (`TCP_USER_TIMEOUT`), in
    /// milliseconds, rounded up. It also bounds the probes of [`keepalive`](Self::keepalive).
    ///
    /// # Default
    /// 20 s. Zero is refused when the lane is opened. None: the system's, which retransmits for some 15 minutes
    /// (`net.ipv4.tcp_retries2`).
    pub fn user_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.user_timeout = timeout.into();
        self
    }

    /// The longest time between two attempts to get something through that is not acknowledged (`TCP_RTO_MAX_MS`), in milliseconds, rounded up to them and by the kernel to its own ticks. It doubles
    /// with each attempt otherwise, so that a path which is back after seconds is found out to be as late again. The end that listens cannot dial anew.
    ///
    /// # Default
    /// 1 s, the least that Linux takes; the most is 120 s. None: the system's (`net.ipv4.tcp_rto_max_ms`, 120 s).
    ///
    /// Before Linux 6.15 there is no such option, and lanes do without; [`TcpSettings::rto_max`](crate::TcpSettings::rto_max) tells.
    ///
    /// # Cost
    /// A packet each second on a lane that gets nothing through. Without a [`user_timeout`](Self::user_timeout), the connection is given up after as many
    /// attempts (`net.ipv4.tcp_retries2`), which are sooner over.
    ///
    /// # Worth
    /// A link that was down for 4 s behind a bridge carried again after 3.1 s where the accepting end sent; with it, after a second at most.
    pub fn rto_max(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.rto_max = longest.into();
        self
    }

    /// Whether a listener may take a port of which connections are still winding down (`SO_REUSEADDR`).
    ///
    /// # Default
    /// On.
    pub fn reuse_address(mut self, on: bool) -> Self {
        self.reuse_address = on;
        self
    }

    /// Whether several listeners of one user may share a port (`SO_REUSEPORT`), each on its own rail; the kernel deals
    /// connections out among them.
    ///
    /// # Default
    /// Off.
    ///
    /// # Cost
    /// A program that is started twice by mistake takes half of the connections and no error tells.
    pub fn reuse_port(mut self, on: bool) -> Self {
        self.reuse_port = on;
        self
    }

    /// How many connections may wait to be accepted; `net.core.somaxconn` cuts it.
    ///
    /// # Default
    /// 1,024.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }
}

impl Default for TcpTransport {
    fn default() -> Self {
        Self::new()
    }
}

/// Probes after 10 s of silence, every 5 s, three times: a peer that vanished is noticed after 25 s.
impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle: Duration::from_secs(10), interval: Duration::from_secs(5), probes: 3 }
    }
}

/// Durations as whole seconds, the kernel's unit for them.
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
