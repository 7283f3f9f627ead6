//! Sockets that wait for the flows of one conversation.

use super::{Flow, FlowKind, mptcp};
use crate::conversation::{Door, Guest, Reply, Token};
use anyhow::{Context, Result, ensure};
use rails_multirail::{Rail, RailId, Rails};
use rails_net::{AcceptError, ListenError, Repeated, TcpAcceptor};
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};

/// Sockets that wait for flows, one on each address, all of one port.
pub(crate) struct Listeners {
    door: Door,
    arriving: mpsc::Receiver<Arrived>,
}

/// A flow that has shown the token.
struct Arrived {
    rail: RailId,
    number: u16,
    flow: Flow,
}

/// A listening socket.
enum Acceptor {
    Plain(TcpAcceptor),
    Mptcp(TcpListener),
}

impl Listeners {
    /// Listens on each address, on the rail of the same number, at a port that the kernel chooses.
    ///
    /// # Errors
    /// The reason why an address cannot be listened on.
    pub(crate) async fn bind(kind: FlowKind, addresses: &[SocketAddr], rails: &Rails) -> Result<Self> {
        ensure!(!rails.is_empty() && !addresses.is_empty(), "it listens on no address of TCP");
        // The port that one address has may be taken at another.
        for _ in 1..TRIES {
            match Self::try_bind(&kind, addresses, rails).await {
                Err(error) if is_taken(&error) => continue,
                bound => return bound,
            }
        }
        Self::try_bind(&kind, addresses, rails).await
    }

    async fn try_bind(kind: &FlowKind, addresses: &[SocketAddr], rails: &Rails) -> Result<Self> {
        let token = Token::random().context("no random numbers")?;
        let (found, arriving) = mpsc::channel(1);
        let mut port = 0;
        for (index, mut address) in addresses.iter().copied().enumerate() {
            let rail = RailId(index % rails.len());
            address.set_port(port);
            let acceptor = Acceptor::bind(kind, &rails[rail], address).await?;
            port = acceptor.port()?;
            // The task ends with the wait for its flows.
            drop(rails[rail].runtime().spawn(acceptor.accept_all(rail, token, found.clone())));
        }
        Ok(Self { door: Door { port: Some(port), token }, arriving })
    }

    /// Tells the guest where its flows go, and waits for `count` of them, in their order.
    ///
    /// # Errors
    /// The end of the guest's session.
    pub(crate) async fn gather(mut self, guest: &mut Guest, count: usize) -> Result<Vec<(RailId, Flow)>> {
        guest.control.say(&Reply::Open(self.door)).await?;
        let mut flows: Vec<Option<(RailId, Flow)>> = (0..count).map(|_| None).collect();
        while flows.iter().any(Option::is_none) {
            let arrived = tokio::select! {
                arrived = self.arriving.recv() => arrived.context("no flow can be accepted any more")?,
                left = guest.session.closed() => return Err(left).context("the sender opened too few flows"),
            };
            match flows.get_mut(usize::from(arrived.number)) {
                Some(place @ None) => *place = Some((arrived.rail, arrived.flow)),
                // Another number, or one that came before: the flow is closed.
                _ => tracing::warn!(number = arrived.number, "a flow of a number that is not awaited"),
            }
        }
        Ok(flows.into_iter().flatten().collect())
    }
}

impl Acceptor {
    /// Listens on an address, on the rail's runtime.
    async fn bind(kind: &FlowKind, rail: &Rail, address: SocketAddr) -> Result<Self> {
        let kind = kind.clone();
        let bound = rail.runtime().spawn(async move {
            Ok(match kind {
                FlowKind::Plain(tcp) => Self::Plain(tcp.listen(address)?),
                FlowKind::Mptcp(congestion) => {
                    let bound = mptcp::listen(address, congestion.as_deref());
                    Self::Mptcp(bound.with_context(|| format!("cannot listen on {address} by MPTCP"))?)
                }
            })
        });
        bound.await?
    }

    fn port(&self) -> io::Result<u16> {
        match self {
            Self::Plain(acceptor) => Ok(acceptor.local_addr().port()),
            Self::Mptcp(listener) => Ok(listener.local_addr()?.port()),
        }
    }

    /// Accepts flows for as long as somebody waits for them. Those that do not show the token are
    /// closed.
    async fn accept_all(self, rail: RailId, token: Token, found: mpsc::Sender<Arrived>) {
        let (mut hearing, places) = (JoinSet::new(), Arc::new(Semaphore::new(MAX_HEARD)));
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await.expect("the places are never closed");
                (self.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                Some(_) = hearing.join_next() => continue,
                () = found.closed() => return,
            };
            let mut flow = match accepted {
                Ok(flow) => flow,
                Err(error) => match wait_out(error).await {
                    true => continue,
                    false => return,
                },
            };
            let found = found.clone();
            hearing.spawn(async move {
                let _place = place;
                match timeout(PATIENCE, flow.hear()).await {
                    Ok(Ok((shown, number))) if shown == token => {
                        // The send fails if nobody waits any more.
                        let _ = found.send(Arrived { rail, number, flow }).await;
                    }
                    _ => tracing::debug!("a connection that belongs to no measurement was closed"),
                }
            });
        }
    }

    async fn accept(&self) -> Result<Flow, AcceptError> {
        match self {
            Self::Plain(acceptor) => Ok(Flow::Plain(Box::new(acceptor.accept().await?))),
            Self::Mptcp(listener) => {
                let accepted = async { Flow::over_mptcp(listener.accept().await?.0) };
                let local = listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
                accepted.await.map_err(|source| AcceptError::Accept { local, source })
            }
        }
    }
}

/// Whether an address was taken already.
fn is_taken(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<ListenError>() {
        Some(ListenError::Call { source, .. }) => Some(source.kind()),
        _ => cause.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    error.chain().any(|cause| kind(cause) == Some(ErrorKind::AddrInUse))
}

/// Pauses after a transient error of an accept. Returns whether another can be tried.
async fn wait_out(error: AcceptError) -> bool {
    let is_transient = error.is_transient();
    let error = format!("{:#}", anyhow::Error::new(error));
    if let Some(left_out) = SHORTAGES.due(Instant::now(), &error) {
        tracing::warn!(error, left_out, "a connection was not accepted");
    }
    if is_transient {
        // Without a free descriptor, an immediate retry would spin.
        sleep(PAUSE).await;
    }
    is_transient
}

/// The logged reasons why no connection was accepted.
static SHORTAGES: Repeated = Repeated::new();
/// How often a port is sought that is free at every address.
const TRIES: usize = 16;
/// The limit on connections of one listener that have not shown their token.
const MAX_HEARD: usize = 64;
/// The time that a connection has to show its token.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);
