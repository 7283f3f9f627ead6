//! Carries connections of unchanged programs over rails, from a gate on one host to a gate on
//! another.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod carry;
mod counters;
mod door;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
#[cfg(feature = "prometheus")]
mod metrics;
mod plain;
pub mod policy;
mod proxy_header;
mod session;
mod socket;
pub mod socks;
pub mod status;
mod traffic;
mod wire;

pub use self::proxy_header::proxy_header;
pub use door::{Door, DoorError, DoorKind, Passage, Plain, Way};
pub use gate::{BindDoorsError, Gate, GateOptions, GateSecurity, ReloadError, StartError};
pub use plain::carry_plain;
pub use socket::reset_on_close;
pub use wire::Refusal;
