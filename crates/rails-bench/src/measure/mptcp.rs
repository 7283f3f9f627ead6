//! One socket of the kernel's Multipath TCP from memory to memory: an ordinary tokio program whose
//! sockets have another protocol number. The path manager (`ip mptcp`) decides which subflows the
//! kernel adds; they are invisible here.
//!
//! References: RFC 8684; `Documentation/networking/mptcp.rst`.

use super::{
    Amount, Counter, Received, Watch,
    plain::{Receipt, approach, give, take},
    report::{Measurement, Transport},
    series::Recorder,
};
use crate::{
    admission::{Admission, StreamListener, wait_out},
    purpose::{self, Purpose},
    side::{Baseline, LaneReport, LaneReportOn, Side},
};
use anyhow::{Context, Result, ensure};
use rails_multirail::{ListenerClosed, Rail, RailId, Rails};
use rails_net::AcceptError;
use rails_topo::Topology;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Instant,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

/// Sends from the first rail's address to `remote`, and returns the measurement.
///
/// # Errors
/// The connection's failure; without MPTCP in the kernel, that the protocol is not supported.
pub(crate) async fn send(
    rails: &Rails,
    remote: SocketAddr,
    congestion: Option<String>,
    amount: Amount,
    topology: &Topology,
) -> Result<Measurement> {
    let baseline = Baseline::take(rails);
    let rail = first(rails)?;
    let connecting = connect(rail, remote, congestion);
    let flow = rail.runtime().spawn(async move {
        let mut stream = connecting.await?;
        let report = report(&stream)?;
        approach(&mut stream).await?;
        let (bytes_sent, receipt) = give(&mut stream, amount).await?;
        anyhow::Ok((LaneReport { bytes_sent, ..report }, receipt))
    });
    let (report, receipt) = flow.await?.context("the MPTCP connection failed")?;
    let receipt: Receipt = serde_json::from_slice(&receipt).context("the receiver's report cannot be read")?;
    let bytes_written = report.bytes_sent;
    let lanes = [LaneReportOn { rail: RailId(0), report }];
    Ok(Measurement {
        transport: Transport::Mptcp,
        security: None,
        bytes_written,
        bytes: receipt.count.bytes,
        seconds: receipt.count.seconds(),
        receiver_goodput_bits_per_second: receipt.goodput_bits_per_second,
        sender: Side::since(&baseline, topology, rails, &lanes),
        receiver: receipt.side.context("the receiver did not report its side")?,
        stats: None,
    })
}

/// A socket that waits for MPTCP connections.
#[derive(Debug)]
pub(crate) struct Listener(std::net::TcpListener);

/// The incoming connections, each of which waits for its turn.
pub(crate) struct Sink {
    guests: Admission<TcpStream>,
    zero: Instant,
}

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// The kernel's refusal; [`io::ErrorKind::Unsupported`] or `EPROTONOSUPPORT` if it has no
    /// MPTCP.
    pub(crate) fn bind(address: SocketAddr, congestion: Option<&str>) -> io::Result<Self> {
        let socket = socket(address, congestion)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(16)?;
        Ok(Self(socket.into()))
    }

    /// The listening address.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Greets every connection, on the calling runtime.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn greeted(self, purpose: Purpose) -> Result<Admission<TcpStream>> {
        let local = self.0.local_addr()?;
        Ok(Admission::of(Bound { listener: TcpListener::from_std(self.0)?, local }, purpose))
    }
}

/// A listener, and its address for errors.
struct Bound {
    listener: TcpListener,
    local: SocketAddr,
}

impl StreamListener for Bound {
    type Stream = TcpStream;

    async fn accept(&self) -> Result<(TcpStream, IpAddr), ListenerClosed> {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return Ok((stream, peer.ip())),
                Err(source) => wait_out(AcceptError::Accept { local: self.local, source }).await?,
            }
        }
    }
}

impl Sink {
    /// Greets the connections of a listener on the first rail.
    ///
    /// # Errors
    /// The kernel's refusal, or that the rail has stopped.
    pub(crate) async fn of(listener: Listener, rails: &Rails) -> Result<Self> {
        let guests = first(rails)?.runtime().spawn(async { listener.greeted(Purpose::Serve) }).await??;
        Ok(Self { guests, zero: Instant::now() })
    }

    /// Takes one connection on the first rail, counts, and reports to the sender.
    ///
    /// # Errors
    /// The connection's failure.
    pub(crate) async fn receive(&mut self, rails: &Rails, topology: &Topology, watch: Watch) -> Result<Received> {
        let (rail, zero) = (first(rails)?, self.zero);
        let mut stream = self.guests.next().await?;
        let baseline = Baseline::take(rails);
        let counting = rail.runtime().spawn(async move {
            let report = report(&stream)?;
            purpose::give_turn(&mut stream).await?;
            let counter = Counter::start(zero).recorded(watch.interval.map(Recorder::start)).checked(watch.check);
            let counter = take(&mut stream, counter).await?;
            let bytes_received = counter.count().bytes;
            anyhow::Ok((counter, LaneReport { bytes_received, ..report }, stream))
        });
        let (counter, report, mut stream) = counting.await?.context("the MPTCP connection failed")?;
        let count = counter.count();
        let side = Side::since(&baseline, topology, rails, &[LaneReportOn { rail: RailId(0), report }]);
        let goodput_bits_per_second = count.bits_per_second();
        let receipt = Receipt { count, side: Some(side.clone()), goodput_bits_per_second };
        let receipt = serde_json::to_vec(&receipt)?;
        let told = rail.runtime().spawn(async move {
            stream.write_all(&receipt).await?;
            stream.shutdown().await
        });
        told.await?.context("the sender went away before it had the report")?;
        Ok(Received { count, goodput_bits_per_second, side, series: counter.series(), stats: None })
    }
}

/// Connects from a rail's address, on the calling runtime.
///
/// # Errors
/// The kernel's refusal; `EPROTONOSUPPORT` if it has no MPTCP.
pub(crate) fn connect(
    rail: &Rail,
    remote: SocketAddr,
    congestion: Option<String>,
) -> impl Future<Output = io::Result<TcpStream>> + Send + use<> {
    let local = rail.planned().address.map(|address| SocketAddr::new(address, 0));
    async move {
        let socket = socket(remote, congestion.as_deref())?;
        if let Some(local) = local {
            socket.bind(&local.into())?;
        }
        let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
        socket.connect(remote).await
    }
}

fn socket(address: SocketAddr, congestion: Option<&str>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::MPTCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(name) = congestion {
        // The kernel passes the option on to every subflow (net/mptcp/sockopt.c,
        // mptcp_setsockopt_sol_tcp_congestion).
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    Ok(socket)
}

/// The report at the start: a closed socket does not know its peer.
fn report(stream: &TcpStream) -> io::Result<LaneReport> {
    let congestion = SockRef::from(stream).tcp_congestion()?;
    let name = String::from_utf8_lossy(&congestion).trim_end_matches('\0').to_owned();
    let report = LaneReport::new((stream.local_addr()?, stream.peer_addr()?), (0, 0), None);
    Ok(LaneReport { congestion_control: Some(name), ..report })
}

fn first(rails: &Rails) -> Result<&Rail> {
    ensure!(!rails.is_empty(), "no rails");
    Ok(&rails[RailId(0)])
}
