//! The state of a gate as text for Prometheus.

use crate::status::GateStatus;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use rails_multirail::{RailMetrics, Rails, StreamMetrics};

type Labels = Vec<(&'static str, String)>;

/// The gate's counts, and those of its rails and of the streams that its sessions are.
pub(crate) fn text(status: &GateStatus, rails: &Rails) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(RailMetrics::new(rails)));
    registry.register_collector(Box::new(StreamMetrics::new()));
    let gate = registry.sub_registry_with_prefix("rails_gate");

    let (sessions, lanes, open) = (Gauges::default(), Gauges::default(), Gauges::default());
    for peer in &status.peers {
        let labels = vec![("peer", peer.name.clone())];
        set(&sessions, &labels, peer.sessions);
        set(&lanes, &labels, peer.lanes);
        set(&open, &labels, peer.connections);
    }
    gate.register("sessions", "Sessions with the peer.", sessions);
    gate.register("lanes", "Lanes of these sessions that are up.", lanes);
    gate.register("open_connections", "Connections that the sessions carry.", open);

    let [opened, reset, refused, sent, received] = std::array::from_fn(|_| Counters::default());
    let active = Gauges::default();
    for counts in &status.connections {
        let door = counts.door.map_or_else(|| "served".to_owned(), |door| door.to_string());
        let labels = vec![("door", door), ("peer", counts.peer.clone()), ("destination", counts.destination.clone())];
        set(&active, &labels, counts.active as usize);
        for (counter, count) in [
            (&opened, counts.opened),
            (&reset, counts.reset),
            (&refused, counts.refused),
            (&sent, counts.sent_bytes),
            (&received, counts.received_bytes),
        ] {
            counter.get_or_create(&labels).inc_by(count);
        }
    }
    gate.register("connections", "Connections that were carried, up to now.", opened);
    gate.register("active_connections", "Those of them that go on.", active);
    gate.register("reset_connections", "Those that an end has reset.", reset);
    gate.register("refused_connections", "Connections that the peer asked for, and that were refused.", refused);
    gate.register("sent_bytes", "Bytes to the peer.", sent);
    gate.register("received_bytes", "Bytes from the peer.", received);

    let plain = Counters::default();
    for count in &status.plain {
        let peer = count.peer.clone().unwrap_or_default();
        let labels = vec![("door", count.door.to_string()), ("peer", peer), ("why", count.why.label().to_owned())];
        plain.get_or_create(&labels).inc_by(count.count);
    }
    gate.register("plain_connections", "Connections that went plain, by reason.", plain);

    let mut text = String::new();
    encode(&mut text, &registry).expect("a text takes every line");
    text
}

type Gauges = Family<Labels, Gauge>;
type Counters = Family<Labels, Counter>;

fn set(family: &Gauges, labels: &Labels, value: usize) {
    family.get_or_create(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}
