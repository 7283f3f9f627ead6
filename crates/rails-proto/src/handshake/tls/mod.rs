//! TLS 1.3 inside the handshake, with the crate's feature `tls`. Without it no value of these types
//! exists.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod fault;
#[cfg(feature = "tls")]
mod session;

#[cfg(not(feature = "tls"))]
pub(super) use absent::Session;
#[cfg(not(feature = "tls"))]
pub use absent::{Client, Error, Server};
#[cfg(feature = "tls")]
pub use fault::{CertificateFault, CertificateRefusal, Error};
#[cfg(feature = "tls")]
pub(super) use session::Session;
#[cfg(feature = "tls")]
pub use session::{Client, Server};
