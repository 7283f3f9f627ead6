//! The errors of streams, lanes and listeners.

use crate::{RailId, ResolveError};
use rails_net::{AcceptError, BindEndError, ConnectError, ListenError};
#[cfg(feature = "tls")]
pub use rails_proto::handshake::tls::{CertificateFault, CertificateRefusal};
use rails_proto::{
    LaneAddress, Scheme,
    handshake::{HandshakeError, Mode, Refusal, StreamId},
    opening::Setback,
    parameters::MAX_LANES,
    session::{Failure, NotForMessages, Refused},
};
pub use rails_proto::{handshake::tls::Error as TlsFailure, lane::LaneError};
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

/// The error of a stream that has failed. Reads and writes return it inside an [`io::Error`];
/// `error.get_ref()` and a downcast extract it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stream {stream}: {failure}{}", listed_in_line(.lanes))]
pub struct StreamError {
    /// The stream.
    pub stream: StreamId,
    /// The cause.
    pub failure: Failure,
    /// The lost lanes, each with its error.
    pub lanes: Vec<LostLane>,
}

/// A lane that was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[error("lane {lane} from {local} to {remote}: {source}")]
pub struct LostLane {
    /// The lane's number.
    pub lane: u16,
    /// The lane's local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The error that ended the lane.
    pub source: LaneError,
}

/// Why [`MultiRailStream::close`](crate::MultiRailStream::close) has stopped waiting for the peer.
/// The error comes inside an [`io::Error`] of the kind [`TimedOut`](ErrorKind::TimedOut). The
/// stream then ends as a dropped one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The peer does not take the written bytes, or their end.
    #[error("stream {stream}: for {limit:?} the peer has {}", not_taken(*bytes))]
    NotDelivered {
        /// The stream.
        stream: StreamId,
        /// The written bytes that the peer does not have, as far as this end knows. With 0, the
        /// peer has not heard of the stream's end.
        bytes: u64,
        /// [`StreamOptions::close_timeout`](crate::StreamOptions::close_timeout).
        limit: Duration,
    },
    /// The peer has every byte, and does not end its own direction.
    #[error("stream {stream}: for {limit:?} the peer has sent nothing, and it has not ended its direction")]
    NotEnded {
        /// The stream.
        stream: StreamId,
        /// [`StreamOptions::close_timeout`](crate::StreamOptions::close_timeout).
        limit: Duration,
    },
}

/// The streams that [`Rails::drain`](crate::Rails::drain) has waited for in vain.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not delivered in {limit:?}: {}", streams.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Undelivered {
    /// The time that the caller gave.
    pub limit: Duration,
    /// The streams that have something left.
    pub streams: Vec<UndeliveredStream>,
}

/// A stream whose peer does not have all.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stream {stream} has {bytes} bytes left{}", .failure.as_ref().map(|failure| format!(", and has failed: {failure}")).unwrap_or_default())]
pub struct UndeliveredStream {
    /// The stream.
    pub stream: StreamId,
    /// The written bytes that the peer does not have, as far as this end knows. With 0, the peer
    /// has not heard of the stream's end.
    pub bytes: u64,
    /// The failure of the stream, if it has failed.
    pub failure: Option<Failure>,
}

/// The error for a setting outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {value}: it is at least {min} and at most {max}")]
pub struct OptionError {
    /// The setting.
    pub what: &'static str,
    /// The setting's value.
    pub value: u64,
    /// The least allowed value.
    pub min: u64,
    /// The largest allowed value.
    pub max: u64,
}

/// The options have no transport for an address's scheme;
/// [`StreamOptions::transport`](crate::StreamOptions::transport) adds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no transport carries lanes to {0}:// addresses here")]
pub struct NoTransport(pub Scheme);

/// Why a lane did not come up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No transport carries lanes to such an address.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// The connection was not established.
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
    /// This end refused the lane, and told the peer why.
    #[error("this end refused the lane: {0}")]
    Refusing(Refusal),
    /// The stream was over before this lane could join it.
    #[error("the stream was over before this lane could join it")]
    StreamOver,
    /// The peer's parameters are too small for the first messages of the stream.
    #[error("the stream cannot carry its first messages")]
    Messages(#[source] MessagesError),
}

