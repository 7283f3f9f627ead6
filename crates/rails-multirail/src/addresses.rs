//! Addresses and host names that callers pass to streams and listeners.

use crate::blocking::lookup_host;
use futures_util::{StreamExt, stream::FuturesUnordered};
use rails_net::{ScopeError, ScopedAddress, local_address_towards};
use rails_proto::{
    AddressError, LaneAddress, Scheme,
    opening::{DialSchedule, DialStep},
    parameters::MAX_LANES,
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
};
use tokio::time::{Instant, timeout_at};

/// One or more addresses that lanes lead to or come in on.
///
/// - [`LaneAddress`], [`SocketAddr`] and `(IpAddr, u16)` stand for themselves; the latter two are
///   TCP addresses.
/// - Text is `HOST:PORT` or `SCHEME://HOST:PORT`, where the host is an IP address (IPv6 in
///   brackets) or a name. A link-local address names its interface: `[fe80::1%eth0]:7575`. `(&str,
///   u16)` is a host and a port, over TCP.
/// - Arrays, slices and vectors stand for all their elements, in order.
///
/// A name stands for its addresses in the order of the system's resolver, so one name names a host
/// with one address per NIC. To the end that connects, it stands for those of both families in turn
/// (RFC 8305, section 4), without those that no route leads to; a listener takes those of the first
/// one's family. An address that the resolver gives twice counts once.
pub trait ToLaneAddresses: sealed::IntoNames {}

impl<T: sealed::IntoNames> ToLaneAddresses for T {}

/// The error for a text or name without an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The text has no host and port.
    #[error("`{0}` is no address: it is HOST:PORT or SCHEME://HOST:PORT")]
    Text(String),
    /// The part before `://` is no transport's name.
    #[error(transparent)]
    Scheme(#[from] AddressError),
    /// A link-local address names no interface of this machine.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The resolver does not know the name.
    #[error("cannot resolve the host name `{host}`")]
    Lookup {
        /// The name.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
}

/// The addresses to connect to: a list of one for each address in `named`, and for each name a list
/// of its addresses in the order in which they are tried. Families alternate (RFC 8305, section 4),
/// and addresses that no route leads to are left out where another is left (RFC 6724, section 5,
/// rule 1). Of more than [`MAX_LANES`] addresses the first are taken, and a warning says so.
///
/// # Errors
/// [`ResolveError`].
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rails_multirail::ResolveError> {
/// let names = rails_multirail::resolve(["localhost:7575", "10.0.0.1:7575"]).await?;
/// assert_eq!(names.len(), 2);
/// assert!(names[0].iter().all(|address| address.socket.ip().is_loopback()));
/// # Ok(())
/// # }
/// ```
pub async fn resolve(named: impl ToLaneAddresses) -> Result<Vec<Vec<LaneAddress>>, ResolveError> {
    let mut names = Vec::new();
    for name in named.into_names()? {
        let (scheme, found) = name.addresses().await?;
        let ordered = dial_order(found, |socket| local_address_towards(socket).is_ok());
        names.push(ordered.into_iter().map(|socket| LaneAddress { scheme, socket }).collect());
    }
    Ok(names)
}

/// The addresses to listen on: of each name those with the family of the first.
pub(crate) async fn resolve_to_listen(named: impl ToLaneAddresses) -> Result<Vec<LaneAddress>, ResolveError> {
    let mut addresses = Vec::new();
    for name in named.into_names()? {
        let (scheme, found) = name.addresses().await?;
        let alike = found.iter().filter(|socket| socket.is_ipv4() == found[0].is_ipv4());
        addresses.extend(alike.map(|&socket| LaneAddress { scheme, socket }));
    }
    Ok(addresses)
}

/// Tries the addresses of one name one after the other, as in RFC 8305, section 5: each as soon as
/// one before it has failed, and at most 250 ms after the one before it. Returns the first that
/// answers, and its answer; the other attempts are dropped.
///
/// # Errors
/// Each address with its error, if all have failed.
pub async fn connect_first<T, E, F>(
    addresses: &[LaneAddress],
    attempt: impl Fn(LaneAddress) -> F,
) -> Result<(LaneAddress, T), Vec<(LaneAddress, E)>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut schedule = DialSchedule::of_name(addresses.len());
    let mut attempts = FuturesUnordered::new();
    let mut failed: Vec<(usize, E)> = Vec::new();
    loop {
        let ended = match schedule.next(Instant::now().into_std(), false) {
            DialStep::Dial(index) => {
                let attempt = attempt(addresses[index]);
                attempts.push(async move { (index, attempt.await) });
                continue;
            }
            // The time of the next attempt has come.
            DialStep::Wait(until) => match timeout_at(until.into(), attempts.next()).await {
                Err(_elapsed) => continue,
                Ok(ended) => ended,
            },
            DialStep::Done => attempts.next().await,
        };
        match ended {
            Some((index, Ok(answer))) => return Ok((addresses[index], answer)),
            Some((index, Err(error))) => {
                schedule.failed(index);
                failed.push((index, error));
            }
            None => break,
        }
    }
    failed.sort_by_key(|(index, _)| *index);
    Err(failed.into_iter().map(|(index, error)| (addresses[index], error)).collect())
}

/// The addresses of a name in the order in which they are tried.
fn dial_order(found: Vec<SocketAddr>, is_routed: impl Fn(SocketAddr) -> bool) -> Vec<SocketAddr> {
    let routed: Vec<SocketAddr> = found.iter().copied().filter(|socket| is_routed(*socket)).collect();
    let mut called = alternating(if routed.is_empty() { found } else { routed });
    if let [first, ..] = called[..]
        && called.len() > MAX_LANES
    {
        tracing::warn!(%first, addresses = called.len(), "a name has so many addresses that {MAX_LANES} are called");
        called.truncate(MAX_LANES);
    }
    called
}

/// The addresses with the families in turn, beginning with that of the first; each family in its
/// order.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv4() == is_v4);
    let (mut first, mut other) = (first.into_iter(), other.into_iter());
    let mut all = Vec::new();
    loop {
        let (one, another) = (first.next(), other.next());
        if one.is_none() && another.is_none() {
            return all;
        }
        all.extend(one.into_iter().chain(another));
    }
}

