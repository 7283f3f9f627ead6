//! What can go wrong with a stream and its lanes.

pub use rails_proto::lane::LaneError;

use crate::{OptionError, RailId, ResolveError};
use rails_net::{AcceptError, BindEndError, ConnectError, ListenError};
use rails_proto::{
    LaneAddress, Scheme,
    connection::{Failure, Refused},
    handshake::{HandshakeError, Refusal, StreamId},
    opening::Setback,
    parameters::MOST_LANES,
};
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
};

/// Why a stream is over before its time. Reads and writes hand it back inside an [`io::Error`]
/// (`error.get_ref()` and a downcast give it back).
#[derive(Debug, Clone, thiserror::Error)]
#[error("stream {stream}: {failure}{}", listed_in_line(.lanes))]
pub struct StreamError {
    /// The stream.
    pub stream: StreamId,
    /// What became of it.
    pub failure: Failure,
    /// How its lanes ended, those that were lost.
    pub lanes: Vec<LostLane>,
}

/// A lane that was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[error("lane {lane} from {local} to {remote}: {source}")]
pub struct LostLane {
    /// Its number.
    pub lane: u16,
    /// Its address at this end.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// How it was lost.
    pub source: LaneError,
}

/// An address of a transport that the options do not have; [`StreamOptions::transport`](crate::StreamOptions::transport) adds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no transport carries lanes to {0}:// addresses here")]
pub struct NoTransport(pub Scheme);

/// Why a lane did not come up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Nothing carries lanes to such an address.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// No connection.
    #[error("no connection")]
    Connect(#[from] ConnectError),
    /// The connection failed during the handshake.
    #[error("the connection failed during the handshake")]
    Io(#[from] io::Error),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The peer took too long.
    #[error("the peer did not finish the handshake in time")]
    Timeout,
    /// The rail's runtime has stopped.
    #[error("the rail's runtime has stopped")]
    RailStopped,
    /// The system gave no random numbers.
    #[error("the system gave no random numbers: {0}")]
    Random(getrandom::Error),
    /// This end refused it, and told the peer why.
    #[error("this end refused the lane: {0}")]
    Refusing(Refusal),
    /// The stream was over before this lane could join it.
    #[error("the stream was over before this lane could join it")]
    StreamOver,
}

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing to connect from.
    #[error("no rails to connect from")]
    NoRails,
    /// There is nothing to connect to.
    #[error("no addresses to connect to")]
    NoAddresses,
    /// The pairing has no lanes.
    #[error("no rail of one end could be paired with one of the other")]
    Unpaired,
    /// The pairing was made for other rails.
    #[error("the pairing names rail {0}, which is not there: it was made for other rails")]
    NoSuchRail(RailId),
    /// More lanes than a stream may have.
    #[error("{0} lanes are too many: a stream has at most {MOST_LANES}")]
    TooManyLanes(usize),
    /// A setting is outside its bounds.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A text is no address, or a host name is not known.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Nothing carries lanes to one of the addresses.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// The security is that of the end that listens.
    #[error("a stream is not opened with the server's side of TLS: the connecting end takes Security::tls_client")]
    Security,
    /// Not one lane came up.
    #[error("no lane came up:{}", listed(.lanes))]
    AllFailed {
        /// What became of each.
        lanes: Vec<Arc<FailedLane>>,
    },
    /// The system gave no random numbers.
    #[error("the system gave no random numbers: {0}")]
    Random(getrandom::Error),
}

/// Why a lane is not added to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddLaneError {
    /// Lanes are brought up by the end that opened the stream.
    #[error("this end accepted the stream; the end that opened it adds lanes")]
    Accepted,
    /// There is no such rail.
    #[error("there is no rail {0} at this end")]
    NoSuchRail(RailId),
    /// Nothing carries lanes to such an address.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// The stream has had as many as it may have.
    #[error("a stream has at most {MOST_LANES} lanes")]
    TooMany,
}

/// Why it is not known what lanes the peer has.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanLanesError {
    /// There is nothing to pair.
    #[error("no rails to pair")]
    NoRails,
    /// There is nobody to ask.
    #[error("no addresses to ask at")]
    NoAddresses,
    /// A setting is outside its bounds.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A text is no address, or a host name is not known.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The options are those of an end that accepts streams: TLS knows a client from a server.
    #[error("the options are for the end that accepts streams: in mode tls the end that asks is a client")]
    Security,
    /// The question was not answered.
    #[error("{contact} did not say what lanes it has")]
    Discover {
        /// Whom it was put to.
        contact: LaneAddress,
        /// Why not.
        source: JoinError,
    },
}

/// A lane that did not come up.
#[derive(Debug)]
pub struct FailedLane {
    /// The rail it was to run on.
    pub rail: RailId,
    /// Where it was to lead.
    pub remote: LaneAddress,
    /// Why it does not.
    pub error: JoinError,
}

