//! The command line of a build without TLS, which has none of its flags.

use anyhow::Result;
use rails_multirail::Security;

/// One end's flags of TLS.
pub trait TlsArgs: clap::Args {
    /// No TLS.
    ///
    /// # Errors
    /// None.
    fn security(&self) -> Result<Option<(&'static str, Security)>> {
        Ok(None)
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
