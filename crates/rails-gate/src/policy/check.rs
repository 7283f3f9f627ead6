//! From the shape of a policy file to a policy.

use super::{
    IdentityFiles, Peer, PeerKey, PeerLimits, PeerName, Policy, PolicyError, PolicyProblem as Problem, Target,
    TargetError,
    document::{Document, PeerTable},
    target_map::{Conflict, TargetMap},
};
use rails_multirail::{LaneAddress, Scheme};
use rails_topo::DataSize;
use std::{
    collections::HashSet,
    fmt,
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use toml::Spanned;

/// The policy of a text, with paths below `folder`.
pub(super) fn parse(text: &str, folder: &Path) -> Result<Policy, PolicyError> {
    if text.len() > Policy::MAX_BYTES {
        return Err(whole(Problem::TooLong { max_bytes: Policy::MAX_BYTES }));
    }
    let document = toml::from_str::<Document>(text).map_err(|error| malformed(text, &error))?;
    let checked = policy(document, folder);
    checked.map_err(|Wrong { at, key, problem }| PolicyError { line: line_at(text, at.start), key, problem })
}

/// A fault of the whole text.
pub(super) fn whole(problem: Problem) -> PolicyError {
    PolicyError { line: 1, key: "policy".to_owned(), problem }
}

/// A fault, its key, and its place in the text.
struct Wrong {
    at: Range<usize>,
    key: String,
    problem: Problem,
}

/// Names the place of a fault.
trait At<T> {
    fn at<S>(self, place: &Spanned<S>, key: impl fmt::Display) -> Result<T, Wrong>;
}

impl<T, E: Into<Problem>> At<T> for Result<T, E> {
    fn at<S>(self, place: &Spanned<S>, key: impl fmt::Display) -> Result<T, Wrong> {
        self.map_err(|problem| wrong(place, key, problem))
    }
}

fn wrong<S>(place: &Spanned<S>, key: impl fmt::Display, problem: impl Into<Problem>) -> Wrong {
    Wrong { at: place.span(), key: key.to_string(), problem: problem.into() }
}

fn policy(document: Document, folder: &Path) -> Result<Policy, Wrong> {
    let listen = addresses(document.listen, "listen")?;
    if document.socket.is_none() {
        let keys = [(&document.socket_mode, "socket_mode"), (&document.socket_group, "socket_group")];
        if let Some((place, key)) = keys.iter().find_map(|(place, key)| Some((place.as_ref()?, key))) {
            return Err(wrong(place, key, Problem::Alone { other: "socket" }));
        }
    }
    let socket_mode = document.socket_mode.as_ref().map_or(Ok(Policy::SOCKET_MODE), mode)?;
    let identity = identity(document.certificate, document.certificate_key, document.authorities, folder)?;
    if document.peer.is_empty() {
        return Err(Wrong { at: 0..0, key: "peer".to_owned(), problem: Problem::NoPeer });
    }
    let mut peers: Vec<Arc<Peer>> = Vec::with_capacity(document.peer.len());
    let mut routed = Vec::with_capacity(document.peer.len());
    let mut names = HashSet::new();
    for table in document.peer {
        let end = End { can_listen: !listen.is_empty(), identity: identity.as_ref() };
        let places: Vec<_> = table.get_ref().networks.iter().map(Spanned::span).collect();
        let name = table.get_ref().name.clone();
        let peer = peer(table, &end, folder)?;
        if !names.insert(peer.name.clone()) {
            return Err(wrong(&name, "peer.name", Problem::DuplicateName { name: peer.name }));
        }
        peers.push(Arc::new(peer));
        routed.push(places);
    }
    let targets = peers.iter().enumerate().flat_map(|(index, peer)| peer.networks.iter().map(move |net| (net, index)));
    let routes = TargetMap::new(targets).map_err(|conflict| overlap(&peers, &routed, conflict))?;
    Ok(Policy {
        listen,
        socket: document.socket.map(|path| folder.join(path)),
        socket_mode,
        socket_group: document.socket_group.map(Spanned::into_inner),
        encrypt: document.encrypt,
        identity,
        peers,
        routes,
    })
}

/// The properties of this end that a peer's keys depend on.
struct End<'a> {
    can_listen: bool,
    identity: Option<&'a IdentityFiles>,
}

