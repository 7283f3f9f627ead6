//! Requests for rails.

use rails_net::LocalEnd;
use rails_topo::CpuSet;
use std::str::FromStr;

/// A request for rails. As text:
///
/// | text | meaning |
/// |---|---|
/// | `auto` | one rail on each NIC that is up |
/// | `4` | four rails on the fastest NICs, different cards first among equals |
/// | `loopback` | one rail per allowed core on 127.0.0.1, 127.0.0.2, ..., at least two |
/// | `loopback:3` | three of them |
/// | `eth0,10.0.1.2` | one rail on each of these interfaces and local addresses |
/// | `eth0,eth0` | two rails on one interface, on two of its addresses where it has two |
/// | `eth0@4,eth1@8-11` | one rail on each interface, on these CPUs |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RailRequest {
    /// One rail on each NIC that is up.
    Auto,
    /// That many rails on the best NICs.
    Count(usize),
    /// Rails on the loopback interface: that many, or one per allowed core and at least two.
    Loopback(Option<usize>),
    /// These lanes.
    Lanes(Vec<LaneWish>),
}

/// A requested lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneWish {
    /// Its local end.
    pub end: LocalEnd,
    /// The CPUs that its rail may use; `None` stands for all allowed ones.
    pub cpus: Option<CpuSet>,
}

/// A text that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no request for rails: {reason}")]
#[non_exhaustive]
pub struct ParseRequestError {
    /// The text.
    pub text: String,
    /// The fault.
    pub reason: String,
}

/// The most rails that a request may ask for: a stream has no more lanes.
pub(super) const MOST_RAILS: usize = rails_proto::parameters::MOST_LANES;

impl RailRequest {
    /// The number of requested rails, if the request states it.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Self::Auto | Self::Loopback(None) => None,
            Self::Count(count) | Self::Loopback(Some(count)) => Some(*count),
            Self::Lanes(lanes) => Some(lanes.len()),
        }
    }
}

impl FromStr for RailRequest {
    type Err = ParseRequestError;

    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        let error = |reason: String| ParseRequestError { text: text.to_owned(), reason };
        let count = |digits: &str| match digits.parse::<usize>() {
            Ok(count @ 1..=MOST_RAILS) => Ok(count),
            _ => Err(error(format!("`{digits}` is not a number of rails from 1 to {MOST_RAILS}"))),
        };
        match text.trim() {
            "" => Err(error("it is empty; try `auto`, `4`, `loopback:2` or `eth0,eth1`".into())),
            "auto" => Ok(Self::Auto),
            "loopback" => Ok(Self::Loopback(None)),
            text if text.bytes().all(|byte| byte.is_ascii_digit()) => count(text).map(Self::Count),
            text => match text.strip_prefix("loopback:") {
                Some(digits) => count(digits).map(|count| Self::Loopback(Some(count))),
                None => {
                    text.split(',').map(|lane| lane.parse().map_err(&error)).collect::<Result<_, _>>().map(Self::Lanes)
                }
            },
        }
    }
}

impl FromStr for LaneWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (end, cpus) = match text.split_once('@') {
            Some((end, cpus)) => {
                let cpus: CpuSet = cpus.parse().map_err(|error| format!("{error}"))?;
                if cpus.is_empty() {
                    return Err(format!("no CPU follows the @ of `{text}`"));
                }
                (end, Some(cpus))
            }
            None => (text, None),
        };
        Ok(Self { end: local_end(end)?, cpus })
    }
}

impl From<LocalEnd> for LaneWish {
    fn from(end: LocalEnd) -> Self {
        Self { end, cpus: None }
    }
}

fn local_end(text: &str) -> Result<LocalEnd, String> {
    if let Ok(address) = text.parse() {
        return Ok(LocalEnd::Address(address));
    }
    // The kernel's rule for names: dev_valid_name() in net/core/dev.c.
    let valid = (1..16).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.bytes().any(|byte| byte == b'/' || byte == b':' || byte.is_ascii_whitespace());
    if valid {
        Ok(LocalEnd::Device(text.to_owned()))
    } else {
        Err(format!("`{text}` is neither an address nor an interface name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interface(name: &str) -> LocalEnd {
        LocalEnd::Device(name.to_owned())
    }

    #[test]
    fn requests_as_text() {
        let parse = |text: &str| text.parse::<RailRequest>();
        assert_eq!(parse("auto"), Ok(RailRequest::Auto));
        assert_eq!(parse("4"), Ok(RailRequest::Count(4)));
        assert_eq!(parse("loopback"), Ok(RailRequest::Loopback(None)));
        assert_eq!(parse("loopback:2"), Ok(RailRequest::Loopback(Some(2))));
        assert_eq!(
            parse("eth0@4,fd00::1,10.0.0.2@8-11"),
            Ok(RailRequest::Lanes(vec![
                LaneWish { end: interface("eth0"), cpus: Some("4".parse().unwrap()) },
                LocalEnd::Address("fd00::1".parse().unwrap()).into(),
                LaneWish { end: LocalEnd::Address("10.0.0.2".parse().unwrap()), cpus: Some("8-11".parse().unwrap()) },
            ]))
        );
    }

    #[test]
    fn refused_requests_with_reasons() {
        for (text, reason) in [
            ("", "empty"),
            ("0", "from 1 to 64"),
            ("65", "from 1 to 64"),
            ("loopback:x", "`x` is not a number of rails"),
            ("eth0,,eth1", "neither an address nor an interface"),
            ("eth0@", "no CPU follows"),
            ("eth0@3-1", "backwards"),
            ("a/b", "neither an address nor an interface"),
        ] {
            let error = text.parse::<RailRequest>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_of_a_request(text in "\\PC{0,40}") {
            let _ = text.parse::<RailRequest>();
        }
    }
}
