//! Why TLS failed, in words.

use crate::security::{KeyPin, OtherKey};
use rustls::{AlertDescription, CertificateError, OtherError};
use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Why TLS failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer asks for a certificate, and this end has shown none.
    #[error("the peer asks for a certificate, and this end has shown none")]
    CertificateRequired,
    /// The peer has refused this end's certificate.
    #[error("the peer has refused this end's certificate: {0}")]
    Refused(CertificateRefusal),
    /// This end asks for a certificate, and the peer has shown none.
    #[error("the peer has shown no certificate, and this end asks for one")]
    NoCertificate,
    /// This end refuses the peer's certificate.
    #[error("this end refuses the peer's certificate: {0}")]
    Certificate(CertificateFault),
    /// TLS failed in another way.
    #[error(transparent)]
    Other(rustls::Error),
}

/// Why the peer has refused this end's certificate, as far as its alert says (RFC 8446, section
/// 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateRefusal {
    /// The certificate's time is over, or has not begun.
    #[error("it has expired or is not valid yet, by the peer's clock")]
    Expired,
    /// The peer trusts no authority that signed the certificate.
    #[error("no authority that the peer trusts has signed it")]
    UnknownIssuer,
    /// The signature of the certificate, or of the handshake by its key, is wrong.
    #[error("its signature is wrong for the peer, which may trust another authority of the same name")]
    Signature,
    /// The certificate is not for the name that the peer expects, or malformed.
    #[error("it is not for the name that the peer expects, or malformed")]
    Bad,
    /// The peer has another reason, such as another key than the pinned one.
    #[error("the peer's log has the reason")]
    Unknown,
}

/// Why this end refuses the peer's certificate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateFault {
    /// The certificate's time is over.
    #[error("it expired on {}, and the clock here is at {}", date(*.end), date(*.now))]
    Expired {
        /// The end of the certificate's time.
        end: SystemTime,
        /// The time of the check.
        now: SystemTime,
    },
    /// The certificate's time has not begun.
    #[error("it is valid from {} on, and the clock here is at {}", date(*.begin), date(*.now))]
    NotYetValid {
        /// The beginning of the certificate's time.
        begin: SystemTime,
        /// The time of the check.
        now: SystemTime,
    },
    /// No trusted authority has signed the certificate.
    #[error("no authority that this end trusts has signed it")]
    UnknownIssuer,
    /// The signature of the certificate, or of the handshake by its key, is wrong.
    #[error("its signature is wrong: an authority of the same name, with another key, may be the one that is trusted")]
    Signature,
    /// The certificate is not for the expected name.
    #[error("it is not for `{expected}`, but for {}", listed(.names))]
    OtherName {
        /// The expected name.
        expected: String,
        /// The certificate's names, at most [`CertificateFault::MAX_NAMES`] of them.
        names: Vec<String>,
    },
    /// The certificate is that of an authority.
    #[error("it is an authority's certificate (CA:TRUE), which no end of a connection may have")]
    OfAuthority,
    /// The certificate has another key than the pinned one.
    #[error("its key is {key}, and not the pinned {pin}")]
    OtherKey {
        /// The certificate's key.
        key: KeyPin,
        /// The pinned key.
        pin: KeyPin,
    },
    /// The certificate has another fault.
    #[error("{0}")]
    Other(CertificateError),
}

impl CertificateFault {
    /// The most names of a certificate that an error lists.
    pub const MAX_NAMES: usize = 8;
}

impl From<rustls::Error> for Error {
    fn from(error: rustls::Error) -> Self {
        use CertificateRefusal::*;
        match error {
            rustls::Error::InvalidCertificate(error) => Self::Certificate(error.into()),
            rustls::Error::NoCertificatesPresented => Self::NoCertificate,
            rustls::Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateRequired => Self::CertificateRequired,
                AlertDescription::CertificateExpired => Self::Refused(Expired),
                AlertDescription::UnknownCA => Self::Refused(UnknownIssuer),
                AlertDescription::DecryptError => Self::Refused(Signature),
                AlertDescription::BadCertificate => Self::Refused(Bad),
                AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRevoked
                | AlertDescription::UnsupportedCertificate => Self::Refused(Unknown),
                alert => Self::Other(rustls::Error::AlertReceived(alert)),
            },
            error => Self::Other(error),
        }
    }
}

impl From<CertificateError> for CertificateFault {
    fn from(error: CertificateError) -> Self {
        match error {
            CertificateError::ExpiredContext { time, not_after } => {
                Self::Expired { end: system_time(not_after.as_secs()), now: system_time(time.as_secs()) }
            }
            CertificateError::NotValidYetContext { time, not_before } => {
                Self::NotYetValid { begin: system_time(not_before.as_secs()), now: system_time(time.as_secs()) }
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::BadSignature => Self::Signature,
            CertificateError::NotValidForNameContext { expected, presented } => Self::OtherName {
                expected: expected.to_str().into_owned(),
                names: presented.iter().take(Self::MAX_NAMES).map(|name| plain(name)).collect(),
            },
            CertificateError::Other(OtherError(other)) => match other.downcast_ref() {
                Some(OtherKey { key, pin }) => Self::OtherKey { key: *key, pin: *pin },
                // rustls names no type of webpki's.
                None if other.to_string() == "CaUsedAsEndEntity" => Self::OfAuthority,
                None => Self::Other(CertificateError::Other(OtherError(other))),
            },
            error => Self::Other(error),
        }
    }
}

/// A name as webpki shows it, such as `DnsName("host")`, without its kind; at most 80 characters.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').escape_debug().take(80).collect()
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no name at all (it has no subjectAltName)".to_owned(),
        names => names.join(", "),
    }
}

fn system_time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.min(END_OF_DATES))
}

/// A time as RFC 3339 writes it.
fn date(time: SystemTime) -> impl fmt::Display {
    humantime::format_rfc3339_seconds(time)
}

/// The last second of the year 9999, behind which a certificate has no date.
const END_OF_DATES: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{ServerName, UnixTime};

    fn said(error: CertificateError) -> String {
        Error::from(rustls::Error::from(error)).to_string()
    }

    #[test]
    fn dates_of_certificates() {
        let [time, end] = [1_780_000_000, u64::MAX].map(|secs| UnixTime::since_unix_epoch(Duration::from_secs(secs)));
        let expired = said(CertificateError::ExpiredContext { time, not_after: time });
        assert!(expired.ends_with("it expired on 2026-05-28T20:26:40Z, and the clock here is at 2026-05-28T20:26:40Z"));
        let early = said(CertificateError::NotValidYetContext { time, not_before: end });
        assert!(early.contains("it is valid from 9999-12-31T23:59:59Z on"), "{early}");
    }

    #[test]
    fn names_of_certificates() {
        let of = |presented: Vec<String>| {
            let expected = ServerName::try_from("a.example").unwrap();
            said(CertificateError::NotValidForNameContext { expected, presented })
        };
        assert!(of(vec![]).ends_with("it is not for `a.example`, but for no name at all (it has no subjectAltName)"));
        let two = of(vec!["DnsName(\"b.example\")".to_owned(), "IpAddress(10.0.0.1)".to_owned()]);
        assert!(two.ends_with("but for b.example, 10.0.0.1"), "{two}");
        let hostile = of(vec!["\u{1b}[2J".repeat(10_000); 10_000]);
        assert!(hostile.len() < 1000 && !hostile.contains('\u{1b}'), "{hostile}");
    }
}
