//! A door's end of the conversation with the gate.

use super::{Answer, DoorKind, MAX_ANSWER, Plain, Question, pass::send_descriptor, read, write};
use crate::{policy::Target, socket::reset_on_close, status::GateStatus};
use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::UnixStream, time::timeout};

/// A door: asks the gate of this host for ways.
#[derive(Debug, Clone)]
pub struct Door {
    kind: DoorKind,
    gate: PathBuf,
    alive_within: Duration,
}

/// The way of a connection.
#[derive(Debug)]
pub enum Way {
    /// Through the gate.
    Through(Passage),
    /// Plain, for this reason.
    Plain(Plain),
}

/// A way through the gate, with a connection to the service at its other end. Dropping it resets
/// that connection.
#[derive(Debug)]
pub struct Passage {
    gate: UnixStream,
    peer: String,
}

/// Why a gate did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// No gate listens there, or this user may not ask it.
    #[error("no gate answers at {}", gate.display())]
    NoGate {
        /// The gate's socket.
        gate: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The gate answered something else.
    #[error("the gate at {} answers another question", gate.display())]
    Answer {
        /// The gate's socket.
        gate: PathBuf,
    },
}

impl Door {
    /// A door of that kind, of the gate whose socket is `gate`.
    pub fn new(kind: DoorKind, gate: impl Into<PathBuf>) -> Self {
        Self { kind, gate: gate.into(), alive_within: ALIVE }
    }

    /// How long the gate of this host may take to hear a question, before a connection goes plain.
    /// Default: 50 ms, in which a busy host may not run the gate at all.
    #[must_use]
    pub fn alive_within(self, time: Duration) -> Self {
        Self { alive_within: time, ..self }
    }

    /// The gate's socket.
    pub fn gate(&self) -> &Path {
        &self.gate
    }

    /// Asks for a way to `destination`, for a program whose own address is `source` if it is known.
    /// The answer comes within the time that the policy gives the peer (50 ms by default), also if
    /// the gate is stopped: plain then.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn ask(&self, destination: SocketAddr, source: Option<SocketAddr>) -> Way {
        let asked = async {
            let mut gate = UnixStream::connect(&self.gate).await?;
            write(&mut gate, &Question::Connect { door: self.kind, destination, source }).await?;
            let first = read::<Answer>(&mut gate, MAX_ANSWER).await?;
            io::Result::Ok((gate, first))
        };
        let (mut gate, first) = match timeout(self.alive_within, asked).await {
            Ok(Ok(asked)) => asked,
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Way::Plain(Plain::NotPermitted);
            }
            // A gate that is stopped takes no question.
            Ok(Err(_)) | Err(_) => return Way::Plain(Plain::NoGate),
        };
        let last = match first {
            Answer::Asked { within } => match timeout(within + SLACK, read::<Answer>(&mut gate, MAX_ANSWER)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => return Way::Plain(Plain::NoGate),
                Err(_) => return Way::Plain(Plain::Slow),
            },
            first => first,
        };
        match last {
            Answer::Through { peer } => Way::Through(Passage { gate, peer }),
            Answer::Plain(why) => Way::Plain(why),
            _ => Way::Plain(Plain::NoGate),
        }
    }

    /// The destinations that go through peers.
    ///
    /// # Errors
    /// [`DoorError`].
    pub async fn networks(&self) -> Result<Vec<Target>, DoorError> {
        match self.question(&Question::Networks).await? {
            Answer::Networks(targets) => {
                targets.iter().map(|target| target.parse().map_err(|_| self.another())).collect()
            }
            _ => Err(self.another()),
        }
    }

    /// The state of the gate.
    ///
    /// # Errors
    /// [`DoorError`].
    pub async fn status(&self) -> Result<GateStatus, DoorError> {
        match self.question(&Question::Status).await? {
            Answer::Status(status) => Ok(*status),
            _ => Err(self.another()),
        }
    }

    /// The state of the gate, as text for Prometheus.
    ///
    /// # Errors
    /// [`DoorError`].
    pub async fn metrics(&self) -> Result<String, DoorError> {
        match self.question(&Question::Metrics).await? {
            Answer::Metrics(text) => Ok(text),
            _ => Err(self.another()),
        }
    }

    /// The process of the gate, as this process's PID namespace numbers it.
    ///
    /// # Errors
    /// [`DoorError`].
    pub async fn process(&self) -> Result<Option<u32>, DoorError> {
        let gate = UnixStream::connect(&self.gate).await;
        let gate = gate.map_err(|error| DoorError::NoGate { gate: self.gate.clone(), error })?;
        let known = gate.peer_cred().ok().and_then(|credentials| credentials.pid());
        Ok(known.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0))
    }

    async fn question(&self, question: &Question) -> Result<Answer, DoorError> {
        let asked = async {
            let mut gate = UnixStream::connect(&self.gate).await?;
            write(&mut gate, question).await?;
            read(&mut gate, MAX_ANSWER).await
        };
        let answer = timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        answer.map_err(|error| DoorError::NoGate { gate: self.gate.clone(), error })
    }

    fn another(&self) -> DoorError {
        DoorError::Answer { gate: self.gate.clone() }
    }
}

impl Passage {
    /// The name of the peer through which the way leads.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Hands over the program's end: a connected stream socket of TCP or of the Unix domain, whose
    /// other end the program has. From now on it is the gate's. A connection that the gate does not
    /// take, or that is lost with the gate, is reset.
    ///
    /// # Errors
    /// The gate is gone.
    pub async fn hand_over(self, socket: impl AsFd) -> io::Result<()> {
        // Also a descriptor that nobody has received is closed in the end.
        reset_on_close(&socket);
        send_descriptor(&self.gate, &socket).await
    }
}

/// How long a gate may take to say that it asks.
const ALIVE: Duration = Duration::from_millis(50);
/// How much later than promised an answer may come.
const SLACK: Duration = Duration::from_millis(20);
/// How long a gate may take for its state.
const PATIENCE: Duration = Duration::from_secs(5);
