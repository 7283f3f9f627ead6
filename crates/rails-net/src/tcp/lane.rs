//! One TCP connection on one rail.

use super::{
    busy_poll::BusyPoll,
    socket_options,
    zero_copy::{ZeroCopySender, ZeroCopyStats},
};
use crate::{
    KeepAlive, Lane, Repeated, SocketOptionError, StatsError, TcpStats, TcpTransport, interfaces, socket,
    sys::option::SocketOption,
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout},
};
use rails_topo::DataSize;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds, DurationMilliSeconds};
use socket2::SockRef;
use std::{
    fmt,
    future::poll_fn,
    io,
    net::{Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    sync::{PoisonError, RwLock, RwLockReadGuard},
    time::{Duration, Instant},
};
use tokio::{io::Interest, net::TcpStream};

/// A TCP connection with the options of a [`TcpTransport`]. Options that the kernel may change are
/// read back.
#[derive(Debug)]
pub struct TcpLane {
    /// Replaced when another runtime takes the lane over.
    stream: RwLock<TcpStream>,
    local: SocketAddr,
    peer: SocketAddr,
    deviations: Vec<Deviation>,
    pub(crate) busy_poll: Option<BusyPoll>,
    /// The zero-copy sender, if the options ask for one.
    pub(crate) zero_copy: Option<ZeroCopySender>,
}

/// An option whose value the kernel has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "option", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Deviation {
    /// `SO_SNDBUF`: cut by `net.core.wmem_max`, or raised to the kernel's minimum.
    SendBuffer {
        /// The requested value.
        #[serde(rename = "wanted_bytes")]
        wanted: DataSize,
        /// The value read back.
        #[serde(rename = "got_bytes")]
        got: DataSize,
    },
    /// `SO_RCVBUF`: cut by `net.core.rmem_max`, or raised to the kernel's minimum.
    ReceiveBuffer {
        /// The requested value.
        #[serde(rename = "wanted_bytes")]
        wanted: DataSize,
        /// The value read back.
        #[serde(rename = "got_bytes")]
        got: DataSize,
    },
    /// `TCP_CONGESTION`: a route to the peer prescribes another algorithm (`ip route ... congctl`).
    Congestion {
        /// The requested value.
        wanted: String,
        /// The value read back.
        got: String,
    },
}

/// A lane's options, read from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TcpSettings {
    /// Whether small writes are sent at once.
    pub no_delay: bool,
    /// Congestion control; `None` where a filter keeps it from being read.
    pub congestion: Option<String>,
    /// The size of the send buffer with the kernel's own bookkeeping: twice the requested size, or
    /// the tuned one. `None` where a filter keeps it from being read.
    #[serde(rename = "send_buffer_bytes")]
    pub send_buffer: Option<DataSize>,
    /// The size of the receive buffer with the kernel's own bookkeeping: twice the requested size,
    /// or the tuned one. `None` where a filter keeps it from being read.
    #[serde(rename = "receive_buffer_bytes")]
    pub receive_buffer: Option<DataSize>,
    /// The unsent bytes at which the socket stops being writable; `None` is the system's
    /// `net.ipv4.tcp_notsent_lowat`.
    #[serde(rename = "not_sent_lowat_bytes")]
    pub not_sent_lowat: Option<DataSize>,
    /// The probes of a silent peer; `None` is none.
    pub keepalive: Option<KeepAlive>,
    /// The time that sent data may wait for its acknowledgement; `None` is the system's time.
    #[serde(rename = "user_timeout_ms", serialize_with = "As::<Option<DurationMilliSeconds>>::serialize")]
    pub user_timeout: Option<Duration>,
    /// The longest retransmission timeout; `None` if the kernel (before Linux 6.15) does not have
    /// the option, and doubles the timeout up to 2 minutes.
    #[serde(rename = "rto_max_ms", serialize_with = "As::<Option<DurationMilliSeconds>>::serialize")]
    pub rto_max: Option<Duration>,
    /// Whether the lane may send without copies.
    pub zero_copy: bool,
    /// The time that reads poll the NIC; `None` is not at all.
    #[serde(rename = "busy_poll_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub busy_poll: Option<Duration>,
    /// The interface that the lane is bound to; `None` is none.
    pub device: Option<String>,
}

