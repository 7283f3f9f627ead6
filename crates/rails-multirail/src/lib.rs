//! One logical stream over several rails, with one pinned tokio runtime per rail.
#![forbid(unsafe_code)]

pub mod error;
mod options;
pub mod plan;
pub mod proto;
mod rails;
pub mod runtime;
mod stream;

pub use error::{BindListenerError, ListenerClosed, OpenError, StreamError};
pub use options::{OptionError, StreamOptions};
pub use plan::{RailId, RailPlan, RailRequest, plan};
pub use proto::{
    handshake::{Secret, StreamId},
    scheduler::Policy,
};
pub use rails::{Rail, Rails};
pub use stream::{LaneStats, MultiRailListener, MultiRailStream, StreamStats};
