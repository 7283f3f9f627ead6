//! Requests as text.

use super::{
    Binding, BindingKind, Part, RailRequest, RailWish, Which,
    rail_request::{MAX_CORES, MAX_RAILS},
};
use rails_net::{LocalEnd, ScopedAddress};
use rails_topo::{CpuSet, NodeId};
use std::str::FromStr;

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

impl FromStr for RailRequest {
    type Err = ParseRequestError;

    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        which(text).map(Self::new).map_err(|fault| fault.of(text))
    }
}

impl FromStr for RailWish {
    type Err = ParseRequestError;

    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        wish(text).map_err(|fault| fault.of(text))
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

fn which(text: &str) -> Result<Which, Fault<'_>> {
    let text = text.trim();
    match text {
        "" => Err(Fault::new(text, "it is empty; try `auto`, `4`, `loopback:2` or `eth0,eth1`")),
        "auto" => Ok(Which::Auto),
        "loopback" => Ok(Which::Loopback(None)),
        digits if is_digits(digits) => number(digits, "rails", MAX_RAILS).map(Which::Count),
        text => match text.strip_prefix("loopback:") {
            Some(digits) => number(digits, "rails", MAX_RAILS).map(|count| Which::Loopback(Some(count))),
            None => text.split(',').map(wish).collect::<Result<_, _>>().map(Which::Listed),
        },
    }
}

fn number<'a>(digits: &'a str, of: &str, max: usize) -> Result<usize, Fault<'a>> {
    match digits.parse() {
        Ok(count) if is_digits(digits) && (1..=max).contains(&count) => Ok(count),
        _ => Err(Fault::new(digits, format!("`{digits}` is not a number of {of} from 1 to {max}"))),
    }
}

/// Whether the text is digits alone; a number may be parsed from `+2` too.
fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn wish(text: &str) -> Result<RailWish, Fault<'_>> {
    let (parts, binding) = match text.split_once('@') {
        Some((parts, place)) => (parts, binding(place)?),
        None => (text, Binding::AFFINE),
    };
    let parts: Vec<Part> = parts.split('+').map(part).collect::<Result<_, _>>()?;
    let cores = parts.iter().filter(|part| matches!(part, Part::Cores(_))).count();
    let lanes = parts.iter().filter(|part| matches!(part, Part::End(_) | Part::Peer(_))).count();
    match (cores, lanes) {
        (2.., _) => Err(Fault::new(text, "the rail's cores are given twice")),
        (_, 2..) => Err(Fault::new(text, "a rail has one lane; a comma separates rails")),
        _ => Ok(RailWish { parts, binding }),
    }
}

/// The text behind an `@`.
fn binding(text: &str) -> Result<Binding, Fault<'_>> {
    if text == "default" {
        return Ok(BindingKind::Default.into());
    }
    let (list, node) = match text.split_once('/') {
        Some((list, digits)) => {
            let node = Some(digits).filter(|digits| is_digits(digits)).and_then(|digits| digits.parse().ok());
            let node = node.ok_or_else(|| Fault::new(digits, format!("`{digits}` is not a node's number")))?;
            (list, Some(NodeId(node)))
        }
        None => (text, None),
    };
    let cpus: CpuSet = list.parse().map_err(|error| Fault::new(list, format!("{error}")))?;
    match (cpus.is_empty(), node) {
        (true, None) => Err(Fault::new(list, "no CPU follows the @")),
        (is_empty, node) => Ok(BindingKind::Explicit { cpus: (!is_empty).then_some(cpus), node }.into()),
    }
}

/// An address of IPv6 without the brackets that it has where a port may follow.
fn bare(text: &str) -> &str {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.filter(|inner| inner.contains(':')).unwrap_or(text)
}

