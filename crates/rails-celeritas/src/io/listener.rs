//! Accepting connections that peers open.

use super::{CeleritasOptions, Connection, OpenError, open::Greeted};
use rails_net::TcpAcceptor;
use std::{
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
};

/// Accepts the connections that peers open to one address. A task on the runtime where it was opened exchanges the
/// greetings.
#[derive(Debug)]
pub struct CeleritasListener {
    local: SocketAddr,
    greeted: Mutex<mpsc::Receiver<Result<Greeted, OpenError>>>,
    /// Ends with the listener.
    _task: JoinSet<()>,
}

impl CeleritasOptions {
    /// Listens for connections. Port 0 stands for any free port, which
    /// [`local_addr`](CeleritasListener::local_addr) then has.
    ///
    /// # Errors
    /// [`OpenError::Listen`], [`OpenError::NoRate`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub fn listen(&self, address: SocketAddr) -> Result<CeleritasListener, OpenError> {
        self.check()?;
        let acceptor = self.control().listen(address)?;
        let local = acceptor.local_addr();
        let (sender, greeted) = mpsc::channel(MOST_GREETED);
        let mut task = JoinSet::new();
        task.spawn(accept_all(self.clone(), acceptor, sender));
        Ok(CeleritasListener { local, greeted: Mutex::new(greeted), _task: task })
    }
}

impl CeleritasListener {
    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next connection, which the calling thread's runtime drives. A peer whose greeting fails is an error
    /// of that peer alone: call it again. Cancelling it loses no connection. At most 64 peers greet at a time; the kernel
    /// keeps the others waiting.
    ///
    /// # Errors
    /// [`OpenError`]; [`OpenError::Accept`] is permanent.
    pub async fn accept(&self) -> Result<Connection, OpenError> {
        let greeted = self.greeted.lock().await.recv().await;
        greeted.unwrap_or(Err(OpenError::Ended { address: self.local }))?.start()
    }

    /// The next peer that has greeted, or its error; `None` after the last.
    pub(super) fn poll_greeted(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Greeted, OpenError>>> {
        self.greeted.get_mut().poll_recv(context)
    }
}

/// Exchanges the greetings with all peers, several at a time: a mute one holds nobody up.
async fn accept_all(options: CeleritasOptions, acceptor: TcpAcceptor, out: mpsc::Sender<Result<Greeted, OpenError>>) {
    let mut greetings: JoinSet<Result<Greeted, OpenError>> = JoinSet::new();
    loop {
        let outcome = tokio::select! {
            Some(greeted) = greetings.join_next() => {
                greeted.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            }
            accepted = acceptor.accept(), if greetings.len() < MOST_GREETINGS => match accepted {
                Ok(lane) => {
                    let (remote, control, options) = (lane.peer_addr(), lane.into_stream(), options.clone());
                    greetings.spawn(async move { options.answer(control, remote).await });
                    continue;
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(address = %acceptor.local_addr(), %error, "a connection was not accepted");
                    // Without descriptors the next call would fail at once.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(error) => Err(error.into()),
            },
        };
        let is_last = matches!(outcome, Err(OpenError::Accept(_)));
        if out.send(outcome).await.is_err() || is_last {
            return;
        }
    }
}

/// The most peers that greet a listener at a time.
const MOST_GREETINGS: usize = 64;
/// The most peers that have greeted and wait for a caller.
const MOST_GREETED: usize = 64;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