/// Why a stream cannot carry messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessagesError {
    /// It cannot carry any.
    #[error(transparent)]
    None(#[from] NotForMessages),
    /// It cannot carry one that long.
    #[error(transparent)]
    TooLong(#[from] MessageTooLong),
}

/// Why the rails, addresses and options of a caller do not fit together as an end of a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// There are no rails.
    #[error("there are no rails")]
    NoRails,
    /// There are no addresses to call, or to listen on.
    #[error("there are no addresses")]
    NoAddresses,
    /// A setting is outside its bounds.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A text is no address, or a host name is not known.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// No transport carries lanes to one of the addresses.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// The security of an end that connects or asks is for one that listens.
    #[error(
        "the options have the security of an end that listens (the server's side of TLS, or the secrets of several \
         peers): the connecting end takes Security::tls_client, or the one secret that it shares with its peer"
    )]
    ServerSecurity,
    /// The security of an end that listens is for one that connects.
    #[error("the options have the client's side of TLS: the listening end takes Security::tls_server")]
    ClientSecurity,
}

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The rails, addresses or options do not make an end.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The pairing has no lanes.
    #[error("no rail of one end could be paired with one of the other")]
    Unpaired,
    /// The pairing was made for other rails.
    #[error("the pairing names rail {0}, which does not exist here: it was made for other rails")]
    NoSuchRail(RailId),
    /// More lanes than a stream may have.
    #[error("{0} lanes are too many: a stream has at most {MAX_LANES}")]
    TooManyLanes(usize),
    /// No lane came up.
    #[error("no lane came up:{}", listed(.lanes))]
    AllFailed {
        /// Each lane with its error.
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
    /// This end accepted the stream, and only the end that opened it adds lanes.
    #[error("this end accepted the stream; the end that opened it adds lanes")]
    Accepted,
    /// There is no such rail.
    #[error("there is no rail {0} at this end")]
    NoSuchRail(RailId),
    /// No transport carries lanes to such an address.
    #[error(transparent)]
    NoTransport(#[from] NoTransport),
    /// The stream has used all its lane numbers.
    #[error("a stream has at most {MAX_LANES} lanes")]
    TooMany,
}

/// Why the peer's lanes are unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanLanesError {
    /// The rails, addresses or options do not make an end.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No contact has answered.
    #[error("the peer did not name its lanes:{}", listed_contacts(.contacts))]
    Discover {
        /// Each address that was tried, with the cause.
        contacts: Vec<(LaneAddress, JoinError)>,
    },
}

/// A lane that did not come up.
#[derive(Debug)]
pub struct FailedLane {
    /// The lane's rail.
    pub rail: RailId,
    /// The lane's remote address.
    pub remote: LaneAddress,
    /// The error of the latest attempt.
    pub error: JoinError,
}

/// Why a listener could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindListenerError {
    /// The rails, addresses or options do not make an end.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A rail's runtime has stopped.
    #[error("the runtime of rail {0} has stopped")]
    RailStopped(RailId),
}

/// Why a listener keeps the security that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetSecurityError {
    /// The security is for an end that connects.
    #[error("it is the client's side of TLS: the listening end takes Security::tls_server")]
    ClientSecurity,
    /// A listener stays in the mode in which it was bound: lanes of open streams come back in it,
    /// and a listener in two modes would let an attacker choose the weaker one.
    #[error("it is of mode {new}, and the listener was bound in mode {listener}: another mode takes another listener")]
    Mode {
        /// The listener's mode.
        listener: Mode,
        /// The mode of the security that was refused.
        new: Mode,
    },
}

