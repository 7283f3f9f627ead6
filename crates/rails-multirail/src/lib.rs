//! One logical stream over several rails, with one pinned tokio runtime per rail.
//!
//! ```
//! use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan};
//! use rails_topo::Topology;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Planning decides and explains; building pins threads, sets memory policies, and reads both back.
//! let plan = plan::plan(&Topology::detect()?, &RailRequest::Loopback(Some(2)))?;
//! let rails = Rails::build(&plan)?;
//! let options = StreamOptions::new(Secret::pre_shared(b"at least sixteen bytes")?);
//! let addresses = ["127.0.0.1:0".parse()?, "127.0.0.2:0".parse()?];
//! let mut listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
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
//! - Bytes arrive in order, each once, or the stream fails with a [`StreamError`] that says how every lane ended. Losing a lane
//!   loses nothing while another is up.
//! - Memory per stream is bounded: this end's window for what arrives (twice that for the buffers behind it), the send buffer and the other
//!   end's window, at most 1 GiB of it, for what is sent; where it is encrypted, the longest chunk besides for each lane.
//! - What was written is with the other end once the write side has been shut down; a stream that is dropped before is an error there.
//! - What others can do is up to the [`Security`]: with a pre-shared secret nobody joins who does not know it; encrypted, or by
//!   TLS, nobody on the way reads or changes a byte either.
//!
//! # Map
//! [`mod@plan`] (what would be placed where, and why), [`runtime`] (one pinned runtime), [`Rails`] (a plan carried out),
//! [`MultiRailStream`] and [`MultiRailListener`], [`security`] (who may join, and what is encrypted), [`proto`] (the state machines, without I/O), [`error`].
//!
//! # What it does not do
//! It does not move interrupts. A lane whose peer falls silent is given up when TCP does (`TCP_USER_TIMEOUT`, 20 s by default), or when the
//! end that opened the stream has dialled it anew; until then other lanes take over what it holds.
#![forbid(unsafe_code)]

pub mod error;
mod options;
pub mod plan;
pub mod proto;
mod rails;
pub mod runtime;
pub mod security;
mod stream;

pub use error::{AddLaneError, BindListenerError, ListenerClosed, OpenError, StreamError};
pub use options::{Limits, OptionError, StreamOptions};
pub use plan::{RailId, RailPlan, RailRequest, plan};
pub use proto::{
    handshake::{Secret, StreamId},
    policy::Policy,
};
pub use rails::{Rail, Rails};
pub use security::Security;
pub use stream::{Driver, LaneStats, MultiRailListener, MultiRailStream, StreamEvent, StreamStats};