fn part(text: &str) -> Result<Part, Fault<'_>> {
    if let Some(digits) = text.strip_prefix("cores:") {
        return number(digits, "cores", MAX_CORES).map(Part::Cores);
    }
    if let Some(address) = text.strip_prefix("peer:") {
        let peer = bare(address).parse().map_err(|_| Fault::new(address, format!("`{address}` is not an address")))?;
        return Ok(Part::Peer(peer));
    }
    match bare(text).parse::<ScopedAddress>() {
        Ok(address) => {
            return Ok(Part::End(match address.interface() {
                Some(device) => LocalEnd::DeviceAddress { device: device.to_owned(), address: address.ip() },
                None => LocalEnd::Address(address.ip()),
            }));
        }
        Err(error) if text.contains(':') && text.contains('%') => return Err(Fault::new(text, error.to_string())),
        Err(_) => {}
    }
    // The kernel's rule for names: dev_valid_name() in net/core/dev.c. Names of other devices are as
    // short.
    let valid = (1..16).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.bytes().any(|byte| byte == b'/' || byte == b':' || byte.is_ascii_whitespace());
    if valid {
        Ok(Part::Named(text.to_owned()))
    } else {
        Err(Fault::new(text, format!("`{text}` is neither an address nor an interface name")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(text: &str) -> Vec<RailWish> {
        match text.parse::<RailRequest>().unwrap().which {
            Which::Listed(wishes) => wishes,
            other => panic!("{other:?}"),
        }
    }

    fn named(name: &str) -> Part {
        Part::Named(name.to_owned())
    }

    #[test]
    fn requests_as_text() {
        let which = |text: &str| text.parse::<RailRequest>().unwrap().which;
        assert_eq!(which("auto"), Which::Auto);
        assert_eq!(which("4"), Which::Count(4));
        assert_eq!(which("loopback"), Which::Loopback(None));
        assert_eq!(which("loopback:2"), Which::Loopback(Some(2)));
        let on = |list: &str| BindingKind::Explicit { cpus: Some(list.parse().unwrap()), node: None }.into();
        let address = |text: &str| Part::End(LocalEnd::Address(text.parse().unwrap()));
        assert_eq!(
            listed("eth0@4,fd00::1,10.0.0.2@8-11"),
            [
                RailWish { parts: vec![named("eth0")], binding: on("4") },
                RailWish { parts: vec![address("fd00::1")], binding: Binding::AFFINE },
                RailWish { parts: vec![address("10.0.0.2")], binding: on("8-11") },
            ]
        );
        let scoped = LocalEnd::DeviceAddress { device: "eth0".to_owned(), address: "fe80::1".parse().unwrap() };
        for text in ["fe80::1%eth0", "fe80::1%eth0@4", "[fe80::1%eth0]", "[fe80::1%eth0]@4"] {
            assert_eq!(listed(text)[0].parts, [Part::End(scoped.clone())]);
        }
        assert_eq!(listed("[fd00::1]+gpu0,[eth0]")[0].parts, [address("fd00::1"), named("gpu0")]);
        assert_eq!(listed("[eth0]")[0].parts, [named("[eth0]")], "an interface can have such a name");
        assert_eq!("4".parse(), Ok(RailRequest::count(4)));
    }

    #[test]
    fn rails_of_several_devices_as_text() {
        let parts = |text: &str| listed(text).into_iter().map(|wish| wish.parts).collect::<Vec<_>>();
        assert_eq!(parts("eth0+gpu0,nvme0+eth1"), [[named("eth0"), named("gpu0")], [named("nvme0"), named("eth1")]]);
        assert_eq!(parts("cores:2,gpu0+cores:3")[1], [named("gpu0"), Part::Cores(3)]);
        assert_eq!(parts("peer:10.0.1.9"), [[Part::Peer("10.0.1.9".parse().unwrap())]]);
        assert_eq!(parts("peer:[fd00::9]"), [[Part::Peer("fd00::9".parse().unwrap())]]);
        let binding = |text: &str| listed(text).remove(0).binding;
        assert_eq!(binding("eth0@default"), BindingKind::Default.into());
        let explicit = |cpus: Option<&str>, node| {
            BindingKind::Explicit { cpus: cpus.map(|list| list.parse().unwrap()), node }.into()
        };
        assert_eq!(binding("eth0@4/1"), explicit(Some("4"), Some(NodeId(1))));
        assert_eq!(binding("eth0@/1"), explicit(None, Some(NodeId(1))));
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
            ("eth0+,eth1", 6, "`` is neither an address nor an interface"),
            ("eth0@", 6, "no CPU follows"),
            ("eth0@/x", 7, "`x` is not a node"),
            ("fünf0,eth0@3-1", 12, "backwards"),
            ("eth0,a/b@4", 6, "`a/b` is neither an address nor an interface"),
            ("gpu0+cores:0", 12, "`0` is not a number of cores from 1 to"),
            ("eth0,peer:x", 11, "`x` is not an address"),
            ("loopback:+2", 10, "`+2` is not a number of rails"),
            ("eth0@4/+1", 8, "`+1` is not a node"),
            ("eth0@+4", 6, "a number is missing or malformed"),
            ("eth0,", 6, "`` is neither an address nor an interface"),
            ("@4", 1, "`` is neither an address nor an interface"),
            ("eth0@4@5", 6, "`4@5` is not a list"),
            ("é+ü/,x", 3, "`ü/` is neither an address nor an interface"),
            ("eth0,10.0.0.1+10.0.0.2", 6, "a comma separates rails"),
            ("cores:2+cores:2", 1, "given twice"),
            ("eth0,[fe80::1%eth0]:80", 6, "is no IP address"),
            ("fd00::1%eth0", 1, "is no link-local address"),
        ] {
            let error = text.parse::<RailRequest>().unwrap_err();
            assert_eq!(error.character(), character, "{error}");
            let said = error.to_string();
            assert!(said.contains(reason) && said.contains(&format!("at character {character}, ")), "{said}");
        }
        let wish = "eth0@x".parse::<RailWish>().unwrap_err();
        assert_eq!((wish.offset, wish.character()), (5, 6));
    }

    proptest! {
        #[test]
        fn any_text_of_a_request(text in "\\PC{0,40}|([a-c0-9é:/. -]{0,6}[,+@]|cores:|peer:|loopback:|eth0|@default){0,8}") {
            if let Err(error) = text.parse::<RailRequest>() {
                let said = error.to_string();
                prop_assert!(said.contains(&error.reason) && said.contains(&text));
                prop_assert!((1..=text.chars().count() + 1).contains(&error.character()));
            }
        }
    }
}