impl TcpLane {
    pub(crate) fn new(
        stream: TcpStream,
        local: SocketAddr,
        peer: SocketAddr,
        options: &TcpTransport,
    ) -> Result<Self, SocketOptionError> {
        let deviations = deviations(&SockRef::from(&stream), options)?;
        for deviation in &deviations {
            // The kernel changes the options of every lane alike, so the warning is rate limited.
            match CHANGED.due(Instant::now(), &deviation.to_string()) {
                Some(left_out) => {
                    tracing::warn!(%local, %peer, %deviation, left_out, "the kernel changed an option of a lane");
                }
                None => tracing::debug!(%local, %peer, %deviation, "the kernel changed an option of a lane"),
            }
        }
        let busy_poll = options.busy_poll.map(BusyPoll::new);
        let zero_copy = match options.zero_copy {
            Some(zero_copy) => {
                socket_options::allow_zero_copy(&SockRef::from(&stream))?;
                let failed = |(call, source)| SocketOptionError { call, option: "SO_ZEROCOPY", value: None, source };
                Some(ZeroCopySender::new(stream.as_fd(), zero_copy).map_err(failed)?)
            }
            None => None,
        };
        Ok(Self { stream: RwLock::new(stream), local, peer, deviations, busy_poll, zero_copy })
    }

    /// The local address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// The options whose values the kernel had changed when the lane was opened.
    pub fn deviations(&self) -> &[Deviation] {
        &self.deviations
    }

    /// Reads the present options from the kernel.
    ///
    /// # Errors
    /// [`StatsError::Option`] names the option that could not be read.
    pub fn settings(&self) -> Result<TcpSettings, StatsError> {
        settings(&SockRef::from(&*self.stream())).map_err(|source| self.unreadable(source))
    }

    /// Reads the kernel's present figures of the connection.
    ///
    /// # Errors
    /// [`StatsError::Call`] if the kernel refuses, [`StatsError::Other`] if it returns fewer fields
    /// than every Linux has.
    pub fn stats(&self) -> Result<TcpStats, StatsError> {
        TcpStats::read(&*self.stream(), self.local, self.peer)
    }

    /// The counters of sending without copies; `None` if the lane copies
    /// ([`TcpTransport::zero_copy`]).
    pub fn zero_copy_stats(&self) -> Option<ZeroCopyStats> {
        self.zero_copy.as_ref().map(ZeroCopySender::stats)
    }

    /// The interface that this end's address is on, or that the lane is bound to; `None` if no
    /// interface lists the address, as with most of 127.0.0.0/8.
    ///
    /// Unless the lane is bound to a device, the routes may send its packets by another interface.
    ///
    /// # Errors
    /// [`StatsError::Call`] if the interfaces cannot be listed.
    pub fn interface(&self) -> Result<Option<String>, StatsError> {
        let device = socket::bound_device(&SockRef::from(&*self.stream())).map_err(|source| self.unreadable(source))?;
        if device.is_some() {
            return Ok(device);
        }
        let (local, peer) = (self.local, self.peer);
        interfaces::name_with_address(local.ip()).map_err(|source| StatsError::Call {
            call: "getifaddrs",
            local,
            peer,
            source,
        })
    }

    /// The index of that [`interface`](Self::interface), by which [`LinkWatch`](crate::LinkWatch)
    /// names links; `None` if there is none, or it is unknown.
    pub fn link_index(&self) -> Option<u32> {
        let name = self.interface().ok().flatten()?;
        interfaces::index_of(&name)
    }

