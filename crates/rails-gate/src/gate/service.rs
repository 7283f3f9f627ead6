//! Connections to services, which peers ask for.

use super::{Shared, peer::Peer};
use crate::{policy, proxy_header::proxy_header, session::Asking, socket::Socket, wire::Refusal};
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

/// Answers the question of a peer for a connection.
pub(super) fn answer(shared: &Arc<Shared>, peer: &Arc<Peer>, asking: Asking) {
    let destination = policy::canonical(SocketAddr::new(asking.destination.ip(), asking.destination.port()));
    let policy = shared.policy();
    let allowed = policy.peer(peer.name().as_str()).filter(|allowed| allowed.may_reach(destination));
    let refusal = match allowed {
        None => Refusal::NotAllowed,
        Some(_) if shared.is_own(destination) => Refusal::Loop,
        Some(_) if !peer.may_ask(Instant::now()) => Refusal::TooOften,
        Some(allowed) => {
            tokio::spawn(connect(shared.clone(), peer.clone(), allowed.clone(), asking, destination));
            return;
        }
    };
    refuse(shared, peer, asking, destination, refusal);
}

fn refuse(shared: &Shared, peer: &Peer, asking: Asking, destination: SocketAddr, refusal: Refusal) {
    let (name, cause) = (peer.name(), std::mem::discriminant(&refusal));
    shared
        .warn_of(&format!("{name} {cause:?}"), &format!("{name}: a connection to {destination} is refused: {refusal}"));
    let traffic = match refusal {
        // Destinations that a peer may not reach are as many as it likes: they are counted together.
        Refusal::NotAllowed => shared.counters.of_others(name),
        _ => shared.counters.of(None, name, destination),
    };
    traffic.refused();
    asking.refuse(refusal);
}

async fn connect(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    allowed: Arc<policy::Peer>,
    asking: Asking,
    destination: SocketAddr,
) {
    let connected = async {
        let mut service = TcpStream::connect(destination).await?;
        if allowed.wants_proxy_header(destination) {
            service.write_all(&proxy_header(asking.source, destination)).await?;
        }
        io::Result::Ok(service)
    };
    let connected = tokio::select! {
        connected = timeout(PATIENCE, connected) => connected,
        () = asking.given_up() => return,
    };
    let service = match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(service) => service,
        Err(error) => return refuse(&shared, &peer, asking, destination, Refusal::of(&error)),
    };
    // The connection is moved to the reactor of the rail that carries it.
    let service = match service.into_std() {
        Ok(service) => service,
        Err(error) => return refuse(&shared, &peer, asking, destination, Refusal::of(&error)),
    };
    if let Ok(channel) = asking.accept() {
        let traffic = shared.counters.of(None, peer.name(), destination);
        shared.carry(&peer, move || TcpStream::from_std(service).map(Socket::of_tcp), channel, traffic);
    }
}

/// How long a service may take to accept.
const PATIENCE: Duration = Duration::from_secs(10);
