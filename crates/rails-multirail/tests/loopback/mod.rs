//! Rails, listeners and patient options on the loopback interface.

use rails_multirail::{MultiRailListener, RailRequest, Rails, Secret, Security, StreamOptions, plan_rails};
use rails_topo::Topology;
use std::{net::SocketAddr, time::Duration};

/// Rails on 127.0.0.1, 127.0.0.2 and so on.
pub(crate) fn rails(count: usize) -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(count)).expect("loopback rails can be planned");
    Rails::build(&plan).expect("loopback rails need no privilege")
}

pub(crate) fn secret() -> Secret {
    Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough")
}

/// Options with long timeouts for a busy machine: other load must not change the number of lanes
/// with which a stream begins.
pub(crate) fn patient(security: impl Into<Security>) -> StreamOptions {
    StreamOptions::new(security).join_grace(PATIENCE).handshake_timeout(PATIENCE)
}

/// A listener with as many addresses as there are rails, each with a port of its own.
pub(crate) async fn listener(rails: &Rails, options: &StreamOptions) -> (MultiRailListener, Vec<SocketAddr>) {
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0)).collect();
    let listener = MultiRailListener::bind(rails, &addresses, options).await.expect("loopback can be listened on");
    let addresses = listener.local_addrs().iter().map(|address| address.socket).collect();
    (listener, addresses)
}

/// Every step here is short. A step that takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
