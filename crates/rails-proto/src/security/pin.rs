//! Trust in one key, without a certificate authority.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::{fmt, str::FromStr, sync::Arc};

/// The SHA-256 of a certificate's public key (its SubjectPublicKeyInfo, as in RFC 7469, section
/// 2.4): it stays the same when the certificate is renewed with the same key.
///
/// Parsing also takes base64; a pin is written as 64 hexadecimal digits, as `openssl` prints it:
///
/// ```text
/// openssl x509 -in cert.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -hex
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyPin([u8; 32]);

/// Text that is no pin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no pin: a pin is a SHA-256, as 64 hexadecimal digits or 44 characters of base64")]
pub struct PinError {
    /// The text.
    pub text: String,
}

impl KeyPin {
    /// The pin of the key of a certificate in DER; `None` if it is no X.509 certificate.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let certificate = CertificateDer::from(certificate);
        let key = ParsedCertificate::try_from(&certificate).ok()?.subject_public_key_info();
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, &key).as_ref());
        Some(Self(pin))
    }
}

impl FromStr for KeyPin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        let bytes = if text.len() == 64 { from_hex(text) } else { from_base64(text) };
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(|| PinError { text: text.to_owned() })
    }
}

impl fmt::Display for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPin({self})")
    }
}

/// Takes only certificates of one key, and checks nothing else in them. As always in TLS, the
/// peer's signature of the handshake proves that it has the key.
#[derive(Debug)]
pub(super) struct PinVerifier {
    pub(super) pin: KeyPin,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

/// A server has another key than the one that is trusted.
#[derive(Debug, thiserror::Error)]
#[error("its key is {key}, and not the pinned {pin}")]
pub(crate) struct OtherKey {
    pub(crate) key: KeyPin,
    pub(crate) pin: KeyPin,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match KeyPin::of(end_entity) {
            Some(pin) if pin == self.pin => Ok(ServerCertVerified::assertion()),
            Some(key) => Err(CertificateError::Other(OtherError(Arc::new(OtherKey { key, pin: self.pin }))).into()),
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    /// No end here speaks TLS 1.2.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(rustls::PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    Some(digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

/// RFC 4648, section 4, for the one length that a pin has.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.strip_suffix('=').filter(|digits| digits.len() == 43)?;
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(32), 0u32, 0);
    for digit in digits.bytes() {
        let value = ALPHABET.iter().position(|known| *known == digit)? as u32;
        bits = bits << 6 | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_hexadecimal_and_as_base64() {
        // SHA-256 of the empty string.
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let pin: KeyPin = hex.parse().unwrap();
        assert_eq!(pin.to_string(), hex);
        assert_eq!("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=".parse(), Ok(pin));
        assert_eq!(hex.to_uppercase().parse(), Ok(pin));
    }

    #[test]
    fn another_key_is_named() {
        let (key, pin) = (KeyPin([0xab; 32]), KeyPin([0; 32]));
        let error = Error::from(CertificateError::Other(OtherError(Arc::new(OtherKey { key, pin }))));
        let error = crate::handshake::tls::Error::from(error);
        assert!(error.to_string().ends_with(&format!(": its key is {key}, and not the pinned {pin}")), "{error}");
    }

    #[test]
    fn texts_that_are_no_pin() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85";
        for text in ["", "pin", hex, &format!("{hex}x"), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=", "ä"] {
            assert_eq!(text.parse::<KeyPin>(), Err(PinError { text: text.to_owned() }));
        }
    }
}
