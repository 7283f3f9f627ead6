//! Serving: other nodes read what this one knows.

use crate::{
    library::Peer,
    link::{over_celeritas, over_rails, serve},
    site::Site,
};
use rails_celeritas::{CeleritasListener, OpenConnectionError};
use rails_multirail::{
    BindListenerError, LaneAddress, MultiRailListener, RailRequest, Rails, ResolveError, Scheme, Security,
    StreamOptions,
    planner::{LocalEnd, PlanError, RejectedNic, plan_rails},
    runtime::RuntimeError,
};
use rails_net::TcpTransport;
use rails_topo::{Bandwidth, DataSize, DetectError, Topology};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinHandle};

/// A listener for nodes that read the datasets of a [`Site`]. Dropping it ends the links.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<LaneAddress>,
    celeritas: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
    links: Arc<tokio::sync::Mutex<tokio::task::JoinSet<()>>>,
    _rails: Option<Rails>,
}

/// The options of a [`Server`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ServerOptions {
    security: Option<Security>,
    rate: Option<Bandwidth>,
    max_links: usize,
    window: DataSize,
    congestion: Option<String>,
    patience: Duration,
}

/// Why a node cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A host name is unknown.
    #[error("cannot find the address to listen on")]
    Resolve(#[from] ResolveError),
    /// There is no address to listen on.
    #[error("there is no address to listen on")]
    NoAddress,
    /// Other machines could read without proof.
    #[error("{address} is reached by other machines, and it is not said how links are protected")]
    Security {
        /// The address.
        address: LaneAddress,
    },
    /// The transport of an address is unknown.
    #[error("{address}: links come over `tcp://` and `celeritas://`")]
    Scheme {
        /// The address.
        address: LaneAddress,
    },
    /// The machine cannot be read.
    #[error("cannot read this machine's topology")]
    Topology(#[from] DetectError),
    /// No rails can be planned.
    #[error("cannot plan rails")]
    Plan(#[from] PlanError),
    /// A rail's thread cannot be started.
    #[error("cannot start the rails")]
    Rails(#[from] RuntimeError),
    /// An address is taken, or not this machine's.
    #[error("cannot listen")]
    Listen(#[from] BindListenerError),
    /// An address of Celeritas is taken, or not this machine's.
    #[error("cannot listen for Celeritas on {address}")]
    Celeritas {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        error: Box<OpenConnectionError>,
    },
}

impl ServerOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            security: None,
            rate: None,
            max_links: 256,
            window: DataSize::bytes(32 << 20),
            patience: Duration::from_secs(30),
            congestion: None,
        }
    }

    /// How links are authenticated and protected. Default: addresses of this machine alone are
    /// [insecure](Security::insecure), and others are an error.
    pub fn security(self, security: impl Into<Security>) -> Self {
        Self { security: Some(security.into()), ..self }
    }

    /// The rate at which this end sends over Celeritas, for a path that no other sender uses.
    /// Default: the rate is searched for, and makes way for others.
    pub fn rate(self, rate: Bandwidth) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The links that are served at the same time at most. Default: 256.
    pub fn max_links(self, links: usize) -> Self {
        Self { max_links: links, ..self }
    }

    /// The bytes that may be on their way to a peer. Default: 32 MiB, or as much as the peer takes.
    pub fn window(self, window: DataSize) -> Self {
        Self { window, ..self }
    }

    /// The congestion control of TCP by the kernel's name, such as `cubic`, for the blocks that are
    /// sent; one that the kernel does not have, or does not allow, ends each link. Default: the
    /// system's.
    ///
    /// BBR, the default of some systems, loses a tenth of its packets where the queue of a path is
    /// shorter than its round trip, and CUBIC nearly none; on a path that loses packets for other
    /// reasons, CUBIC is slow, and BBR and Celeritas are not.
    pub fn congestion(self, name: impl Into<String>) -> Self {
        Self { congestion: Some(name.into()), ..self }
    }

    /// How long a link over rails whose lanes are all lost is kept, with the memory for what is on
    /// its way. Default: 30 s. Its reader goes on with it if the path comes back meanwhile.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Listens on addresses such as `10.0.0.1:5726`, `[::]:5726` and `celeritas://10.0.0.1:5726`,
    /// and serves the datasets of a site.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn bind(site: &Site, addresses: &[String], options: ServerOptions) -> Result<Self, ServeError> {
        let addresses = rails_multirail::resolve(addresses).await?.concat();
        let first = *addresses.first().ok_or(ServeError::NoAddress)?;
        let security = match options.security.clone() {
            Some(security) => security,
            None => match addresses.iter().find(|address| !address.socket.ip().is_loopback()) {
                None => Security::insecure(),
                Some(address) => return Err(ServeError::Security { address: *address }),
            },
        };
        let known = |scheme: Scheme| scheme == Scheme::TCP || scheme.to_string() == CELERITAS;
        if let Some(address) = addresses.iter().find(|address| !known(address.scheme)) {
            return Err(ServeError::Scheme { address: *address });
        }
        let (tcp, celeritas): (Vec<LaneAddress>, Vec<LaneAddress>) =
            addresses.iter().copied().partition(|address| address.scheme == Scheme::TCP);
        let rails = rails_for(&addresses, first)?;
        let mut server = Self {
            addresses: Vec::new(),
            celeritas: Vec::new(),
            tasks: Vec::new(),
            links: Arc::default(),
            _rails: Some(rails.clone()),
        };
        let gate = Arc::new(Gate {
            site: site.clone(),
            rails: rails.clone(),
            room: Arc::new(Semaphore::new(options.max_links)),
            turn: AtomicUsize::new(0),
            links: Arc::clone(&server.links),
        });
        if !tcp.is_empty() {
            let stream = StreamOptions::new(security.clone()).window(options.window.as_bytes());
            let stream = stream.outage_limit(options.patience);
            let stream = stream.transport(TcpTransport::new().congestion(options.congestion.as_deref()));
            let listener = MultiRailListener::bind(&rails, &tcp[..], &stream).await?;
            server.addresses = listener.local_addrs().to_vec();
            server.tasks.push(tokio::spawn(accept_rails(Arc::clone(&gate), listener)));
        }
        for address in celeritas {
            let site_options = crate::SiteOptions { rate: options.rate, window: options.window, ..Default::default() };
            let listener = site_options.celeritas(&security).listen(address.socket);
            let listener =
                listener.map_err(|error| ServeError::Celeritas { address: address.socket, error: error.into() })?;
            server.celeritas.push(listener.local_addr());
            server.tasks.push(tokio::spawn(accept_celeritas(Arc::clone(&gate), listener)));
        }
        Ok(server)
    }

    /// The addresses for [`Site::open`], each without a dataset: one for all lanes, and one for
    /// each address of Celeritas.
    pub fn site_addresses(&self) -> Vec<String> {
        let lanes: Vec<String> = self.addresses.iter().map(|address| address.socket.to_string()).collect();
        let rails = (!lanes.is_empty()).then(|| format!("lram://{}", lanes.join("+")));
        let celeritas = self.celeritas.iter().map(|address| format!("lram+celeritas://{address}"));
        rails.into_iter().chain(celeritas).collect()
    }

    /// Waits until the listeners have ended, which they do only if their rails stop.
    pub async fn closed(&mut self) {
        for task in &mut self.tasks {
            // A task that panicked listens no more either.
            let _ = task.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Where links come in.
struct Gate {
    site: Site,
    rails: Rails,
    room: Arc<Semaphore>,
    turn: AtomicUsize,
    links: Arc<tokio::sync::Mutex<tokio::task::JoinSet<()>>>,
}

async fn accept_rails(gate: Arc<Gate>, listener: MultiRailListener) {
    while let Ok(stream) = listener.accept().await {
        let peer = stream.peer_addr().map_or_else(|_| "a peer".to_owned(), |address| address.to_string());
        let key = key_of(stream.peer_certificates());
        match stream.into_messages() {
            Ok(messages) => gate.serve(peer, key, over_rails(messages)).await,
            Err(error) => tracing::warn!(peer, %error, "a stream carries no messages"),
        }
    }
}

async fn accept_celeritas(gate: Arc<Gate>, listener: CeleritasListener) {
    while let Ok(connection) = listener.accept().await {
        let peer = connection.peer_addr().to_string();
        gate.serve(peer, None, over_celeritas(connection)).await;
    }
}

impl Gate {
    /// Serves a link in a task of its own.
    async fn serve(
        self: &Arc<Self>,
        peer: String,
        key: Option<String>,
        (sender, receiver): (crate::link::LinkSender, crate::link::LinkReceiver),
    ) {
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            tracing::warn!(peer, "there are as many links as are served, and one more is refused");
            return;
        };
        let library = Arc::clone(self.site.library());
        let rail = self.turn.fetch_add(1, Ordering::Relaxed) % self.rails.len().max(1);
        let runtime = self.rails.iter().nth(rail).map(|rail| rail.runtime().handle().clone());
        let link = async move {
            let _place = place;
            let _counted = library.count_link();
            tracing::info!(peer, "a link begins");
            let end = serve(library.node(), &library, Peer::far(key), sender, receiver).await;
            tracing::info!(peer, end, "a link has ended");
        };
        let mut links = self.links.lock().await;
        while links.try_join_next().is_some() {}
        match runtime {
            Some(runtime) => links.spawn_on(link, &runtime),
            None => links.spawn(link),
        };
    }
}

/// A rail with each of these addresses. If they stand for all of the machine's, a rail on each NIC,
/// and without a NIC one that is bound to none, as a NIC may come up later.
fn rails_for(addresses: &[LaneAddress], first: LaneAddress) -> Result<Rails, ServeError> {
    let topology = Topology::detect()?;
    let ips = || addresses.iter().map(|address| address.socket.ip());
    let request = if !ips().all(|ip| ip.is_unspecified()) {
        RailRequest::on(addresses.iter().map(|address| LocalEnd::at(address.socket)))
    } else if let Err(PlanError::NoNic { .. }) = plan_rails(&topology, &RailRequest::auto()) {
        RailRequest::on([LocalEnd::Address(first.socket.ip())])
    } else {
        RailRequest::auto()
    };
    let plan = plan_rails(&topology, &request)?;
    for skipped in RejectedNic::by_reason(&plan.rejected_nics) {
        tracing::info!("no rail on {skipped}");
    }
    Ok(Rails::build(&plan)?)
}

#[cfg(feature = "tls")]
fn key_of(certificates: &[bytes::Bytes]) -> Option<String> {
    rails_multirail::KeyPin::of(certificates.first()?).map(|pin| pin.to_string())
}

#[cfg(not(feature = "tls"))]
fn key_of(_: &[bytes::Bytes]) -> Option<String> {
    None
}

const CELERITAS: &str = "celeritas";