/// An address, or a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Address(LaneAddress),
    Host { scheme: Scheme, host: String, port: u16 },
}

impl Name {
    /// The transport, and the addresses as the resolver gives them, each once and at least one.
    async fn addresses(self) -> Result<(Scheme, Vec<SocketAddr>), ResolveError> {
        let (scheme, host, port) = match self {
            Self::Address(LaneAddress { scheme, socket }) => return Ok((scheme, vec![socket])),
            Self::Host { scheme, host, port } => (scheme, host, port),
        };
        let mut found: Vec<SocketAddr> = Vec::new();
        let looked_up = match lookup_host((host.as_str(), port)).await {
            Ok(all) => {
                for socket in all {
                    if !found.contains(&socket) {
                        found.push(socket);
                    }
                }
                (!found.is_empty()).then_some(()).ok_or_else(|| io::Error::other("the name has no address"))
            }
            Err(error) => Err(error),
        };
        looked_up.map_err(|source| ResolveError::Lookup { host, source })?;
        Ok((scheme, found))
    }
}

mod sealed {
    use super::*;

    /// A value that gives addresses or host names.
    pub trait IntoNames {
        fn into_names(self) -> Result<Vec<Name>, ResolveError>;
    }

    impl IntoNames for LaneAddress {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            Ok(vec![Name::Address(self)])
        }
    }

    impl IntoNames for SocketAddr {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            LaneAddress::from(self).into_names()
        }
    }

    impl IntoNames for (IpAddr, u16) {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            SocketAddr::from(self).into_names()
        }
    }

    impl IntoNames for (&str, u16) {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            let (host, port) = self;
            match host.parse::<ScopedAddress>() {
                Ok(address) => address.with_port(port)?.into_names(),
                Err(error) if host.contains('%') => Err(error.into()),
                Err(_) if host.is_empty() => Err(ResolveError::Text(format!(":{port}"))),
                Err(_) => Ok(vec![Name::Host { scheme: Scheme::TCP, host: host.to_owned(), port }]),
            }
        }
    }

    impl IntoNames for &str {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            if let Ok(address) = self.parse::<LaneAddress>() {
                return address.into_names();
            }
            let (scheme, rest) = Scheme::split(self)?;
            let host_and_port = rest.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
            let in_brackets = |host: &str| Some(host.strip_prefix('[')?.strip_suffix(']')?.to_owned());
            match host_and_port {
                Some((host, port))
                    if let Some(scoped) = in_brackets(host)
                        && scoped.contains('%') =>
                {
                    let socket = scoped.parse::<ScopedAddress>()?.with_port(port)?;
                    LaneAddress { scheme, socket }.into_names()
                }
                Some((host, port)) if !host.is_empty() && !host.contains([':', '/', '[', ']']) => {
                    Ok(vec![Name::Host { scheme, host: host.to_owned(), port }])
                }
                _ => Err(ResolveError::Text(self.to_owned())),
            }
        }
    }

    impl IntoNames for String {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            self.as_str().into_names()
        }
    }

    impl<T: IntoNames + Clone> IntoNames for &T {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            self.clone().into_names()
        }
    }

    impl<T: IntoNames + Clone> IntoNames for &[T] {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            self.to_vec().into_names()
        }
    }

    impl<T: IntoNames, const N: usize> IntoNames for [T; N] {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            Vec::from(self).into_names()
        }
    }

    impl<T: IntoNames> IntoNames for Vec<T> {
        fn into_names(self) -> Result<Vec<Name>, ResolveError> {
            let named: Result<Vec<_>, _> = self.into_iter().map(IntoNames::into_names).collect();
            Ok(named?.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{sealed::IntoNames, *};

    async fn resolved(addresses: impl ToLaneAddresses) -> Vec<String> {
        let names = resolve(addresses).await.expect("these are addresses");
        names.concat().iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn every_way_to_write_an_address() {
        let socket: SocketAddr = "10.0.0.1:1".parse().unwrap();
        assert_eq!(resolved(socket).await, ["10.0.0.1:1"]);
        assert_eq!(resolved((socket.ip(), 2)).await, ["10.0.0.1:2"]);
        assert_eq!(resolved(LaneAddress::from(socket)).await, ["10.0.0.1:1"]);
        assert_eq!(resolved(&[socket, socket]).await, ["10.0.0.1:1", "10.0.0.1:1"]);
        assert_eq!(resolved(&vec![socket][..]).await, ["10.0.0.1:1"]);
        assert_eq!(resolved(["[fd00::1]:1", "udp://10.0.0.1:2"]).await, ["[fd00::1]:1", "udp://10.0.0.1:2"]);
        assert_eq!(resolved("tcp://10.0.0.1:2".to_owned()).await, ["10.0.0.1:2"]);
        assert_eq!(resolved(("fd00::1", 2)).await, ["[fd00::1]:2"]);
        let (near, celeritas) = (resolved(("fe80::1%lo", 2)).await, resolved("celeritas://[fe80::1%lo]:2").await);
        assert_eq!(celeritas, [format!("celeritas://{}", near[0])]);
        assert_eq!(resolved(near[0].as_str()).await, near, "an interface is printed by its index");
    }

    #[tokio::test]
    async fn localhost_is_a_name() {
        for name in ["localhost:7", "tcp://localhost:7"] {
            let names = resolve([name, name]).await.expect("every system resolves localhost");
            assert_eq!(names.len(), 2);
            assert!(names.concat().iter().all(|address| address.socket.ip().is_loopback() && address.port() == 7));
            let listening = resolve_to_listen(name).await.expect("every system resolves localhost");
            assert!(listening.iter().all(|address| address.socket.is_ipv4() == listening[0].socket.is_ipv4()));
        }
        assert!(resolve(("localhost", 7)).await.is_ok());
    }

    #[test]
    fn families_alternate() {
        let sockets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = sockets(&["[fd00::1]:1", "[fd00::2]:1", "[fd00::3]:1", "10.0.0.1:1"]);
        assert_eq!(alternating(found), sockets(&["[fd00::1]:1", "10.0.0.1:1", "[fd00::2]:1", "[fd00::3]:1"]));
        assert_eq!(alternating(Vec::new()), []);
    }

    #[test]
    fn a_name_stands_for_64_addresses_with_routes() {
        let found: Vec<SocketAddr> = (0..200).map(|last| SocketAddr::from(([10, 0, 0, last], 1))).collect();
        assert_eq!(dial_order(found.clone(), |_| true), found[..64]);
        assert_eq!(dial_order(found.clone(), |_| false), found[..64]);
        assert_eq!(dial_order(found.clone(), |socket| socket == found[199]), [found[199]]);
        assert_eq!(dial_order(found[..64].to_vec(), |_| true), found[..64]);
    }

    fn two() -> [LaneAddress; 2] {
        ["10.0.0.1:1", "10.0.0.2:1"].map(|text| text.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_mute_address_holds_the_next_up_for_a_moment() {
        let (two, begun) = (two(), Instant::now());
        let attempt = async |address| if address == two[0] { std::future::pending().await } else { Ok::<_, ()>(7) };
        assert_eq!(connect_first(&two, attempt).await, Ok((two[1], 7)));
        assert_eq!(begun.elapsed().as_millis(), 250);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_address_makes_way_at_once() {
        let (two, begun) = (two(), Instant::now());
        let refused = async |address| if address == two[0] { Err(1) } else { Ok(7) };
        assert_eq!(connect_first(&two, refused).await, Ok((two[1], 7)));
        assert_eq!(
            connect_first(&two, async |address| Err::<(), _>(address)).await,
            Err(vec![(two[0], two[0]), (two[1], two[1])])
        );
        assert_eq!(begun.elapsed().as_millis(), 0);
    }

    #[tokio::test]
    async fn refusal_of_texts_that_are_no_addresses() {
        for text in ["", "host", "host:", "host:65536", ":80", "fd00::1:80", "[fd00::1]", "a/b:80", "tcp://:80"] {
            assert!(matches!(text.into_names(), Err(ResolveError::Text(_))), "{text}");
        }
        assert!(matches!("TCP://host:80".into_names(), Err(ResolveError::Scheme(_))));
        for text in ["[fe80::1%no-such-one]:80", "[fe80::1%]:80", "[fd00::1%lo]:80"] {
            assert!(matches!(text.into_names(), Err(ResolveError::Scope(_))), "{text}");
        }
        let unknown = resolve("no-such-host.invalid:80").await.unwrap_err();
        assert_eq!(unknown.to_string(), "cannot resolve the host name `no-such-host.invalid`");
    }
}