fn peer(table: Spanned<PeerTable>, end: &End<'_>, folder: &Path) -> Result<Peer, Wrong> {
    let at_table = Spanned::new(table.span(), ());
    let table = table.into_inner();
    let name: PeerName = table.name.get_ref().parse().at(&table.name, "peer.name")?;
    let key = |key: &str| format!("peer.{name}.{key}");
    let dial = addresses(table.dial, &key("dial"))?;
    if dial.is_empty() && !end.can_listen {
        return Err(wrong(&at_table, key("dial"), Problem::Unreachable));
    }
    let peer_key = match (table.secret_file, table.pin) {
        (Some(path), None) => PeerKey::Secret(folder.join(path.into_inner())),
        (None, Some(pin)) => pin_of(pin.get_ref(), end).at(&pin, key("pin"))?,
        (None, None) => return Err(wrong(&at_table, format_args!("peer.{name}"), Problem::NoKey)),
        (Some(_), Some(pin)) => return Err(wrong(&pin, key("pin"), Problem::TwoKeys)),
    };
    let networks = targets(&table.networks, &key("networks"), str::parse)?;
    let reach = targets(&table.reach, &key("reach"), Target::with_ports)?;
    let proxy_protocol = targets(&table.proxy_protocol, &key("proxy_protocol"), Target::with_ports)?;
    let defaults = PeerLimits::default();
    let limits = PeerLimits {
        streams: limit(table.streams, &key("streams"), defaults.streams, 1..=MAX_STREAMS)?,
        bytes: bytes(table.bytes, &key("bytes"), defaults.bytes)?,
        connections_per_second: limit(
            table.connections_per_second,
            &key("connections_per_second"),
            defaults.connections_per_second,
            1..=MAX_CONNECTIONS_PER_SECOND,
        )?,
    };
    let answer_within = answer_within(table.answer_within, &key("answer_within"))?;
    let (reachable, with_proxy_header) = (set(&reach), set(&proxy_protocol));
    Ok(Peer {
        name,
        dial,
        key: peer_key,
        networks,
        reach,
        proxy_protocol,
        limits,
        answer_within,
        reachable,
        with_proxy_header,
    })
}

fn identity(
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    authorities: Option<Spanned<PathBuf>>,
    folder: &Path,
) -> Result<Option<IdentityFiles>, Wrong> {
    let path = |path: Spanned<PathBuf>| folder.join(path.into_inner());
    match (certificate, key, authorities) {
        (Some(certificate), Some(key), authorities) => Ok(Some(IdentityFiles {
            certificate: path(certificate),
            key: path(key),
            authorities: authorities.map(path),
        })),
        (Some(place), None, _) => Err(wrong(&place, "certificate", Problem::Alone { other: "certificate_key" })),
        (None, Some(place), _) => Err(wrong(&place, "certificate_key", Problem::Alone { other: "certificate" })),
        (None, None, Some(place)) => Err(wrong(&place, "authorities", Problem::Alone { other: "certificate" })),
        (None, None, None) => Ok(None),
    }
}

fn pin_of(text: &str, end: &End<'_>) -> Result<PeerKey, Problem> {
    let key = pinned(text.strip_prefix("sha256/").unwrap_or(text))?;
    let identity = end.identity.ok_or(Problem::NoCertificate)?;
    if end.can_listen && identity.authorities.is_none() { Err(Problem::NoAuthorities) } else { Ok(key) }
}

#[cfg(feature = "tls")]
fn pinned(pin: &str) -> Result<PeerKey, Problem> {
    Ok(PeerKey::Pin(pin.parse()?))
}

#[cfg(not(feature = "tls"))]
fn pinned(_: &str) -> Result<PeerKey, Problem> {
    Err(Problem::NoTls)
}

fn addresses(texts: Vec<Spanned<String>>, key: &str) -> Result<Vec<String>, Wrong> {
    let checked = texts.into_iter().map(|text| {
        if is_address(text.get_ref()) {
            return Ok(text.into_inner());
        }
        let problem = Problem::Address { text: text.get_ref().clone() };
        Err(wrong(&text, key, problem))
    });
    checked.collect()
}

/// Whether a text has the form of an address of a lane. Names and interfaces are looked up when it
/// is used.
fn is_address(text: &str) -> bool {
    let has_host_and_port = |rest: &str| {
        let (host, port) = rest.rsplit_once(':').unwrap_or_default();
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (is_bracketed || !host.contains([':', '/', '[', ']'])) && port.parse::<u16>().is_ok()
    };
    text.parse::<LaneAddress>().is_ok() || Scheme::split(text).is_ok_and(|(_, rest)| has_host_and_port(rest))
}

