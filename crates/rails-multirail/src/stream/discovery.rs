//! Discovery: asking the peer for its lanes, and answering.

use super::{
    io::{receive_exact, send_all},
    join::{initiate, jitter, nonce, random},
};
use crate::{
    EndpointError, PlanLanesError, RailId, StreamOptions,
    addresses::connect_first,
    error::{FailedLane, JoinError},
    rails::Rails,
};
use rails_net::{Lane, LocalEnd};
use rails_proto::{
    LaneAddress, Scheme,
    backoff::Backoff,
    handshake::{Credentials, Hello, PREFIX_LEN, Proved, Purpose, StreamId},
    opening::Setback,
    pairing::{LaneCandidate, MAX_OFFERS, Pairing, pair_with_contact},
};
use std::net::{IpAddr, SocketAddr};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// The peer's answer.
struct Answer {
    offers: Vec<LaneCandidate>,
    /// The local address of the connection.
    from: SocketAddr,
}

/// Asks the first contact that answers, and pairs; see
/// [`MultiRailStream::plan_lanes`](crate::MultiRailStream::plan_lanes).
pub(super) async fn plan_lanes(
    rails: &Rails,
    contacts: Vec<LaneAddress>,
    options: &StreamOptions,
) -> Result<Pairing, PlanLanesError> {
    options.validate().map_err(EndpointError::from)?;
    if rails.is_empty() {
        return Err(EndpointError::NoRails.into());
    }
    let credentials = options.security.initiator().ok_or(EndpointError::ServerSecurity)?;
    let ask = |contact| discover(rails, RailId(0), LocalEnd::Any, contact, options, credentials.clone());
    match connect_first(&contacts, ask).await {
        Ok((contact, Answer { offers, from })) => {
            Ok(pair_with_contact(rails.offers(contact.scheme), offers, contact, from))
        }
        Err(contacts) if contacts.is_empty() => Err(EndpointError::NoAddresses.into()),
        Err(contacts) => Err(PlanLanesError::Discover { contacts }),
    }
}

/// Asks the peer over every pair from its rail, and gives the pairs that do not connect.
pub(super) async fn probe(
    rails: &Rails,
    pairing: &Pairing,
    options: &StreamOptions,
) -> Result<Vec<FailedLane>, PlanLanesError> {
    options.validate().map_err(EndpointError::from)?;
    let credentials = options.security.initiator().ok_or(EndpointError::ServerSecurity)?;
    let lanes: Vec<(RailId, LaneAddress)> = pairing.lanes().filter(|(rail, _)| rail.0 < rails.len()).collect();
    let asked: Vec<_> = lanes
        .into_iter()
        .map(|(rail, remote)| {
            let (rails, options, credentials) = (rails.clone(), options.clone(), credentials.clone());
            let local = rails[rail].local_end();
            tokio::spawn(async move {
                let answer = discover(&rails, rail, local, remote, &options, credentials).await;
                answer.err().map(|error| FailedLane { rail, remote, error })
            })
        })
        .collect();
    let mut failed = Vec::new();
    for asked in asked {
        failed.extend(asked.await.ok().flatten());
    }
    Ok(failed)
}

/// Asks on the runtime of `rail`, and again if the peer is busy.
async fn discover(
    rails: &Rails,
    rail: RailId,
    local: LocalEnd,
    remote: LaneAddress,
    options: &StreamOptions,
    credentials: Credentials,
) -> Result<Answer, JoinError> {
    let (options, home) = (options.clone(), options.driver.home(rails, rail).runtime().handle());
    let mut asking = JoinSet::new();
    let ask = async move {
        let (deadline, mut backoff) = (Instant::now() + options.connect_timeout, Backoff::default());
        loop {
            let answer = question(&local, remote, &options, credentials.clone()).await;
            let wait = backoff.next_with(jitter());
            match answer {
                Err(error) if error.setback() == Setback::Busy && Instant::now() + wait < deadline => sleep(wait).await,
                answer => return answer,
            }
        }
    };
    // A question that is dropped, because another address has answered, ends.
    asking.spawn_on(ask, home);
    asking.join_next().await.and_then(Result::ok).unwrap_or(Err(JoinError::RailStopped))
}