/// Why no more streams are accepted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListenerClosed {
    /// Every address has failed; this is the error of the last one.
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
    /// The consequence for further attempts of the lane.
    pub(crate) fn setback(&self) -> Setback {
        match self {
            Self::Handshake(HandshakeError::Refused(Refusal::Busy(_))) => Setback::Busy,
            Self::Handshake(error) if error.is_permanent() => Setback::Permanent,
            Self::Handshake(_) | Self::Io(_) | Self::Connect(ConnectError::SelfConnect { .. }) => Setback::Transient,
            Self::Connect(_) | Self::Timeout => Setback::Unreachable,
            Self::NoTransport(_)
            | Self::RailStopped
            | Self::Random(_)
            | Self::Refusing(_)
            | Self::StreamOver
            | Self::Messages(_) => Setback::Permanent,
        }
    }

    /// The permanent refusal, if the peer has sent one.
    pub(crate) fn refused(&self) -> Option<Refused> {
        match self {
            Self::Connect(ConnectError::Refused { .. }) => Some(Refused::Connection),
            Self::Handshake(HandshakeError::Refused(Refusal::UnknownStream)) => Some(Refused::Stream),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect(ConnectError::Refused { .. } | ConnectError::SelfConnect { .. }) => {
                ErrorKind::ConnectionRefused
            }
            Self::Connect(ConnectError::TimedOut { .. }) | Self::Timeout => ErrorKind::TimedOut,
            Self::Connect(ConnectError::Call { source, .. }) | Self::Io(source) => source.kind(),
            Self::Handshake(HandshakeError::Secret | HandshakeError::Tls(_)) => ErrorKind::PermissionDenied,
            Self::Handshake(HandshakeError::Refused(Refusal::Secret | Refusal::Tls)) => ErrorKind::PermissionDenied,
            Self::Handshake(HandshakeError::Refused(Refusal::Busy(_) | Refusal::Full(_))) => ErrorKind::ResourceBusy,
            Self::Handshake(_) => ErrorKind::InvalidData,
            Self::NoTransport(_) => ErrorKind::Unsupported,
            Self::StreamOver => ErrorKind::NotConnected,
            Self::Messages(_) => ErrorKind::InvalidInput,
            _ => ErrorKind::Other,
        }
    }
}

fn not_taken(bytes: u64) -> String {
    match bytes {
        0 => "not acknowledged the stream's end".to_owned(),
        bytes => format!("taken none of the last {bytes} bytes"),
    }
}

impl From<CloseError> for io::Error {
    fn from(error: CloseError) -> Self {
        Self::new(ErrorKind::TimedOut, error)
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
            Self::Text(_) | Self::Scheme(_) | Self::Scope(_) => ErrorKind::InvalidInput,
            Self::Lookup { source, .. } => source.kind(),
        }
    }
}

impl EndpointError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Resolve(error) => error.kind(),
            Self::NoTransport(_) => ErrorKind::Unsupported,
            _ => ErrorKind::InvalidInput,
        }
    }
}

/// If lanes failed, the error has the kind of the first lane's.
impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::AllFailed { lanes } => lanes.first().map_or(ErrorKind::Other, |lane| lane.error.kind()),
            OpenError::Endpoint(error) => error.kind(),
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
            BindListenerError::Endpoint(error) => error.kind(),
            BindListenerError::Listen(_) | BindListenerError::RailStopped(_) => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl From<SetSecurityError> for io::Error {
    fn from(error: SetSecurityError) -> Self {
        Self::new(ErrorKind::InvalidInput, error)
    }
}

impl From<PlanLanesError> for io::Error {
    fn from(error: PlanLanesError) -> Self {
        let kind = match &error {
            PlanLanesError::Discover { contacts } => {
                contacts.first().map_or(ErrorKind::Other, |(_, error)| error.kind())
            }
            PlanLanesError::Endpoint(error) => error.kind(),
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

/// An error and its causes, in one line, as a log has them.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn listed_in_line(lanes: &[LostLane]) -> String {
    let lanes: Vec<String> = lanes.iter().map(ToString::to_string).collect();
    if lanes.is_empty() { String::new() } else { format!(" ({})", lanes.join("; ")) }
}

fn listed_contacts(contacts: &[(LaneAddress, JoinError)]) -> String {
    contacts.iter().map(|(contact, error)| format!("\n  {contact}: {}", with_causes(error))).collect()
}

fn listed(lanes: &[Arc<FailedLane>]) -> String {
    lanes.iter().map(|lane| format!("\n  {lane}")).collect()
}

/// The error for a message that is too long for the bytes that may be on their way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a message of {length} bytes: {window} bytes may be on their way to the peer, and a message has at most {longest}"
)]
pub struct MessageTooLong {
    /// The message's length in bytes.
    pub length: usize,
    /// The length of the longest message that can be sent, in bytes.
    pub longest: u64,
    /// The most bytes that may be on their way: the peer's [window](crate::StreamOptions::window),
    /// or this end's [`max_unacknowledged`](crate::StreamOptions::max_unacknowledged) if it is
    /// smaller.
    pub window: u64,
}

impl MessageTooLong {
    /// Compares a length with the longest message and the window of a stream.
    pub(crate) fn check(length: usize, (longest, window): (u64, u64)) -> Result<(), Self> {
        if length as u64 <= longest { Ok(()) } else { Err(Self { length, longest, window }) }
    }
}