fn mode(text: &Spanned<String>) -> Result<u32, Wrong> {
    let digits = text.get_ref();
    let is_octal = digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| wrong(text, "socket_mode", Problem::Mode { text: digits.clone() }))
}

fn targets(
    texts: &[Spanned<String>],
    key: &str,
    read: impl Fn(&str) -> Result<Target, TargetError>,
) -> Result<Vec<Target>, Wrong> {
    texts.iter().map(|text| read(text.get_ref()).at(text, key)).collect()
}

fn set(targets: &[Target]) -> TargetMap<()> {
    TargetMap::new(targets.iter().map(|target| (target, ()))).expect("equal values are no conflict")
}

fn limit(value: Option<Spanned<u32>>, key: &str, default: u32, range: RangeInclusive<u32>) -> Result<u32, Wrong> {
    let Some(value) = value else { return Ok(default) };
    if range.contains(value.get_ref()) {
        return Ok(value.into_inner());
    }
    Err(out_of_range(&value, key, value.get_ref(), range.start(), range.end()))
}

fn bytes(value: Option<Spanned<String>>, key: &str, default: u64) -> Result<u64, Wrong> {
    let Some(value) = value else { return Ok(default) };
    let size: DataSize = value.get_ref().parse().at(&value, key)?;
    if (MIN_BYTES..=MAX_BYTES).contains(&size.as_bytes()) {
        return Ok(size.as_bytes());
    }
    Err(out_of_range(&value, key, value.get_ref(), DataSize::bytes(MIN_BYTES), DataSize::bytes(MAX_BYTES)))
}

fn answer_within(value: Option<Spanned<String>>, key: &str) -> Result<Duration, Wrong> {
    let Some(value) = value else { return Ok(Peer::ANSWER_WITHIN) };
    let text = value.get_ref();
    let no_duration = |reason: humantime::DurationError| {
        let reason = reason.to_string();
        Problem::Duration { text: text.clone(), reason }
    };
    let time = humantime::parse_duration(text).map_err(no_duration).at(&value, key)?;
    if (MIN_ANSWER_WITHIN..=MAX_ANSWER_WITHIN).contains(&time) {
        return Ok(time);
    }
    let written = humantime::format_duration;
    Err(out_of_range(&value, key, text, written(MIN_ANSWER_WITHIN), written(MAX_ANSWER_WITHIN)))
}

fn out_of_range<S>(
    place: &Spanned<S>,
    key: &str,
    value: impl fmt::Display,
    min: impl fmt::Display,
    max: impl fmt::Display,
) -> Wrong {
    let (value, min, max) = (value.to_string(), min.to_string(), max.to_string());
    wrong(place, key, Problem::OutOfRange { value, min, max })
}

/// The fault of a destination that goes through two peers; its place is that of the later peer.
fn overlap(peers: &[Arc<Peer>], places: &[Vec<Range<usize>>], conflict: Conflict<usize>) -> Wrong {
    let Conflict { net, ports, values: [one, other] } = conflict;
    let [first, second] = [one.min(other), one.max(other)];
    let has_port = |target: &Target| target.net() == net && target.ports().contain(ports.first());
    let index = peers[second].networks.iter().position(has_port).unwrap_or_default();
    Wrong {
        at: places[second].get(index).cloned().unwrap_or_default(),
        key: format!("peer.{}.networks", peers[second].name),
        problem: Problem::Overlap { net, ports, peers: [peers[first].name.clone(), peers[second].name.clone()] },
    }
}

/// The parser's error; it names no key, so the line is shown.
fn malformed(text: &str, error: &toml::de::Error) -> PolicyError {
    let offset = error.span().map_or(0, |span| span.start);
    let line = line_at(text, offset);
    let written: String = text.lines().nth(line - 1).unwrap_or_default().trim().chars().take(SHOWN_CHARS).collect();
    let reason: Vec<&str> = error.message().lines().map(str::trim).collect();
    PolicyError { line, key: format!("`{written}`"), problem: Problem::Malformed { reason: reason.join("; ") } }
}

/// The line at `offset`, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// As many connections as one host can have towards one address, many times over.
const MAX_STREAMS: u32 = 1_000_000;
const MAX_CONNECTIONS_PER_SECOND: u32 = 1_000_000;

/// One connection's share.
const MIN_BYTES: u64 = 64 << 10;
const MAX_BYTES: u64 = 1 << 40;

/// A program's connect(2) waits as long.
const MIN_ANSWER_WITHIN: Duration = Duration::from_millis(1);
const MAX_ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The part of a wrong line that its error shows.
const SHOWN_CHARS: usize = 60;
