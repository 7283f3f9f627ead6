//! TLS on the command line: the certificate of the end that listens, and the roots that the end
//! that connects trusts.

use crate::{exit::Helped, print, stop::Renewal};
use anyhow::{Context, Result};
use rails_multirail::{
    Identity, KeyPin, Security, TlsClient, TlsServer,
    error::{CertificateFault, CertificateRefusal, TlsFailure},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// One end's flags of TLS.
pub trait TlsArgs: clap::Args {
    /// TLS, if it is requested. `called` is the host that the end that connects calls, if it calls
    /// one.
    ///
    /// # Errors
    /// A file cannot be read, or is not what the flag takes.
    fn security(&self, called: Option<&str>) -> Result<Option<Security>>;

    /// Reads the files again for the handshakes to come, at an end that listens with TLS. Files of
    /// no use change nothing but for a warning on stderr.
    fn renewal(&self) -> Option<Renewal> {
        None
    }
}

/// The end that listens.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS, instead of a secret")]
pub struct ServerTls {
    /// File with this end's certificate and those that it was signed by (PEM): encrypt by TLS 1.3.
    /// SIGHUP has this file, the key and the authorities read again, for new streams
    #[arg(long, value_name = "PATH", requires = "tls_key", conflicts_with_all = ["insecure", "secret_file", "no_encryption"])]
    tls_cert: Option<PathBuf>,
    /// File with the certificate's private key (PEM)
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File with the authorities (PEM) of whose certificates a client has to show one; without it
    /// any client may join
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// The server of these files, once they were read.
    #[arg(skip)]
    server: Arc<OnceLock<TlsServer>>,
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
        conflicts_with_all = ["insecure", "secret_file", "no_encryption", "tls_pin"]
    )]
    tls_ca: Option<PathBuf>,
    /// Name or address that the peer's certificate is for [default: the first host that is called]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
    /// The peer's key, as it prints it (SHA-256 of its SubjectPublicKeyInfo, hexadecimal or
    /// base64): encrypt by TLS 1.3
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["insecure", "secret_file", "no_encryption"])]
    tls_pin: Option<KeyPin>,
    /// File with this end's certificate (PEM), for an end that asks for one
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with its private key (PEM)
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs for ServerTls {
    fn security(&self, _: Option<&str>) -> Result<Option<Security>> {
        if self.server.get().is_none() {
            let Some((server, pin)) = self.read()? else { return Ok(None) };
            if let Some(pin) = pin {
                print::note(format_args!("its key, for --tls-pin: {pin}"));
            }
            if self.tls_client_ca.is_none() {
                print::note("warning: no --tls-client-ca: anyone who reaches the port can join, if encrypted");
            }
            // One thread reads the flags, so that no other has set the server meanwhile.
            let _ = self.server.set(server);
        }
        Ok(self.server.get().map(|server| Security::tls_server(server.clone())))
    }

    fn renewal(&self) -> Option<Renewal> {
        self.tls_cert.as_ref()?;
        let files = self.clone();
        Some(Box::new(move || files.renew()))
    }
}

impl ServerTls {
    /// Reads the files, if there are any.
    fn read(&self) -> Result<Option<(TlsServer, Option<KeyPin>)>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let identity = identity(certificate, key)?;
        let pin = identity.pin();
        let server = match &self.tls_client_ca {
            Some(path) => TlsServer::for_clients_of(identity, &read("--tls-client-ca", path)?),
            None => TlsServer::new(identity),
        };
        Ok(Some((server.with_context(|| format!("--tls-cert {}", certificate.display()))?, pin)))
    }

    /// Reads the files again.
    fn renew(&self) {
        match (self.read(), self.server.get()) {
            (Ok(Some((new, pin))), Some(server)) => {
                server.replace_by(&new);
                let pin = pin.map(|pin| format!("; its key, for --tls-pin: {pin}")).unwrap_or_default();
                print::note(format_args!("the certificate was read again{pin}"));
            }
            (Err(error), _) => print::note(format_args!("warning: the certificate stays as it was: {error:#}")),
            // The first reading of the files is still to come.
            (Ok(_), _) => {}
        }
    }
}

impl TlsArgs for ClientTls {
    fn security(&self, called: Option<&str>) -> Result<Option<Security>> {
        let client = match (&self.tls_ca, &self.tls_name, self.tls_pin) {
            (Some(path), name, None) => {
                let Some(name) = name.as_deref().or(called) else {
                    return Err(Helped::usage(
                        "--tls-ca says who signs the peer's certificate, and nothing whom it is for",
                        "give --tls-name besides",
                    ));
                };
                let client = TlsClient::trusting(&read("--tls-ca", path)?, name);
                client.with_context(|| format!("--tls-ca {} --tls-name {name}", path.display()))?
            }
            (None, None, Some(pin)) => TlsClient::pinned(pin).context("--tls-pin")?,
            _ if self.tls_cert.is_some() => {
                return Err(Helped::usage(
                    "--tls-cert says who this end is, and nothing whom it trusts",
                    "give --tls-ca or --tls-pin besides",
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
        Ok(Some(Security::tls_client(client)))
    }
}

/// What the user of the end that connects can change where TLS fails.
pub fn remedy(error: &TlsFailure) -> Option<&'static str> {
    Some(match error {
        TlsFailure::CertificateRequired => {
            "give --tls-cert and --tls-key, with a certificate that an authority of the peer's --tls-client-ca has signed"
        }
        TlsFailure::Refused(refusal) => match refusal {
            CertificateRefusal::Expired => {
                "have the certificate of --tls-cert renewed, and compare the clocks of both ends"
            }
            CertificateRefusal::UnknownIssuer | CertificateRefusal::Signature => {
                "the peer's --tls-client-ca has the authorities that it trusts: the one that signed --tls-cert has to be \
                 among them"
            }
            _ => OPENSSL,
        },
        TlsFailure::Certificate(fault) => match fault {
            CertificateFault::Expired { .. } | CertificateFault::NotYetValid { .. } => {
                "have the peer's certificate renewed (SIGHUP has the peer read its file again), and compare the clocks of \
                 both ends"
            }
            CertificateFault::UnknownIssuer | CertificateFault::Signature => {
                "--tls-ca takes the authority that signed the peer's certificate, or that certificate itself if it signed \
                 itself; or trust the peer's key by --tls-pin, as the peer prints it when it starts"
            }
            CertificateFault::OtherName { names, .. } if !names.is_empty() => {
                "give one of these names by --tls-name; the default is the first host that is called"
            }
            CertificateFault::OtherName { .. } | CertificateFault::OfAuthority => OPENSSL,
            CertificateFault::OtherKey { .. } => {
                "the peer prints its key's pin when it starts: if it is this one, give it by --tls-pin; if not, somebody \
                 else answers in the peer's place"
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// The remedy for the certificates that `openssl req -x509` makes if nothing else is said.
const OPENSSL: &str = "`openssl req -x509` alone makes an authority's certificate without names: add `-addext \
                       basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:NAME` (or IP:ADDRESS); or trust the \
                       key itself by --tls-pin";

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
