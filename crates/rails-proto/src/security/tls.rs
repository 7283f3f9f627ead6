//! Certificates and trust.

use super::{KeyPin, pin::PinVerifier};
use crate::handshake::{Credentials, tls};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs::default_provider},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{Error as PemError, PemObject},
    },
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use std::{fmt, sync::Arc};

/// A certificate with the chain of certificates that signed it, and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// The connecting end of TLS: the servers that it trusts, and its certificate if the server asks
/// for one.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The listening end of TLS: its certificate, and the clients that it takes. Clones are the same
/// server: [`TlsServer::replace_by`] renews the certificate of all of them.
#[derive(Clone)]
pub struct TlsServer(tls::Server);

/// The reason why certificates and keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The PEM text has no certificate.
    #[error("there is no certificate in it (`-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    /// A certificate's PEM cannot be read.
    #[error("its certificates cannot be read")]
    Certificate(#[source] PemError),
    /// A key's PEM cannot be read, or there is none.
    #[error("its private key cannot be read")]
    Key(#[source] PemError),
    /// No certificate can have this name.
    #[error("`{0}` is neither a DNS name nor an IP address")]
    Name(String),
    /// rustls rejects certificates and key: the key does not fit the certificate, or a certificate
    /// is no authority.
    #[error("they cannot be used")]
    Unusable(#[source] rustls::Error),
}

impl Identity {
    /// Reads PEM text: the certificate first, then the chain of certificates that signed it, and
    /// the key (PKCS #8, SEC 1 or PKCS #1).
    ///
    /// # Errors
    /// [`TlsError`] if one of them is missing or broken.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        Ok(Self { chain: certificates_of(certificates)?, key })
    }

    /// The pin of the identity's key; `None` if the certificate cannot be parsed.
    pub fn pin(&self) -> Option<KeyPin> {
        KeyPin::of(self.chain.first()?)
    }
}

impl TlsClient {
    /// Trusts a server whose certificate is valid for `name` (a DNS name or an IP address) and
    /// signed by one of these authorities, in PEM.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn trusting(authorities: &[u8], name: &str) -> Result<Self, TlsError> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(authorities)?.into(), provider()).build();
        let verifier = verifier.map_err(|error| TlsError::Unusable(rustls::Error::General(error.to_string())))?;
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        Self::with(verifier, name)
    }

    /// Trusts the server that has this key, regardless of the certificate's signer, names and
    /// dates.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn pinned(pin: KeyPin) -> Result<Self, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        // The verifier checks no name, and the client sends none, but rustls requires one. RFC 6761
        // reserves this one.
        let name = ServerName::try_from("rails.invalid").map_err(|_| TlsError::Name("rails.invalid".to_owned()))?;
        Self::with(Arc::new(PinVerifier { pin, algorithms }), name)
    }

    /// Presents this certificate to a server that asks for one.
    ///
    /// # Errors
    /// [`TlsError::Unusable`] if key and certificate do not fit each other.
    pub fn identity(self, identity: Identity) -> Result<Self, TlsError> {
        let certified =
            CertifiedKey::from_der(identity.chain, identity.key, &provider()).map_err(TlsError::Unusable)?;
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Ok(Self { config: Arc::new(config), ..self })
    }

    fn with(verifier: Arc<dyn ServerCertVerifier>, name: ServerName<'static>) -> Result<Self, TlsError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::Unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Every stream is a session of its own: a resumed session would make the second stream as old as
        // the first.
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self { config: Arc::new(config), name })
    }

    pub(super) fn credentials(&self) -> Credentials {
        Credentials::TlsClient(tls::Client::new(self.config.clone(), self.name.clone()))
    }
}

impl TlsServer {
    /// Presents this certificate, and takes any client.
    ///
    /// # Errors
    /// [`TlsError::Unusable`] if key and certificate do not fit each other.
    pub fn new(identity: Identity) -> Result<Self, TlsError> {
        Self::with(identity, WebPkiClientVerifier::no_client_auth())
    }

    /// Presents this certificate, and takes clients whose certificates are signed by one of these
    /// authorities, in PEM.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn for_clients_of(identity: Identity, authorities: &[u8]) -> Result<Self, TlsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(authorities)?.into(), provider()).build();
        let verifier = verifier.map_err(|error| TlsError::Unusable(rustls::Error::General(error.to_string())))?;
        Self::with(identity, verifier)
    }

    /// Takes the certificate and the authorities of `other` from now on, at every end that has a
    /// clone of this server. Handshakes under way end as they began, and open streams go on.
    pub fn replace_by(&self, other: &Self) {
        self.0.replace_by(&other.0);
    }

    fn with(identity: Identity, verifier: Arc<dyn ClientCertVerifier>) -> Result<Self, TlsError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::Unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(identity.chain, identity.key)
            .map_err(TlsError::Unusable)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Self(tls::Server::new(config)))
    }

    pub(super) fn credentials(&self) -> Credentials {
        Credentials::TlsServer(self.0.clone())
    }
}

/// Shows the pin, and nothing of the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(TlsError::Certificate)?;
    if found.is_empty() { Err(TlsError::NoCertificate) } else { Ok(found) }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_of(pem)? {
        roots.add(certificate).map_err(TlsError::Unusable)?;
    }
    Ok(roots)
}

/// Names the provider, so that it does not depend on other code in the process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

/// Prevents the use of a certificate of another service (RFC 7301).
const ALPN: &[u8] = b"rails/5";
