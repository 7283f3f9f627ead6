//! The gate of a host.
//!
//! `peer` keeps the sessions with one peer, `dialer` opens them, `service` connects to services
//! that peers ask for, and `doors` answers the doors of this host.

mod dialer;
mod doors;
mod peer;
mod service;

use crate::{
    carry::carry,
    counters::Counters,
    door::DoorKind,
    policy::{PeerName, Policy},
    session::{Channel, Side},
    socket::Socket,
    status::GateStatus,
    traffic::{End, Traffic},
    wire::Instance,
};
pub use doors::BindDoorsError;
use peer::Peer;
use rails_multirail::{
    BindListenerError, LaneAddress, ListenerClosed, MultiRailListener, MultiRailStream, RailId, Rails, Security,
    StreamOptions, error::SetSecurityError,
};
use rails_net::Repeated;
use std::{
    collections::BTreeMap,
    fmt, io,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::task::JoinHandle;

/// The gate of a host. Dropping it ends its sessions, and with them every connection that it
/// carries.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    listener: Option<Arc<MultiRailListener>>,
    doors: Option<PathBuf>,
}

/// How a gate runs.
pub struct GateOptions {
    /// The rails of its sessions. The connections of programs are carried by the rails' runtimes.
    pub rails: Rails,
    /// The peers and destinations.
    pub policy: Policy,
    /// How sessions are protected.
    pub security: GateSecurity,
    /// The options of a session's stream with that security. The first answer has to be right for
    /// all later ones.
    pub stream: Box<dyn Fn(Security) -> StreamOptions + Send + Sync>,
}

/// How the sessions of a gate are protected, and peers are known.
#[derive(Debug, Clone, Default)]
pub struct GateSecurity {
    /// For the listener: the secrets of the peers, each by the peer's name, or TLS. `None` if the
    /// gate listens nowhere.
    pub listen: Option<Security>,
    /// For each peer that is dialled.
    pub dial: BTreeMap<PeerName, Security>,
}