    /// The stream, for reading and writing.
    pub fn get_mut(&mut self) -> &mut TcpStream {
        self.stream.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stream(&self) -> RwLockReadGuard<'_, TcpStream> {
        self.stream.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the socket with the calling thread's runtime (`dup(2)`: a runtime knows a socket
    /// by its descriptor). After an error nothing has changed.
    pub(super) fn register_here(&self) -> io::Result<()> {
        let copy = self.stream().as_fd().try_clone_to_owned()?;
        let stream = TcpStream::from_std(copy.into())?;
        *self.stream.write().unwrap_or_else(PoisonError::into_inner) = stream;
        Ok(())
    }

    /// The stream without the lane.
    pub fn into_stream(self) -> TcpStream {
        if let Some(zero_copy) = &self.zero_copy {
            zero_copy.detach();
        }
        self.stream.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the number of bytes that may wait unsent in the kernel before the socket accepts no
    /// more (`TCP_NOTSENT_LOWAT`, tcp(7)), for a lane whose speed differs from the expected one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_not_sent_lowat(&self, size: DataSize) -> io::Result<()> {
        let bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX).max(1);
        SockRef::from(&*self.stream()).set_tcp_notsent_lowat(bytes)
    }

    /// Changes the minimum number of arrived bytes for which the socket is readable (`SO_RCVLOWAT`,
    /// socket(7)), up to an eighth of the present receive buffer (`SO_RCVBUF`): the bytes that wait
    /// take the peer's window, and the kernel lets the buffer grow with the bytes that are read in
    /// a round trip.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_receive_low_water(&self, size: DataSize) -> io::Result<()> {
        let stream = self.stream();
        let most = SockRef::from(&*stream).recv_buffer_size()? / LOW_WATERS;
        let bytes = socket_options::c_int(size).min(most);
        SocketOption::RCVLOWAT.set(&*stream, bytes as libc::c_int)
    }

    /// Waits until the kernel takes more bytes: the socket's buffer has room, and fewer bytes wait
    /// unsent than half of [`not_sent_lowat`](TcpTransport::not_sent_lowat) (`poll(2)` with
    /// `POLLOUT`; `tcp_stream_memory_free` in include/net/tcp.h). So the caller can choose the
    /// bytes at the last moment.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The kernel's. A connection that was reset has room, so that the next send gives the error.
    pub async fn room(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_room(context)).await
    }

    /// Checks for room. Without room it gives `WouldBlock`, and tokio takes the socket for writable
    /// only after the kernel's next event.
    pub(crate) fn try_room(&self) -> io::Result<()> {
        // tokio remembers that the socket was writable until a call reports that it is not, and the kernel
        // sends an event only after a call that found no room.
        let stream = self.stream();
        stream.try_io(Interest::WRITABLE, || ask_for_room(stream.as_fd()))
    }

    /// Closes the sending side: the peer reads to the end of the sent bytes (`shutdown(2)` with
    /// `SHUT_WR`).
    ///
    /// # Errors
    /// The kernel's. If the connection has ended, the error says why.
    pub fn close_write(&self) -> io::Result<()> {
        let stream = self.stream();
        let socket = SockRef::from(&*stream);
        match socket.shutdown(Shutdown::Write) {
            // shutdown(2) says only that there is no connection any more.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(socket.take_error()?.unwrap_or(error)),
            outcome => outcome,
        }
    }

    fn unreadable(&self, source: SocketOptionError) -> StatsError {
        StatsError::Option { local: self.local, peer: self.peer, source: Box::new(source) }
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, wanted, got) = match self {
            Self::SendBuffer { wanted, got } => {
                write!(f, "a send buffer of {wanted} became {got}")?;
                ("net.core.wmem_max", wanted, got)
            }
            Self::ReceiveBuffer { wanted, got } => {
                write!(f, "a receive buffer of {wanted} became {got}")?;
                ("net.core.rmem_max", wanted, got)
            }
            Self::Congestion { wanted, got } => return write!(f, "congestion control {wanted} became {got}"),
        };
        // The kernel's minimum has no setting.
        if got < wanted { write!(f, "; `sysctl {limit}={}` allows it", wanted.as_bytes()) } else { Ok(()) }
    }
}

