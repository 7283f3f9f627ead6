//! Accepting connections that peers open.

use super::{
    CeleritasOptions, Connection, OpenConnectionError,
    open::Greeted,
    places::{GreetingPlace, GreetingPlaces, TurnedAway, TurnedAwayLog},
};
use rails_net::{AcceptError, TcpAcceptor, TcpLane};
use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

/// Accepts the connections that peers open to one address. A task on the runtime where it was
/// opened exchanges the greetings. A peer that does not greet, or cannot authenticate itself, is no
/// error of [`accept`](Self::accept): the listener [counts](Self::turned_away) it, and logs it with
/// `tracing`.
///
/// At most 256 peers greet at a time, 64 of them of one IPv4 address or IPv6 network of 64 bits;
/// each has 10 s. At a limit a silent peer makes room for the next ([`rails_proto::admission`]). At
/// most 500 TLS handshakes begin in a second with strangers, as many with origins that have an open
/// connection, and 125 with each origin.
///
/// At most 64 peers that have greeted wait for [`accept`](Self::accept). Until then they treat this
/// end as one that is stopped, for which they wait. While 64 wait, the listener takes no further
/// ones: up to 256 that are greeting come to the end of it, and the others stay in the kernel's
/// backlog. The listener serves these in their order once there is a call, unless they have given
/// up before, as an end of this library does after 10 s.
#[derive(Debug)]
pub struct CeleritasListener {
    local: SocketAddr,
    greeted: AsyncMutex<mpsc::Receiver<Result<Greeted, OpenConnectionError>>>,
    strangers: Arc<TurnedAwayLog>,
    /// Ends with the listener.
    _task: JoinSet<()>,
}

impl CeleritasOptions {
    /// Listens for connections. Port 0 stands for any free port, which
    /// [`local_addr`](CeleritasListener::local_addr) then has.
    ///
    /// # Errors
    /// [`OpenConnectionError::Listen`], [`OpenConnectionError::NoRate`],
    /// [`OpenConnectionError::Role`], [`OpenConnectionError::NoEncryption`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub fn listen(&self, address: SocketAddr) -> Result<CeleritasListener, OpenConnectionError> {
        self.check(false)?;
        let acceptor = self.control().listen(address)?;
        let local = acceptor.local_addr();
        let (sender, greeted) = mpsc::channel(MAX_GREETED);
        let strangers = Arc::<TurnedAwayLog>::default();
        let mut task = JoinSet::new();
        task.spawn(accept_all(self.clone(), acceptor, sender, strangers.clone()));
        Ok(CeleritasListener { local, greeted: AsyncMutex::new(greeted), strangers, _task: task })
    }
}

impl CeleritasListener {
    /// The address that the listener listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next connection, which the calling thread's runtime drives. A shortage of
    /// descriptors is waited out. Cancelling it loses no connection.
    ///
    /// # Errors
    /// [`OpenConnectionError::Accept`] and then [`OpenConnectionError::Ended`], if no connection
    /// can be accepted any more: both are [permanent](OpenConnectionError::is_permanent).
    pub async fn accept(&self) -> Result<Connection, OpenConnectionError> {
        loop {
            let greeted = self.greeted.lock().await.recv().await;
            let error = match greeted.unwrap_or(Err(OpenConnectionError::Ended { address: self.local }))?.start() {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            self.strangers.turn_away(self.local, Some(&error));
            sleep(PAUSE).await;
        }
    }

    /// The peers that the listener has turned away so far.
    pub fn turned_away(&self) -> TurnedAway {
        self.strangers.counts()
    }

    /// Waits for the next peer that has greeted, or the error that ends the listener; `None` after
    /// that.
    pub(super) fn poll_greeted(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Greeted, OpenConnectionError>>> {
        self.greeted.get_mut().poll_recv(context)
    }
}

/// Exchanges the greetings with all peers, several at a time: a mute one holds no other up.
async fn accept_all(
    options: CeleritasOptions,
    acceptor: TcpAcceptor,
    out: mpsc::Sender<Result<Greeted, OpenConnectionError>>,
    strangers: Arc<TurnedAwayLog>,
) {
    let address = acceptor.local_addr();
    let (places, unread) = (GreetingPlaces::new(), Arc::new(Semaphore::new(MAX_UNREAD)));
    let mut greetings: JoinSet<Result<Greeted, Option<OpenConnectionError>>> = JoinSet::new();
    let mut failures = 0u64;
    loop {
        let greeted = tokio::select! {
            Some(greeted) = greetings.join_next() => {
                greeted.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            }
            (unread, accepted) = next_lane(&acceptor, &unread) => match accepted {
                Ok(lane) => {
                    failures = 0;
                    match places.enter(lane.peer_addr().ip()) {
                        Ok((place, told)) => {
                            let answering = Answering { options: options.clone(), place, told, unread };
                            greetings.spawn(answering.answer(lane));
                            continue;
                        }
                        Err(_limit) => Err(None),
                    }
                }
                Err(error) if error.is_transient() => {
                    failures += 1;
                    match failures {
                        1 => tracing::warn!(%address, %error, "a connection was not accepted"),
                        _ => tracing::debug!(%address, %error, failures, "a connection was not accepted again"),
                    }
                    // Without descriptors the next call would fail at once.
                    sleep(PAUSE).await;
                    continue;
                }
                Err(error) => {
                    // Sending fails where the listener is gone.
                    let _ = out.send(Err(error.into())).await;
                    return;
                }
            },
        };
        let refused = match greeted {
            Ok(greeted) => match out.send(Ok(greeted)).await {
                Ok(()) => continue,
                Err(_gone) => return,
            },
            Err(refused) => refused,
        };
        strangers.turn_away(address, refused.as_ref());
    }
}

/// Accepts the next connection, once few others wait for their tasks: a faster listener would
/// displace peers whose bytes no task has read yet.
async fn next_lane(
    acceptor: &TcpAcceptor,
    unread: &Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, Result<TcpLane, AcceptError>) {
    let unread = unread.clone().acquire_owned().await.ok();
    (unread, acceptor.accept().await)
}

/// A peer that greets.
struct Answering {
    options: CeleritasOptions,
    place: GreetingPlace,
    /// Resolves when the peer has to make room for another.
    told: oneshot::Receiver<()>,
    unread: Option<OwnedSemaphorePermit>,
}

impl Answering {
    /// Exchanges the greetings; `None` is the error of a peer that has made room for another.
    async fn answer(self, lane: TcpLane) -> Result<Greeted, Option<OpenConnectionError>> {
        let Self { options, place, told, unread } = self;
        let (remote, control) = (lane.peer_addr(), lane.into_stream());
        // A runtime knows of arrivals at a socket once it has looked for events.
        let _ = timeout(PAUSE, control.writable()).await;
        drop(unread);
        tokio::select! {
            // A peer whose greeting has arrived is not sent away.
            biased;
            greeted = options.answer(control, remote, &place) => {
                let mut greeted = greeted.map_err(Some)?;
                greeted.familiar = Some(place.open(remote.ip()));
                Ok(greeted)
            }
            Ok(()) = told => Err(None),
        }
    }
}

/// The most connections that their tasks have not come to read.
const MAX_UNREAD: usize = 32;
/// The most peers that have greeted and wait for a caller.
const MAX_GREETED: usize = 64;
/// The pause after a connection could not be accepted, and the longest wait for a new socket's
/// events.
const PAUSE: Duration = Duration::from_millis(50);