async fn question(
    local: &LocalEnd,
    remote: LaneAddress,
    options: &StreamOptions,
    credentials: Credentials,
) -> Result<Answer, JoinError> {
    let hello = Hello {
        mode: credentials.mode(),
        purpose: Purpose::Discover,
        stream: StreamId(random().map_err(JoinError::Random)?),
        lane: 0,
        lanes: 0,
        parameters: options.parameters(Purpose::Discover),
        nonce: nonce()?,
    };
    let lane = options.transport_of(remote.scheme)?.connect(local, remote.socket).await?;
    let asked = async {
        let mut joined = initiate(&*lane, credentials, hello).await?;
        let mut prefix = [0; PREFIX_LEN];
        receive_exact(&*lane, &mut prefix).await?;
        let mut body = vec![0; joined.lanes_len(&prefix)?];
        receive_exact(&*lane, &mut body).await?;
        Ok::<_, JoinError>(joined.lanes(&prefix, body)?)
    };
    let offers = timeout(options.handshake_timeout, asked).await.map_err(|_| JoinError::Timeout)??;
    Ok(Answer { offers, from: lane.local_addr() })
}

/// Answers an initiator that has authenticated itself on `lane`, which `rail` serves.
pub(super) async fn answer(
    lane: &dyn Lane,
    mut proved: Proved,
    rails: &Rails,
    rail: RailId,
    bound: &[(RailId, LaneAddress)],
    scheme: Scheme,
) -> Result<(), JoinError> {
    let called = LaneAddress { scheme, socket: lane.local_addr() };
    let offers = offers(rails, rail, bound, called);
    let accept = proved.accept.encode();
    send_all(lane, &[accept, proved.lanes(&offers)].concat(), Vec::new()).await?;
    Ok(())
}

/// The offers of a listener: first the address that the initiator called, then all other addresses
/// that it listens on and that other machines can reach, at most [`MAX_OFFERS`].
fn offers(rails: &Rails, rail: RailId, bound: &[(RailId, LaneAddress)], called: LaneAddress) -> Vec<LaneCandidate> {
    let mut all: Vec<LaneCandidate> = Vec::new();
    for (rail, address) in bound {
        match address.socket.ip() {
            ip if !ip.is_unspecified() => all.push(listening(rails, *rail, *address)),
            wildcard => {
                let held = rails.offers(address.scheme).into_iter().filter(|offer| {
                    !offer.ip().is_unspecified() && (offer.ip().is_ipv4() == wildcard.is_ipv4() || takes_ipv4(wildcard))
                });
                all.extend(held.map(|mut offer| {
                    offer.address.socket.set_port(address.port());
                    offer
                }));
            }
        }
    }
    let mut called = called;
    called.socket.set_ip(called.socket.ip().to_canonical());
    let key = |offer: &LaneCandidate| (offer.address.scheme, offer.ip(), offer.address.port());
    let is_called = |offer: &&LaneCandidate| key(offer) == (called.scheme, called.socket.ip(), called.port());
    let first = all.iter().find(is_called).cloned().unwrap_or_else(|| listening(rails, rail, called));
    let mut offers = vec![first];
    // If there are too many, those of other transports are left out: the initiator pairs over the
    // transport that it called.
    all.sort_by_key(|offer| offer.address.scheme != called.scheme);
    for offer in all {
        // A link-local address needs a scope, which only the caller knows, so it is not offered.
        let is_new = offers.iter().all(|known| key(known) != key(&offer));
        if is_new && !offer.is_link_local() && offers.len() < MAX_OFFERS {
            offers.push(offer);
        }
    }
    offers
}

/// The offer for an address that the listener has bound: that of the rail with the address, or the
/// address alone.
fn listening(rails: &Rails, rail: RailId, address: LaneAddress) -> LaneCandidate {
    let has = |offer: &LaneCandidate| offer.ip() == address.socket.ip();
    let of_rail = rails[rail].offers(address.scheme).into_iter().find(has);
    match of_rail.or_else(|| rails.offers(address.scheme).into_iter().find(has)) {
        Some(offer) => LaneCandidate { address, ..offer },
        None => {
            LaneCandidate { rail, address, prefix_len: None, speed_bits_per_second: None, node: None, interface: None }
        }
    }
}

/// Whether a socket on that wildcard address accepts IPv4 too (ipv6(7), `IPV6_V6ONLY`; it is not
/// set, so the system's default holds). If the default cannot be read, IPv4 addresses are not
/// offered.
fn takes_ipv4(wildcard: IpAddr) -> bool {
    wildcard.is_ipv4() || std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|only| only.trim() == "0")
}
