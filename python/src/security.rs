//! The protection of links.

use crate::error::{Class, words};
use pyo3::prelude::*;
use rails_multirail::Secret;

/// A way to protect links.
#[pyclass(frozen, module = "lambdaram._lambdaram")]
pub(crate) struct Security {
    security: rails_multirail::Security,
    key_pin: Option<String>,
}

impl Security {
    pub(crate) fn protection(&self) -> rails_multirail::Security {
        self.security.clone()
    }

    fn of(security: rails_multirail::Security) -> Self {
        Self { security, key_pin: None }
    }
}

#[pymethods]
impl Security {
    /// No protection: anyone who reaches an address may read.
    #[staticmethod]
    fn insecure() -> Self {
        Self::of(rails_multirail::Security::insecure())
    }

    /// A secret of both ends, which proves who they are; with `encrypt`, keys are made of it too.
    #[staticmethod]
    fn of_secret(py: Python<'_>, secret: &[u8], encrypt: bool) -> PyResult<Self> {
        let secret = Secret::pre_shared(secret).map_err(|error| Class::Option.exception(py, &words(&error)))?;
        if encrypt { encrypted(py, secret) } else { Ok(Self::of(rails_multirail::Security::psk(secret))) }
    }

    /// TLS of the end that connects: the authorities of the server's certificate (PEM) with the
    /// name in it, or the pin of the server's key; and this end's certificate with its key (PEM).
    #[staticmethod]
    fn tls_client(
        py: Python<'_>,
        authorities: Option<(Vec<u8>, String)>,
        pin: Option<&str>,
        identity: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Self> {
        tls::client(authorities, pin, identity).map_err(|error| Class::Option.exception(py, &error))
    }

    /// TLS of the end that listens: the certificate with its key, and the authorities of the
    /// certificates that clients have to show, all PEM.
    #[staticmethod]
    fn tls_server(py: Python<'_>, identity: (Vec<u8>, Vec<u8>), client_authorities: Option<Vec<u8>>) -> PyResult<Self> {
        tls::server(identity, client_authorities).map_err(|error| Class::Option.exception(py, &error))
    }

    /// The pin of the key of the end that listens.
    #[getter]
    fn key_pin(&self) -> Option<String> {
        self.key_pin.clone()
    }
}

#[cfg(feature = "encryption")]
fn encrypted(_: Python<'_>, secret: Secret) -> PyResult<Security> {
    Ok(Security::of(rails_multirail::Security::encrypted(secret)))
}

#[cfg(not(feature = "encryption"))]
fn encrypted(py: Python<'_>, _: Secret) -> PyResult<Security> {
    Err(Class::Option.exception(py, NO_ENCRYPTION))
}

#[cfg(not(feature = "encryption"))]
const NO_ENCRYPTION: &str = "this build of the package does not encrypt: build it with its feature `encryption`, or \
                             give encrypt=False at both ends";

/// The errors are texts, which begin with the names of options.
#[cfg(feature = "tls")]
mod tls {
    use super::{Security, words};
    use rails_multirail::{Identity, KeyPin, Security as Protection, TlsClient, TlsError, TlsServer};

    pub(super) fn client(
        authorities: Option<(Vec<u8>, String)>,
        pin: Option<&str>,
        identity: Option<(Vec<u8>, Vec<u8>)>,
    ) -> Result<Security, String> {
        let client = match (authorities, pin) {
            (Some((authorities, name)), None) => {
                TlsClient::trusting(&authorities, &name).map_err(|error| of("tls_ca and tls_name", &error))
            }
            (None, Some(pin)) => {
                let pin: KeyPin = pin.parse().map_err(|error| format!("tls_pin: {error}"))?;
                TlsClient::pinned(pin).map_err(|error| of("tls_pin", &error))
            }
            _ => Err("the server is trusted by tls_ca and tls_name, or by tls_pin".into()),
        }?;
        let client = match identity {
            Some(identity) => client.identity(identity_of(&identity)?).map_err(|error| of(IDENTITY, &error))?,
            None => client,
        };
        Ok(Security::of(Protection::tls_client(client)))
    }

    pub(super) fn server(
        identity: (Vec<u8>, Vec<u8>),
        client_authorities: Option<Vec<u8>>,
    ) -> Result<Security, String> {
        let identity = identity_of(&identity)?;
        let key_pin = identity.pin().map(|pin| pin.to_string());
        let server = match client_authorities {
            Some(authorities) => TlsServer::for_clients_of(identity, &authorities)
                .map_err(|error| of("tls_cert, tls_key and tls_client_ca", &error)),
            None => TlsServer::new(identity).map_err(|error| of(IDENTITY, &error)),
        }?;
        Ok(Security { security: Protection::tls_server(server), key_pin })
    }

    fn identity_of((certificate, key): &(Vec<u8>, Vec<u8>)) -> Result<Identity, String> {
        Identity::from_pem(certificate, key).map_err(|error| of(IDENTITY, &error))
    }

    fn of(options: &str, error: &TlsError) -> String {
        format!("{options}: {}", words(error))
    }

    const IDENTITY: &str = "tls_cert and tls_key";
}

#[cfg(not(feature = "tls"))]
mod tls {
    use super::Security;

    pub(super) fn client(
        _: Option<(Vec<u8>, String)>,
        _: Option<&str>,
        _: Option<(Vec<u8>, Vec<u8>)>,
    ) -> Result<Security, String> {
        Err(ABSENT.into())
    }

    pub(super) fn server(_: (Vec<u8>, Vec<u8>), _: Option<Vec<u8>>) -> Result<Security, String> {
        Err(ABSENT.into())
    }

    const ABSENT: &str = "this build of the package has no TLS (feature `tls`)";
}
