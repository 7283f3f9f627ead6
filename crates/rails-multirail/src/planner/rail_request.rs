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
#[error("`{text}` is no request for rails: at character {}, {reason}", self.character())]
#[non_exhaustive]
pub struct ParseRequestError {
    /// The text.
    pub text: String,
    /// Where the faulty part begins, in bytes from the start of the text.
    pub offset: usize,
    /// The fault.
    pub reason: String,
}

impl ParseRequestError {
    /// The number of the first faulty character, counted from 1.
    pub fn character(&self) -> usize {
        self.text[..self.offset].chars().count() + 1
    }
}

/// A fault, and the part of the text that has it.
struct Fault<'a> {
    part: &'a str,
    reason: String,
}

impl<'a> Fault<'a> {
    fn new(part: &'a str, reason: impl Into<String>) -> Self {
        Self { part, reason: reason.into() }
    }

    /// The error; the faulty part is one of `text`.
    fn of(self, text: &str) -> ParseRequestError {
        let offset = self.part.as_ptr().addr() - text.as_ptr().addr();
        ParseRequestError { text: text.to_owned(), offset, reason: self.reason }
    }
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
        request(text).map_err(|fault| fault.of(text))
    }
}

impl FromStr for LaneWish {
    type Err = ParseRequestError;

    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        lane(text).map_err(|fault| fault.of(text))
    }
}

fn request(text: &str) -> Result<RailRequest, Fault<'_>> {
    let text = text.trim();
    match text {
        "" => Err(Fault::new(text, "it is empty; try `auto`, `4`, `loopback:2` or `eth0,eth1`")),
        "auto" => Ok(RailRequest::Auto),
        "loopback" => Ok(RailRequest::Loopback(None)),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => count(digits).map(RailRequest::Count),
        text => match text.strip_prefix("loopback:") {
            Some(digits) => count(digits).map(|count| RailRequest::Loopback(Some(count))),
            None => text.split(',').map(lane).collect::<Result<_, _>>().map(RailRequest::Lanes),
        },
    }
}

fn count(digits: &str) -> Result<usize, Fault<'_>> {
    match digits.parse() {
        Ok(count @ 1..=MOST_RAILS) => Ok(count),
        _ => Err(Fault::new(digits, format!("`{digits}` is not a number of rails from 1 to {MOST_RAILS}"))),
    }
}

fn lane(text: &str) -> Result<LaneWish, Fault<'_>> {
    let (end, cpus) = match text.split_once('@') {
        Some((end, list)) => {
            let cpus: CpuSet = list.parse().map_err(|error| Fault::new(list, format!("{error}")))?;
            if cpus.is_empty() {
                return Err(Fault::new(list, format!("no CPU follows the @ of `{text}`")));
            }
            (end, Some(cpus))
        }
        None => (text, None),
    };
    Ok(LaneWish { end: local_end(end)?, cpus })
}

impl From<LocalEnd> for LaneWish {
    fn from(end: LocalEnd) -> Self {
        Self { end, cpus: None }
    }
}

fn local_end(text: &str) -> Result<LocalEnd, Fault<'_>> {
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
        Err(Fault::new(text, format!("`{text}` is neither an address nor an interface name")))
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
        for (text, character, reason) in [
            ("", 1, "it is empty"),
            ("  ", 1, "it is empty"),
            (" 0", 2, "`0` is not a number of rails from 1 to 64"),
            ("65", 1, "from 1 to 64"),
            ("loopback:x", 10, "`x` is not a number of rails"),
            ("loopback:", 10, "`` is not a number of rails"),
            ("eth0,,eth1", 6, "`` is neither an address nor an interface"),
            ("eth0@", 6, "no CPU follows"),
            ("fünf0,eth0@3-1", 12, "backwards"),
            ("eth0,a/b@4", 6, "`a/b` is neither an address nor an interface"),
        ] {
            let error = text.parse::<RailRequest>().unwrap_err();
            assert_eq!(error.character(), character, "{error}");
            let said = error.to_string();
            assert!(said.contains(reason) && said.contains(&format!("at character {character}, ")), "{said}");
        }
        let lane = "eth0@x".parse::<LaneWish>().unwrap_err();
        assert_eq!((lane.offset, lane.character()), (5, 6));
    }

    proptest! {
        #[test]
        fn any_text_of_a_request(text in "\\PC{0,40}") {
            if let Err(error) = text.parse::<RailRequest>() {
                prop_assert!(error.to_string().contains(&error.reason));
            }
        }
    }
}
