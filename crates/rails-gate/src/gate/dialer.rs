//! Sessions are opened, and opened again.

use super::{Shared, peer::Peer, service};
use crate::session::Side;
use rails_multirail::{MultiRailMessages, MultiRailStream, OpenError, PlanLanesError, error::with_causes};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Why a peer was not reached.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Plan(#[from] PlanLanesError),
    #[error("the stream carries no messages")]
    Messages(#[source] io::Error),
    #[error("nothing says how sessions with it are protected")]
    NoSecurity,
}

/// Dials the peer whenever there is no session and the policy has addresses of it, until it
/// [ends](Peer::end).
pub(super) async fn dial(shared: Arc<Shared>, peer: Arc<Peer>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = tokio::select! {
            () = peer.has_ended() => return,
            opened = open_missing(&shared, &peer) => opened,
        };
        let began = Instant::now();
        match opened {
            Ok(messages) => {
                if peer.keep(&shared, messages, Side::Dialled, service::answer).await {
                    continue;
                }
            }
            Err(error) => {
                let why = with_causes(&error);
                shared.warn(&format!("no session with {}: {why}", peer.name()));
                peer.failed(why);
            }
        }
        // A session that ends at once, as with a gate that dials itself, is no reason for haste.
        if began.elapsed() > LAST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::select! {
            () = peer.has_ended() => return,
            () = sleep(pause) => {}
        }
        pause = (2 * pause).min(LAST_PAUSE);
    }
}

/// Waits until the peer is to be dialled, and opens a stream of messages to it.
async fn open_missing(shared: &Shared, peer: &Peer) -> Result<MultiRailMessages, DialError> {
    let policy = peer.is_missing(shared).await;
    let security = shared.settings().security.dial.get(peer.name()).cloned().ok_or(DialError::NoSecurity)?;
    let stream = open(shared, &policy.dial, security).await?;
    stream.into_messages().map_err(DialError::Messages)
}

/// Opens a stream to a peer. One address is asked for all of its lanes.
async fn open(
    shared: &Shared,
    addresses: &[String],
    security: rails_multirail::Security,
) -> Result<MultiRailStream, DialError> {
    let options = (shared.stream)(security);
    if let [contact] = addresses {
        let pairing = MultiRailStream::plan_lanes(&shared.rails, std::slice::from_ref(contact), &options).await?;
        if !pairing.pairs.is_empty() {
            return Ok(MultiRailStream::connect_paired(&shared.rails, &pairing, &options).await?);
        }
    }
    Ok(MultiRailStream::connect(&shared.rails, addresses, &options).await?)
}

/// The pause before a peer is dialled again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The pause before a peer is dialled that has not been there for long.
const LAST_PAUSE: Duration = Duration::from_secs(5);