/// The size of the receive buffer is at least this many low-water marks.
const LOW_WATERS: usize = 8;

fn ask_for_room(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut sockets = [PollFd::new(socket, PollFlags::POLLOUT)];
    loop {
        return match nix::poll::poll(&mut sockets, PollTimeout::ZERO) {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => Ok(()),
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno.into()),
        };
    }
}

fn deviations(socket: &SockRef<'_>, options: &TcpTransport) -> Result<Vec<Deviation>, SocketOptionError> {
    // socket(7): "The kernel doubles this value (to allow space for bookkeeping overhead) ..., and this
    // doubled value is returned by getsockopt(2)."
    let half = |size: DataSize| DataSize::bytes(size.as_bytes() / 2);
    let mut deviations = Vec::new();
    if let Some(wanted) = options.send_buffer
        && let Some(got) = socket_options::send_buffer(socket)?.map(half)
        && got != wanted
    {
        deviations.push(Deviation::SendBuffer { wanted, got });
    }
    if let Some(wanted) = options.receive_buffer
        && let Some(got) = socket_options::receive_buffer(socket)?.map(half)
        && got != wanted
    {
        deviations.push(Deviation::ReceiveBuffer { wanted, got });
    }
    if let Some(wanted) = &options.congestion
        && let Some(got) = socket_options::congestion(socket)?
        && got != *wanted
    {
        deviations.push(Deviation::Congestion { wanted: wanted.clone(), got });
    }
    Ok(deviations)
}

fn settings(socket: &SockRef<'_>) -> Result<TcpSettings, SocketOptionError> {
    let keepalive = match socket::get("SO_KEEPALIVE", socket.keepalive())? {
        true => Some(KeepAlive {
            idle: socket::get("TCP_KEEPIDLE", socket.tcp_keepalive_time())?,
            interval: socket::get("TCP_KEEPINTVL", socket.tcp_keepalive_interval())?,
            probes: socket::get("TCP_KEEPCNT", socket.tcp_keepalive_retries())?,
        }),
        false => None,
    };
    Ok(TcpSettings {
        no_delay: socket::get("TCP_NODELAY", socket.tcp_nodelay())?,
        congestion: socket_options::congestion(socket)?,
        send_buffer: socket_options::send_buffer(socket)?,
        receive_buffer: socket_options::receive_buffer(socket)?,
        not_sent_lowat: socket_options::not_sent_lowat(socket)?,
        keepalive,
        user_timeout: socket::get("TCP_USER_TIMEOUT", socket.tcp_user_timeout())?,
        rto_max: socket_options::rto_max(socket)?,
        zero_copy: socket_options::zero_copy(socket)?,
        busy_poll: socket_options::busy_poll(socket)?,
        device: socket::bound_device(socket)?,
    })
}

/// The warnings of changed options.
static CHANGED: Repeated = Repeated::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_allow_a_buffer() {
        let [small, large] = [4 << 20, 8 << 20].map(DataSize::bytes);
        for (deviation, said) in [
            (
                Deviation::ReceiveBuffer { wanted: large, got: small },
                "a receive buffer of 8 MiB became 4 MiB; `sysctl net.core.rmem_max=8388608` allows it",
            ),
            (
                Deviation::SendBuffer { wanted: large, got: small },
                "a send buffer of 8 MiB became 4 MiB; `sysctl net.core.wmem_max=8388608` allows it",
            ),
            (Deviation::SendBuffer { wanted: small, got: large }, "a send buffer of 4 MiB became 8 MiB"),
        ] {
            assert_eq!(deviation.to_string(), said);
        }
    }
}
