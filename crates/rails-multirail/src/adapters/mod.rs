//! Adapters of listeners, streams and sessions for axum, h3, tonic and web-transport-trait.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "h3")]
pub mod h3;
#[cfg(any(feature = "axum", feature = "tonic"))]
mod stream_info;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(feature = "web-transport")]
pub mod web_transport;

#[cfg(any(feature = "axum", feature = "tonic"))]
pub use stream_info::StreamInfo;
