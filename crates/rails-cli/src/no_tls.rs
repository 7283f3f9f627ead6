//! The command line of a build without TLS, which has none of its flags.

use crate::stop::Renewal;
use anyhow::Result;
use rails_multirail::{Security, error::TlsFailure};

/// One end's flags of TLS.
pub trait TlsArgs: clap::Args {
    /// No TLS.
    ///
    /// # Errors
    /// None.
    fn security(&self, _: Option<&str>) -> Result<Option<Security>> {
        Ok(None)
    }

    /// Nothing is to be read again.
    fn renewal(&self) -> Option<Renewal> {
        None
    }
}

/// The end that listens.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerTls {}

/// The end that connects.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientTls {}

impl TlsArgs for ServerTls {}

impl TlsArgs for ClientTls {}

/// No remedy.
pub fn remedy(_: &TlsFailure) -> Option<&'static str> {
    None
}