/// Why a gate cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The addresses for peers are taken, or not this host's.
    #[error("cannot listen for peers")]
    Listen(#[from] BindListenerError),
    /// The policy has addresses for peers, and there is no security for them.
    #[error("the gate listens for peers, and nothing says how sessions are protected")]
    NoSecurity,
    /// The socket for doors cannot be made.
    #[error(transparent)]
    Doors(#[from] BindDoorsError),
}

/// Why another policy was not put in place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The listener cannot take the new security.
    #[error("the listener for peers goes on with the security of before")]
    Security(#[from] SetSecurityError),
    /// Nothing says how the listener's sessions are protected.
    #[error("the gate listens for peers, and nothing says how sessions are protected")]
    NoSecurity,
}

/// The gate as its tasks share it.
struct Shared {
    rails: Rails,
    stream: Box<dyn Fn(Security) -> StreamOptions + Send + Sync>,
    instance: Instance,
    settings: RwLock<Settings>,
    peers: Mutex<BTreeMap<PeerName, Arc<Peer>>>,
    counters: Counters,
    /// The addresses on which peers come in.
    listens: Mutex<Vec<SocketAddr>>,
    /// The connection whose number this is goes to the next rail.
    turn: AtomicUsize,
    warnings: Repeated,
}

/// What a reload replaces.
#[derive(Clone)]
struct Settings {
    policy: Arc<Policy>,
    security: Arc<GateSecurity>,
}

impl Gate {
    /// Starts a gate: listens for peers and doors, and dials the peers that the policy gives
    /// addresses of. A peer that is not there is dialled until it is.
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn start(options: GateOptions) -> Result<Self, StartError> {
        let mut instance = Instance([0; 16]);
        getrandom::fill(&mut instance.0).expect("the kernel has random numbers");
        let listens = options.policy.listen.clone();
        let socket = options.policy.socket.clone();
        let settings = Settings { policy: Arc::new(options.policy), security: Arc::new(options.security) };
        let shared = Arc::new(Shared {
            rails: options.rails,
            stream: options.stream,
            instance,
            settings: RwLock::new(settings.clone()),
            peers: Mutex::default(),
            counters: Counters::default(),
            listens: Mutex::default(),
            turn: AtomicUsize::new(0),
            warnings: Repeated::new(),
        });
        let mut gate = Self { shared: shared.clone(), tasks: Vec::new(), listener: None, doors: None };
        if !listens.is_empty() {
            let security = settings.security.listen.clone().ok_or(StartError::NoSecurity)?;
            let options = (shared.stream)(security);
            let listener = Arc::new(MultiRailListener::bind(&shared.rails, &listens[..], &options).await?);
            *lock(&shared.listens) = listener.local_addrs().iter().map(|address| address.socket).collect();
            gate.listener = Some(listener.clone());
            gate.tasks.push(shared.spawn(RailId(0), accept_peers(shared.clone(), listener)));
        }
        if let Some(path) = socket {
            let doors = doors::bind(&path, &settings.policy)?;
            gate.doors = Some(path);
            gate.tasks.push(shared.spawn(RailId(0), doors::serve(shared.clone(), doors)));
        }
        shared.update_peers();
        Ok(gate)
    }

    /// The addresses on which peers come in.
    pub fn local_addrs(&self) -> &[LaneAddress] {
        self.listener.as_deref().map_or(&[], MultiRailListener::local_addrs)
    }

    /// Puts another policy in place. Connections that are carried go on, also those that it would
    /// not let through; sessions with peers that it does not name end once they carry none. New
    /// limits of streams and bytes hold for the next session. The addresses and the socket of the
    /// running gate stay.
    ///
    /// # Errors
    /// [`ReloadError`]; nothing has changed then.
    pub fn reload(&self, policy: Policy, security: GateSecurity) -> Result<(), ReloadError> {
        if let Some(listener) = &self.listener {
            let security = security.listen.clone().ok_or(ReloadError::NoSecurity)?;
            listener.set_security(security)?;
        }
        *self.shared.settings.write().unwrap_or_else(PoisonError::into_inner) =
            Settings { policy: Arc::new(policy), security: Arc::new(security) };
        self.shared.update_peers();
        Ok(())
    }

    /// The state of the gate.
    pub fn status(&self) -> GateStatus {
        self.shared.status()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let peers = std::mem::take(&mut *lock(&self.shared.peers));
        peers.values().for_each(|peer| peer.end());
        if let Some(path) = &self.doors {
            // The next gate clears it away if this one cannot.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Takes in the sessions of peers.
async fn accept_peers(shared: Arc<Shared>, listener: Arc<MultiRailListener>) {
    loop {
        match listener.accept().await {
            Ok(stream) => accept_peer(&shared, stream),
            Err(ListenerClosed::Closed) => return,
            Err(error) => {
                tracing::error!(error = %error, "the gate listens for peers no more");
                return;
            }
        }
    }
}

fn accept_peer(shared: &Arc<Shared>, stream: MultiRailStream) {
    let address = stream.peer_addr().map(|address| address.to_string()).unwrap_or_default();
    let Some(peer) = shared.peer_of(&stream) else {
        shared.warn_of("stranger", &format!("a gate at {address} is no peer of the policy"));
        stream.abort();
        return;
    };
    match stream.into_messages() {
        Ok(messages) => {
            let (gate, home) = (shared.clone(), peer.home());
            let keep = async move { peer.keep(&gate, messages, Side::Accepted, service::answer).await };
            drop(shared.spawn(home, keep));
        }
        Err(error) => shared.warn(&format!("no session with {}: {error}", peer.name())),
    }
}

impl Shared {
    /// Runs a task on that rail.
    fn spawn<T: Send + 'static>(&self, rail: RailId, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.rails[rail].runtime().handle().spawn(task)
    }

    /// The rails in turn.
    fn next_rail(&self) -> RailId {
        RailId(self.turn.fetch_add(1, Ordering::Relaxed) % self.rails.len())
    }

    fn settings(&self) -> Settings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn policy(&self) -> Arc<Policy> {
        self.settings().policy
    }

    /// Begins to keep the peers of the policy, and lets go of others.
    fn update_peers(self: &Arc<Self>) {
        let policy = self.policy();
        let mut peers = lock(&self.peers);
        let gone: Vec<_> = peers
            .iter()
            .filter(|(name, peer)| policy.peer(name.as_str()).is_none() && !peer.let_go())
            .map(|(name, _)| name.clone())
            .collect();
        gone.iter().filter_map(|name| peers.remove(name)).for_each(|peer| peer.end());
        for peer in policy.peers() {
            let kept = peers.entry(peer.name.clone()).or_insert_with(|| {
                let kept = Peer::of(peer, self.next_rail());
                drop(self.spawn(kept.home(), dialer::dial(self.clone(), kept.clone())));
                kept
            });
            kept.update(peer);
        }
    }

    /// Forgets a peer that the policy no longer names, once it has no session left.
    fn forget(&self, peer: &Arc<Peer>) {
        let mut peers = lock(&self.peers);
        if peer.is_gone() && peers.get(peer.name()).is_some_and(|kept| Arc::ptr_eq(kept, peer)) {
            peers.remove(peer.name());
            peer.end();
        }
    }

    /// The peer that opened the stream: by the secret that it knows, or by the key of its
    /// certificate.
    fn peer_of(&self, stream: &MultiRailStream) -> Option<Arc<Peer>> {
        let name = stream.peer_name().map(str::to_owned).or_else(|| self.peer_by_key(stream))?;
        lock(&self.peers).iter().find(|(known, _)| known.as_str() == name).map(|(_, peer)| peer.clone())
    }

    #[cfg(feature = "tls")]
    fn peer_by_key(&self, stream: &MultiRailStream) -> Option<String> {
        use crate::policy::PeerKey;

        let key = stream.peer_key_pin()?;
        let policy = self.policy();
        let named = policy.peers().iter().find(|peer| matches!(&peer.key, PeerKey::Pin(pin) if *pin == key));
        named.map(|peer| peer.name.to_string())
    }

    #[cfg(not(feature = "tls"))]
    fn peer_by_key(&self, _: &MultiRailStream) -> Option<String> {
        None
    }

    fn peer(&self, name: &PeerName) -> Option<Arc<Peer>> {
        lock(&self.peers).get(name).cloned()
    }

    /// Carries a connection of the peer until it ends. `socket` is called on the rail that does so:
    /// the one that takes the session's messages, where no thread need wake another, or each in
    /// turn if the peer has many connections.
    fn carry(
        &self,
        peer: &Peer,
        socket: impl FnOnce() -> io::Result<Socket> + Send + 'static,
        channel: Channel,
        traffic: Arc<Traffic>,
    ) {
        let rail = if channel.siblings() <= ON_ONE_RAIL { peer.home() } else { self.next_rail() };
        traffic.opened();
        drop(self.spawn(rail, async move {
            let end = match socket() {
                Ok(socket) => carry(socket, channel, &traffic).await,
                Err(error) => {
                    tracing::warn!(error = %error, "a door handed something over that cannot be carried");
                    End::ResetHere
                }
            };
            traffic.ended(end);
        }));
    }

    fn status(&self) -> GateStatus {
        let peers: Vec<_> = lock(&self.peers).values().cloned().collect();
        GateStatus {
            peers: peers.iter().map(|peer| peer.status()).collect(),
            connections: self.counters.connections(),
            plain: self.counters.plain(),
        }
    }

    #[cfg(feature = "prometheus")]
    fn metrics(&self) -> String {
        crate::metrics::text(&self.status(), &self.rails)
    }

    #[cfg(not(feature = "prometheus"))]
    fn metrics(&self) -> String {
        "# this gate was built without its metrics\n".to_owned()
    }

    /// Whether the destination, in its [canonical form](crate::policy::canonical), is this gate
    /// itself.
    fn is_own(&self, destination: SocketAddr) -> bool {
        let own = |address: &SocketAddr| {
            let ip = address.ip().to_canonical();
            address.port() == destination.port()
                && (ip == destination.ip() || ip.is_unspecified() && is_local(destination.ip()))
        };
        lock(&self.listens).iter().any(own)
    }

    /// Warns of something that others can cause again and again.
    fn warn(&self, text: &str) {
        self.warn_of(text, text);
    }

    /// As [`warn`](Self::warn) where others choose a part of the text: only so many warnings of one
    /// cause are logged, whatever their texts.
    fn warn_of(&self, cause: &str, text: &str) {
        if let Some(left_out) = self.warnings.due(Instant::now(), cause) {
            tracing::warn!(left_out, "{text}");
        }
    }

    fn inform(&self, door: DoorKind, destination: SocketAddr, why: impl fmt::Display) {
        let text = format!("{door}: a connection to {destination} goes plain: {why}");
        if let Some(left_out) = self.warnings.due(Instant::now(), &text) {
            tracing::info!(left_out, "{text}");
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("rails", &self.rails.len()).finish_non_exhaustive()
    }
}

/// Whether the address is one of this host's. Where that cannot be found out, it may be.
fn is_local(address: IpAddr) -> bool {
    use io::ErrorKind::{AddrNotAvailable, InvalidInput, Unsupported};

    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), AddrNotAvailable | InvalidInput | Unsupported),
    }
}

/// The connections of a peer that one rail carries, before further ones go to each in turn.
const ON_ONE_RAIL: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
