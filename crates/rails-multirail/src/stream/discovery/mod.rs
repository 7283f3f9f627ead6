//! Asking the other end for its lanes, and answering.

use super::{
    io::{receive_exact, send_all},
    join::{initiate, jitter, nonce, random},
};
use crate::{
    PlanLanesError, RailId, StreamOptions,
    error::{FailedLane, JoinError},
    rails::Rails,
};
use rails_net::{Lane, LaneOptions};
use rails_proto::{
    backoff::Backoff,
    handshake::{Credentials, Hello, PREFIX_LEN, Proved, Purpose, StreamId},
    opening::Setback,
    pairing::{self, LaneCandidate, MOST_OFFERS, Pairing, Relation, Unpaired},
};
use std::net::{IpAddr, SocketAddr};
use tokio::time::{Instant, sleep, timeout};

/// What became of a question.
struct Answer {
    offers: Vec<LaneCandidate>,
    /// The address that it was asked from.
    from: SocketAddr,
}

/// Asks at `contact`, and pairs; see [`MultiRailStream::plan`](crate::MultiRailStream::plan).
pub(super) async fn plan(
    rails: &Rails,
    contact: SocketAddr,
    options: &StreamOptions,
) -> Result<Pairing, PlanLanesError> {
    if rails.is_empty() {
        return Err(PlanLanesError::NoRails);
    }
    let credentials = options.security.initiator().ok_or(PlanLanesError::Security)?;
    let answer = discover(rails, RailId(0), options.lane.clone(), contact, options, credentials).await;
    let Answer { offers: theirs, from } = answer.map_err(|source| PlanLanesError::Discover { contact, source })?;
    Ok(pair(rails.offers(), theirs, contact, from))
}

