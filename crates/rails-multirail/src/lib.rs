//! One logical stream over several rails, with one pinned tokio runtime per rail.
//!
//! ```
//! use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan_rails};
//! use rails_topo::Topology;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Planning decides and explains; building pins threads, sets memory policies, and reads both back.
//! let plan = plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?;
//! let rails = Rails::build(&plan)?;
//! let options = StreamOptions::new(Secret::pre_shared(b"at least sixteen bytes")?);
//! let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
//! let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
//! let mut far = listener.accept().await?;
//! near.write_all(b"striped").await?;
//! near.shutdown().await?;
//! let mut bytes = Vec::new();
//! far.read_to_end(&mut bytes).await?;
//! assert_eq!(bytes, b"striped");
//! # Ok(())
//! # }
//! ```
//!
//! # Contract
//! - Bytes arrive in order, each once, or the stream fails with a [`StreamError`] that says how
//!   every lost lane ended. Losing a lane loses no bytes: the other lanes send the bytes that the
//!   peer does not have, the stream detects a stalled lane within a few round trips, and the end
//!   that opened the stream dials lost and stalled lanes again as long as the stream lasts. With no
//!   lane left the stream waits for [`StreamOptions::outage_limit`] and then fails.
//!   [`MultiRailStream::events`] reports all of this.
//! - Memory per stream is bounded. Arriving bytes take at most this end's
//!   [window](StreamOptions::window) and a tenth of it, for every behaviour of the peer. Sent bytes
//!   take at most the send buffer and the peer's window, up to 1 GiB of it. An encrypted stream
//!   takes the longest chunk besides for each lane.
//! - The peer has all written bytes after the write side has been shut down. A stream that is
//!   dropped before that delivers them in the background, as a `TcpStream` does, and the process
//!   ends after that; [`MultiRailStream::abort`] gives them up.
//! - [`Security`] decides who can join and read. With a pre-shared secret, a peer joins only if it
//!   knows the secret that opened the stream; a listener may know each of its peers
//!   ([`MultiRailStream::peer_name`]) by another one. With encryption or TLS, no one on the path
//!   can read or change a byte.
//!
//! # Map
//! [`planner`] (the placement of rails, with reasons), [`Pairing`] (pairs of a local and a remote
//! rail), [`runtime`] (one pinned runtime), [`Rails`] (the running rails of a plan, which
//! [follow](Rails::follow) the machine), [`MultiRailStream`] and [`MultiRailListener`],
//! [`MultiRailMessages`] (a stream of messages), [`MultiRailSession`] (many streams and datagrams
//! over the same lanes), [`Security`] (authentication and encryption),
//! [`pipeline`] (stages on rails, joined by channels), [`error`]. The protocol itself, without I/O,
//! is the crate [`rails_proto`].
//!
//! # Limits
//! This crate moves no interrupts, but for [`FollowOptions::put_interrupts_back`]. A stream waits
//! for a peer whose machine runs but whose process is stopped, as TCP does.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(any(feature = "axum", feature = "h3", feature = "tonic", feature = "web-transport"))]
mod adapters;
mod addresses;
mod blocking;
pub mod error;
mod follow;
mod last_work;
mod options;
pub mod pipeline;
pub mod planner;
#[cfg(feature = "prometheus")]
mod prometheus;
mod rail_stats;
mod rails;
mod routes;
pub mod runtime;
mod serve;
mod session;
mod stream;

#[cfg(any(feature = "axum", feature = "tonic"))]
pub use adapters::StreamInfo;
#[cfg(feature = "h3")]
pub use adapters::h3;
#[cfg(feature = "web-transport")]
pub use adapters::web_transport;
pub use addresses::{ResolveError, ToLaneAddresses, connect_first, resolve};
pub use error::{
    AddLaneError, BindListenerError, CloseError, EndpointError, ListenerClosed, MessageTooLong, NoTransport, OpenError,
    OptionError, PlanLanesError, SetSecurityError, StreamError, Undelivered, UndeliveredStream,
};
pub use follow::{FollowError, FollowOptions};
pub use options::{Driver, Limits, StreamOptions};
pub use planner::{RailPlan, RailRequest, plan_rails};
#[cfg(feature = "prometheus")]
pub use prometheus::{RailMetrics, StreamMetrics};
pub use rail_stats::RailStats;
pub use rails::{Rail, RailEvent, RailEventKind, Rails};
#[cfg(feature = "tls")]
pub use rails_proto::security::{Identity, KeyPin, PinError, TlsClient, TlsError, TlsServer};
pub use rails_proto::{
    AddressError, LaneAddress, Scheme,
    chunk::Priority,
    handshake::{HandshakeError, Limit, Mode, Refusal, StreamId},
    messages::{Message, longest_message},
    pairing::{
        LaneCandidate, Pair, Pairing, RailId, Relation, Unpaired, in_order, in_order_by_name, limit_names, pair,
    },
    parameters::MAX_LANES,
    policy::{self, Policy, StripePolicy},
    record,
    secret::{PeerSecrets, PeerSecretsError, Secret, SecretTooShort},
    security::Security,
    session::{
        ByteCount, EventKind, Failure, LaneTimes, NotForMessages, Reissued, Reordered, StallCause, Stalls,
        StandstillCause, WindowUse,
    },
    stream_number::{Direction, Side, StreamNumber},
};
pub use routes::Routes;
pub use serve::{ServeError, Service};
#[cfg(any(feature = "h3", feature = "web-transport"))]
pub use session::PolledSession;
pub use session::{
    ClosedStream, MultiRailSession, ReadError, ReadToEndError, RecvMessageError, RecvMessages, RecvStream,
    SendDatagramError, SendMessageError, SendMessages, SendStream, SessionError, WriteError,
};
pub use stream::{
    Decisions, LaneStats, MessageReceiver, MessageSender, MultiRailListener, MultiRailMessages, MultiRailStream,
    OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, StreamEvent, StreamStats, ThreadStats, TrySendError,
    WriteHalf,
};
