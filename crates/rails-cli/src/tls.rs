//! TLS on the command line: the certificate of the end that listens, and the roots that the end
//! that connects trusts.

use crate::{exit::Helped, print};
use anyhow::{Context, Result};
use rails_multirail::{Identity, KeyPin, Security, TlsClient, TlsServer};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// One end's flags of TLS.
pub trait TlsArgs: clap::Args {
    /// TLS, if it is requested, and the flag that requested it.
    ///
    /// # Errors
    /// A file cannot be read, or is not what the flag takes.
    fn security(&self) -> Result<Option<(&'static str, Security)>>;
}

/// The end that listens.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS, instead of a secret")]
pub struct ServerTls {
    /// File with this end's certificate and those that it was signed by (PEM): encrypt by TLS 1.3
    #[arg(long, value_name = "PATH", requires = "tls_key", conflicts_with_all = ["insecure", "secret_file", "encrypt"])]
    tls_cert: Option<PathBuf>,
    /// File with the certificate's private key (PEM)
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File with the authorities (PEM) of whose certificates a client has to show one; without it
    /// any client may join
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

/// The end that connects.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS, instead of a secret")]
pub struct ClientTls {
    /// File with the authorities (PEM) of which one has signed the peer's certificate: encrypt by
    /// TLS 1.3
    #[arg(
        long,
        value_name = "PATH",
        requires = "tls_name",
        conflicts_with_all = ["insecure", "secret_file", "encrypt", "tls_pin"]
    )]
    tls_ca: Option<PathBuf>,
    /// Name or address that the peer's certificate is for
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
    /// The peer's key, as it prints it (SHA-256 of its SubjectPublicKeyInfo, hexadecimal or
    /// base64): encrypt by TLS 1.3
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["insecure", "secret_file", "encrypt"])]
    tls_pin: Option<KeyPin>,
    /// File with this end's certificate (PEM), for an end that asks for one
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with its private key (PEM)
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs for ServerTls {
    fn security(&self) -> Result<Option<(&'static str, Security)>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let identity = identity(certificate, key)?;
        if let Some(pin) = identity.pin() {
            print::note(format_args!("its key, for --tls-pin: {pin}"));
        }
        let server = match &self.tls_client_ca {
            Some(path) => TlsServer::for_clients_of(identity, &read("--tls-client-ca", path)?),
            None => {
                print::note("warning: no --tls-client-ca: anyone who reaches the port can join, if encrypted");
                TlsServer::new(identity)
            }
        };
        let server = server.with_context(|| format!("--tls-cert {}", certificate.display()))?;
        Ok(Some(("--tls-cert", Security::tls_server(server))))
    }
}

impl TlsArgs for ClientTls {
    fn security(&self) -> Result<Option<(&'static str, Security)>> {
        let (flag, client) = match (&self.tls_ca, &self.tls_name, self.tls_pin) {
            (Some(path), Some(name), None) => {
                let client = TlsClient::trusting(&read("--tls-ca", path)?, name);
                ("--tls-ca", client.with_context(|| format!("--tls-ca {} --tls-name {name}", path.display()))?)
            }
            (None, None, Some(pin)) => ("--tls-pin", TlsClient::pinned(pin).context("--tls-pin")?),
            _ if self.tls_cert.is_some() => {
                return Err(Helped::usage(
                    "--tls-cert says who this end is, and nothing whom it trusts",
                    "give --tls-ca and --tls-name, or --tls-pin, besides",
                ));
            }
            _ => return Ok(None),
        };
        let client = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => client
                .identity(identity(certificate, key)?)
                .with_context(|| format!("--tls-cert {}", certificate.display()))?,
            _ => client,
        };
        Ok(Some((flag, Security::tls_client(client))))
    }
}

/// A certificate with its private key. Warns on stderr of a key that others may read.
///
/// # Errors
/// A file cannot be read, or is not what it should be.
pub fn identity(certificate: &Path, key: &Path) -> Result<Identity> {
    let context = || format!("--tls-cert {} --tls-key {}", certificate.display(), key.display());
    let mode = fs::metadata(key).with_context(|| format!("--tls-key {}", key.display()))?.permissions().mode();
    if mode & 0o077 != 0 {
        print::note(format_args!(
            "warning: {} is open to others than its owner (mode {:o}); mend it with `chmod 600 {0}`",
            key.display(),
            mode & 0o777
        ));
    }
    Identity::from_pem(&read("--tls-cert", certificate)?, &read("--tls-key", key)?).with_context(context)
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{flag} {}", path.display()))
}
