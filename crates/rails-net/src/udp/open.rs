//! Opening UDP sockets.

use super::{arrivals::Arrivals, bursts::Bursts, pacing::Pacer, room::Room, stats::Counters};
use crate::{
    BindEndError, Deviation, Repeated, SocketOptionError, UdpError, UdpOptions, UdpSocket,
    socket::{self, known, prefer, set},
    sys::option::SocketOption,
};
use rails_topo::DataSize;
use socket2::{Domain, Protocol, Socket, Type};
use std::{io, net::SocketAddr, time::Instant};

impl UdpOptions {
    /// Opens a socket at `local`, which is not connected; for port 0 the kernel chooses a port,
    /// which [`UdpSocket::local_addr`] has. A socket at `[::]` carries IPv6 only.
    ///
    /// A device in [`local`](Self::local) also applies here. An address in it must be that of
    /// `local`.
    ///
    /// # Errors
    /// [`UdpError::LocalEnd`] for an address that this machine does not have or that is in use, and
    /// for a wrong device; [`UdpError::Option`] for an option that the kernel refuses.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its I/O driver (`enable_all`).
    ///
    /// # Privileges
    /// `CAP_NET_BIND_SERVICE` below port 1024.
    pub fn bind(&self, local: SocketAddr) -> Result<UdpSocket, UdpError> {
        let socket = self.open(local)?;
        if let Some(device) = self.local.device() {
            socket::bind_device(&socket, device)?;
        }
        if let Some(address) = self.local.address().filter(|address| *address != local.ip()) {
            return Err(BindEndError::Mismatch { local: address, other: local }.into());
        }
        socket::bind_address(&socket, local)?;
        self.finish(socket, local)
    }

    /// Opens a socket from the local end of these options, and connects it to `remote`. No packet
    /// is sent.
    ///
    /// # Errors
    /// [`UdpError::LocalEnd`] for a wrong local end, [`UdpError::Connect`] if no route leads to
    /// `remote`, and [`UdpError::Option`] for an option that the kernel refuses.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its I/O driver (`enable_all`).
    pub fn connect(&self, remote: SocketAddr) -> Result<UdpSocket, UdpError> {
        let socket = self.open(remote)?;
        socket::bind_local(&socket, &self.local, remote)?;
        let socket = self.finish(socket, remote)?;
        socket.connect(remote)?;
        Ok(socket)
    }