/// Why a listener does not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindListenerError {
    /// There are no rails.
    #[error("no rails to listen on")]
    NoRails,
    /// There are no addresses.
    #[error("no addresses to listen on")]
    NoAddresses,
    /// A setting is outside its bounds.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A text is no address, or a host name is not known.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Nothing carries lanes to one of the addresses.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The security is that of the end that connects.
    #[error("streams are not accepted with the client's side of TLS: the listening end takes Security::tls_server")]
    Security,
    /// A rail's runtime has stopped.
    #[error("the runtime of rail {0} has stopped")]
    RailStopped(RailId),
}

/// Why no more streams are accepted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListenerClosed {
    /// Every address has failed; this is how the last one did.
    #[error("no address is listened on any more")]
    Accept(#[source] Arc<AcceptError>),
    /// The rails' runtimes have stopped.
    #[error("the rails' runtimes have stopped")]
    RailsStopped,
    /// The listener was closed.
    #[error("the listener was closed")]
    Closed,
}

impl JoinError {
    /// What follows from it for further attempts of the lane.
    pub(crate) fn setback(&self) -> Setback {
        match self {
            Self::Handshake(HandshakeError::Refused(Refusal::Busy(_))) => Setback::Busy,
            Self::Handshake(error) if error.is_lasting() => Setback::Lasting,
            Self::Handshake(_) | Self::Io(_) => Setback::Passing,
            Self::Connect(_) | Self::Timeout => Setback::Plain,
            Self::NoTransport(_) | Self::RailStopped | Self::Random(_) | Self::Refusing(_) | Self::StreamOver => {
                Setback::Lasting
            }
        }
    }

    /// What the peer has refused by it, where it says that this is for good.
    pub(crate) fn refused(&self) -> Option<Refused> {
        match self {
            Self::Connect(ConnectError::Refused { .. }) => Some(Refused::Connection),
            Self::Handshake(HandshakeError::Refused(Refusal::UnknownStream)) => Some(Refused::Stream),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect(ConnectError::Refused { .. }) => ErrorKind::ConnectionRefused,
            Self::Connect(ConnectError::TimedOut { .. }) | Self::Timeout => ErrorKind::TimedOut,
            Self::Connect(ConnectError::Call { source, .. }) | Self::Io(source) => source.kind(),
            Self::Handshake(HandshakeError::Secret | HandshakeError::Tls(_)) => ErrorKind::PermissionDenied,
            Self::Handshake(HandshakeError::Refused(Refusal::Secret | Refusal::Tls)) => ErrorKind::PermissionDenied,
            Self::Handshake(HandshakeError::Refused(Refusal::Busy(_) | Refusal::Full(_))) => ErrorKind::ResourceBusy,
            Self::Handshake(_) => ErrorKind::InvalidData,
            Self::NoTransport(_) => ErrorKind::Unsupported,
            Self::StreamOver => ErrorKind::NotConnected,
            _ => ErrorKind::Other,
        }
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        Self::new(error.failure.kind(), error)
    }
}

impl ResolveError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Text(_) | Self::Scheme(_) => ErrorKind::InvalidInput,
            Self::Lookup { source, .. } => source.kind(),
        }
    }
}

/// Of the kind of the first lane's error, where lanes failed.
impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::AllFailed { lanes } => lanes.first().map_or(ErrorKind::Other, |lane| lane.error.kind()),
            OpenError::Resolve(error) => error.kind(),
            OpenError::NoTransport(_) => ErrorKind::Unsupported,
            OpenError::Random(_) => ErrorKind::Other,
            _ => ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<BindListenerError> for io::Error {
    fn from(error: BindListenerError) -> Self {
        let kind = match &error {
            BindListenerError::Listen(ListenError::LocalEnd(BindEndError::Address { source, .. })) => source.kind(),
            BindListenerError::Listen(ListenError::Call { source, .. }) => source.kind(),
            BindListenerError::Resolve(error) => error.kind(),
            BindListenerError::NoTransport(_) => ErrorKind::Unsupported,
            BindListenerError::Listen(_) | BindListenerError::RailStopped(_) => ErrorKind::Other,
            _ => ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<PlanLanesError> for io::Error {
    fn from(error: PlanLanesError) -> Self {
        let kind = match &error {
            PlanLanesError::Discover { source, .. } => source.kind(),
            PlanLanesError::Resolve(error) => error.kind(),
            _ => ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<AddLaneError> for io::Error {
    fn from(error: AddLaneError) -> Self {
        let is_foreign = matches!(error, AddLaneError::NoTransport(_));
        Self::new(if is_foreign { ErrorKind::Unsupported } else { ErrorKind::InvalidInput }, error)
    }
}

impl From<ListenerClosed> for io::Error {
    fn from(error: ListenerClosed) -> Self {
        Self::new(ErrorKind::NotConnected, error)
    }
}

impl std::fmt::Display for FailedLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rail {} to {}: {}", self.rail, self.remote, with_causes(&self.error))
    }
}

/// An error and what it came of, in a line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn listed_in_line(lanes: &[LostLane]) -> String {
    let lanes: Vec<String> = lanes.iter().map(ToString::to_string).collect();
    if lanes.is_empty() { String::new() } else { format!(" ({})", lanes.join("; ")) }
}

fn listed(lanes: &[Arc<FailedLane>]) -> String {
    lanes.iter().map(|lane| format!("\n  {lane}")).collect()
}