/// Asks through every pair from its rail, and says which do not connect.
pub(super) async fn probe(
    rails: &Rails,
    pairing: &Pairing,
    options: &StreamOptions,
) -> Result<Vec<FailedLane>, PlanLanesError> {
    let credentials = options.security.initiator().ok_or(PlanLanesError::Security)?;
    let lanes: Vec<(RailId, SocketAddr)> = pairing.lanes().filter(|(rail, _)| rail.0 < rails.len()).collect();
    let asked: Vec<_> = lanes
        .into_iter()
        .map(|(rail, remote)| {
            let (rails, options, credentials) = (rails.clone(), options.clone(), credentials.clone());
            let lane = rails[rail].lane_options(&options.lane);
            tokio::spawn(async move {
                let answer = discover(&rails, rail, lane, remote, &options, credentials).await;
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

/// Asks on the runtime of `rail`, again where the peer is busy.
async fn discover(
    rails: &Rails,
    rail: RailId,
    begins: LaneOptions,
    remote: SocketAddr,
    options: &StreamOptions,
    credentials: Credentials,
) -> Result<Answer, JoinError> {
    let options = options.clone();
    let asking = rails[options.driver.home(rail)].runtime().spawn(move || async move {
        let (deadline, mut backoff) = (Instant::now() + options.connect_timeout, Backoff::default());
        loop {
            let answer = question(&begins, remote, &options, credentials.clone()).await;
            let wait = backoff.next_with(jitter());
            match answer {
                Err(error) if error.setback() == Setback::Busy && Instant::now() + wait < deadline => sleep(wait).await,
                answer => return answer,
            }
        }
    });
    asking.await.map_err(|_| JoinError::RailStopped)?
}

async fn question(
    begins: &LaneOptions,
    remote: SocketAddr,
    options: &StreamOptions,
    credentials: Credentials,
) -> Result<Answer, JoinError> {
    let hello = Hello {
        mode: credentials.mode(),
        purpose: Purpose::Discover,
        stream: StreamId(random().map_err(JoinError::Random)?),
        lane: 0,
        lanes: 0,
        parameters: options.parameters(),
        nonce: nonce()?,
    };
    let lane = options.connector.connect(begins, remote).await?;
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

/// Pairs our offers with theirs, of which the first is what was called as `contact`.
pub(crate) fn pair(
    mut ours: Vec<LaneCandidate>,
    mut theirs: Vec<LaneCandidate>,
    contact: SocketAddr,
    from: SocketAddr,
) -> Pairing {
    // The scope of a link-local address is known at this end alone, and here from the question that got through.
    for offer in ours.iter_mut().filter(|offer| is_link_local(offer.ip()) && offer.ip() == from.ip()) {
        offer.address = from;
        offer.address.set_port(0);
    }
    let Some(called) = theirs.first_mut() else { return pairing::pair(&ours, &theirs, None) };
    let said = called.address;
    let is_translated = (said.ip().to_canonical(), said.port()) != (contact.ip().to_canonical(), contact.port());
    called.address = contact;
    if !is_translated {
        return pairing::pair(&ours, &theirs, None);
    }
    called.prefix_len = None;
    let mut pairing = pairing::pair(&ours, &theirs, None);
    if pairing.pairs.iter().all(|pair| pair.relation == Relation::Routed) {
        // What the other end calls itself leads somewhere else from here, or nowhere.
        let others = theirs.split_off(1).into_iter();
        pairing = pairing::pair(&ours, &theirs, None);
        let why = "the other end is behind an address translation, and this address is not known to lead to it";
        pairing.unpaired_theirs.extend(others.map(|offer| Unpaired { offer, why: why.to_owned() }));
    }
    pairing.notes.push(format!("the other end knows {contact} as {said}: addresses are translated on the way"));
    pairing
}

/// Answers an initiator that has proved itself and came in on `socket`, which `rail` serves.
pub(super) async fn answer(
    lane: &dyn Lane,
    mut proved: Proved,
    rails: &Rails,
    rail: RailId,
    bound: &[(RailId, SocketAddr)],
) -> Result<(), JoinError> {
    let offers = offers(rails, rail, bound, lane.local_addr());
    let accept = proved.accept.encode();
    send_all(lane, &[accept, proved.lanes(&offers)].concat(), Vec::new()).await?;
    Ok(())
}

/// What a listener offers: the address that was called first, then all others that it listens on and that can be called from
/// elsewhere, at most [`MOST_OFFERS`].
fn offers(rails: &Rails, rail: RailId, bound: &[(RailId, SocketAddr)], called: SocketAddr) -> Vec<LaneCandidate> {
    let mut all: Vec<LaneCandidate> = Vec::new();
    for (rail, address) in bound {
        match address.ip() {
            ip if !ip.is_unspecified() => all.push(listening(rails, *rail, ip, address.port())),
            wildcard => {
                let held = rails.offers().into_iter().filter(|offer| {
                    !offer.ip().is_unspecified() && (offer.ip().is_ipv4() == wildcard.is_ipv4() || takes_ipv4(wildcard))
                });
                all.extend(held.map(|mut offer| {
                    offer.address.set_port(address.port());
                    offer
                }));
            }
        }
    }
    let ip = called.ip().to_canonical();
    let first = all.iter().find(|offer| offer.ip() == ip && offer.address.port() == called.port()).cloned();
    let first = first.unwrap_or_else(|| listening(rails, rail, ip, called.port()));
    let mut offers = vec![first];
    for offer in all {
        // Without the scope, which only a caller knows, nobody can call a link-local address.
        let is_new =
            offers.iter().all(|known| (known.ip(), known.address.port()) != (offer.ip(), offer.address.port()));
        if is_new && !is_link_local(offer.ip()) && offers.len() < MOST_OFFERS {
            offers.push(offer);
        }
    }
    offers
}

/// An address that is listened on: the offer of the rail that has it, or what little is known of it.
fn listening(rails: &Rails, rail: RailId, ip: IpAddr, port: u16) -> LaneCandidate {
    let of_rail = rails[rail].offers().into_iter().find(|offer| offer.ip() == ip);
    match of_rail.or_else(|| rails.offers().into_iter().find(|offer| offer.ip() == ip)) {
        Some(mut offer) => {
            offer.address.set_port(port);
            offer
        }
        None => LaneCandidate {
            rail,
            address: SocketAddr::new(ip, port),
            prefix_len: None,
            speed: None,
            node: None,
            interface: None,
        },
    }
}

/// Whether a socket on that wildcard address is called by IPv4 too (ipv6(7), `IPV6_V6ONLY`; it is not set, so the system's default
/// holds). Where that cannot be read only what is certain is offered.
fn takes_ipv4(wildcard: IpAddr) -> bool {
    wildcard.is_ipv4() || std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|only| only.trim() == "0")
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests;