    /// Makes a socket with these options, which is bound to nothing yet.
    fn open(&self, address: SocketAddr) -> Result<Socket, UdpError> {
        let failed = |call| move |source| UdpError::Call { call, address, source };
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP));
        let socket = socket.map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        self.set_buffers(&socket)?;
        self.set_bursts(&socket)?;
        prefer("SO_RXQ_OVFL", 1, false, SocketOption::RXQ_OVFL.set(&socket, 1))?;
        match address {
            SocketAddr::V4(_) => self.set_ipv4(&socket)?,
            SocketAddr::V6(_) => self.set_ipv6(&socket)?,
        }
        Ok(socket)
    }

    /// The deviations show sizes that the system refuses or cuts.
    fn set_buffers(&self, socket: &Socket) -> Result<(), UdpError> {
        if let Some(size) = self.send_buffer {
            prefer("SO_SNDBUF", size, false, socket.set_send_buffer_size(c_int(size)))?;
        }
        if let Some(size) = self.receive_buffer {
            prefer("SO_RCVBUF", size, false, socket.set_recv_buffer_size(c_int(size)))?;
        }
        Ok(())
    }

    /// Older kernels do not have the option; the settings read back show it.
    fn set_bursts(&self, socket: &Socket) -> Result<(), UdpError> {
        if self.coalescing {
            match SocketOption::UDP_GRO.set(socket, 1) {
                Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
                result => prefer("UDP_GRO", 1, false, result)?,
            }
        }
        Ok(())
    }

    fn set_ipv4(&self, socket: &Socket) -> Result<(), UdpError> {
        if let Some(routers) = self.hop_limit {
            set("IP_TTL", routers, socket.set_ttl_v4(routers.get().into()))?;
        }
        prefer("IP_TOS", self.ecn as u8, self.asks_for_ecn(), socket.set_tos_v4(self.ecn as u32))?;
        prefer("IP_RECVTOS", 1, self.asks_for_ecn(), socket.set_recv_tos_v4(true))?;
        if let Some(mode) = self.path_mtu_discovery {
            let number = mode.number();
            let result = SocketOption::IP_MTU_DISCOVER.set(socket, number);
            prefer("IP_MTU_DISCOVER", number, self.asks_for_discovery(), result)?;
        }
        Ok(())
    }

    fn set_ipv6(&self, socket: &Socket) -> Result<(), UdpError> {
        set("IPV6_V6ONLY", 1, socket.set_only_v6(true))?;
        if let Some(routers) = self.hop_limit {
            set("IPV6_UNICAST_HOPS", routers, socket.set_unicast_hops_v6(routers.get().into()))?;
        }
        let class = SocketOption::IPV6_TCLASS.set(socket, self.ecn as i32);
        prefer("IPV6_TCLASS", self.ecn as u8, self.asks_for_ecn(), class)?;
        prefer("IPV6_RECVTCLASS", 1, self.asks_for_ecn(), socket.set_recv_tclass_v6(true))?;
        if let Some(mode) = self.path_mtu_discovery {
            let number = mode.number();
            let result = SocketOption::IPV6_MTU_DISCOVER.set(socket, number);
            prefer("IPV6_MTU_DISCOVER", number, self.asks_for_discovery(), result)?;
        }
        Ok(())
    }

    /// Whether the caller has asked for the codepoint: an option at its default only improves the
    /// socket.
    fn asks_for_ecn(&self) -> bool {
        self.ecn != Self::new().ecn
    }

    fn asks_for_discovery(&self) -> bool {
        self.path_mtu_discovery != Self::new().path_mtu_discovery
    }

    /// Gives the socket to the runtime.
    fn finish(&self, socket: Socket, address: SocketAddr) -> Result<UdpSocket, UdpError> {
        let deviations = self.deviations(&socket)?;
        // The option is read and not set: a size on the socket would also cut single datagrams.
        let segmentation = self.segmentation && SocketOption::UDP_SEGMENT.get(&socket).is_ok();
        let failed = |source| UdpError::Call { call: "epoll_ctl", address, source };
        let room = Room::of(&socket).map_err(failed)?;
        let arrivals = Arrivals::of(socket.into()).map_err(failed)?;
        for deviation in &deviations {
            match CHANGED.due(Instant::now(), &deviation.to_string()) {
                Some(left_out) => {
                    tracing::warn!(%address, %deviation, left_out, "the kernel changed an option of a UDP socket");
                }
                None => tracing::debug!(%address, %deviation, "the kernel changed an option of a UDP socket"),
            }
        }
        let socket = UdpSocket {
            arrivals,
            room,
            is_ipv4: address.is_ipv4(),
            deviations,
            bursts: Bursts::new(segmentation),
            pacer: Pacer::new(self.pacing),
            counters: Counters::default(),
            receives_singly: false.into(),
        };
        socket.decide_pacing();
        Ok(socket)
    }

    fn deviations(&self, socket: &Socket) -> Result<Vec<Deviation>, UdpError> {
        // socket(7): "The kernel doubles this value (to allow space for bookkeeping overhead) ..., and this
        // doubled value is returned by getsockopt(2)."
        let half = |call, size: io::Result<usize>| -> Result<_, SocketOptionError> {
            Ok(known(call, size)?.map(|size| DataSize::bytes(size as u64 / 2)))
        };
        let mut deviations = Vec::new();
        if let Some(wanted) = self.send_buffer
            && let Some(got) = half("SO_SNDBUF", socket.send_buffer_size())?
            && got != wanted
        {
            deviations.push(Deviation::SendBuffer { wanted, got });
        }
        if let Some(wanted) = self.receive_buffer
            && let Some(got) = half("SO_RCVBUF", socket.recv_buffer_size())?
            && got != wanted
        {
            deviations.push(Deviation::ReceiveBuffer { wanted, got });
        }
        Ok(deviations)
    }
}

/// Cuts a buffer size to an `int`, which the kernel reads. A larger size is beyond every limit of
/// the kernel.
fn c_int(size: DataSize) -> usize {
    size.as_bytes().min(libc::c_int::MAX as u64) as usize
}

/// The warnings of changed options.
static CHANGED: Repeated = Repeated::new();
