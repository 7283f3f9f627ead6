//! NUMA nodes: their memory, and how fast it is.

use super::Ledger;
use crate::{
    MemoryPerformance, NodeId, NumaNode, Topology,
    config::{
        ConfigError, Position, Problem,
        document::{NodeFacts, PerformanceFacts},
        place::quoted,
    },
};

pub(super) fn apply(topology: &mut Topology, ledger: &mut Ledger<'_>) -> Result<(), ConfigError> {
    let config = ledger.config;
    for (number, facts) in &config.document.node {
        let key = format!("node.{}", quoted(number.value()));
        let bad = || Problem::BadName { name: number.value().clone(), expected: "the number of a node" };
        // As the kernel writes it, so that there is one name for each.
        let id = number.value().parse().ok().filter(|id: &u32| id.to_string() == *number.value());
        let id = id.map(NodeId).ok_or_else(|| config.wrong(&number.span(), key.clone(), bad()))?;
        ledger.node(&key, &number.span(), id)?;
        if let Some(node) = topology.nodes.iter_mut().find(|node| node.id == id) {
            self::node(ledger, &key, facts, node)?;
        }
    }
    Ok(())
}

fn node(ledger: &mut Ledger<'_>, key: &str, facts: &NodeFacts, node: &mut NumaNode) -> Result<(), ConfigError> {
    ledger.give_if(format!("{key}.tier"), &mut node.tier, facts.tier.as_ref(), |tier| *tier);
    ledger.give_if(format!("{key}.memory"), &mut node.memory, facts.memory.as_ref(), |size| size.0);
    let mut given = Vec::new();
    for told in &facts.performance {
        let from = &told.from.value().0;
        ledger.online(&format!("{key}.performance.from"), &told.from.span(), from)?;
        let index = node.performance.iter().position(|known| known.from == *from).unwrap_or_else(|| {
            node.performance.push(MemoryPerformance { from: from.clone(), ..MemoryPerformance::default() });
            node.performance.len() - 1
        });
        performance(
            ledger,
            &format!("{key}.performance.{}", quoted(&from.to_string())),
            told,
            &mut node.performance[index],
            &mut given,
        )?;
    }
    Ok(())
}

fn performance(
    ledger: &mut Ledger<'_>,
    key: &str,
    told: &PerformanceFacts,
    known: &mut MemoryPerformance,
    given: &mut Vec<(Position, String)>,
) -> Result<(), ConfigError> {
    let fact = |name: &str| format!("{key}.{name}");
    let values = [
        ("read_bandwidth", told.read_bandwidth.as_ref().map(|rate| (rate.span(), rate.value().0.to_string()))),
        ("write_bandwidth", told.write_bandwidth.as_ref().map(|rate| (rate.span(), rate.value().0.to_string()))),
        ("read_latency_ns", told.read_latency_ns.as_ref().map(|time| (time.span(), time.value().to_string()))),
        ("write_latency_ns", told.write_latency_ns.as_ref().map(|time| (time.span(), time.value().to_string()))),
    ];
    for (name, value) in values {
        let Some((at, value)) = value else { continue };
        let position = ledger.config.position(&at, fact(name));
        if let Some((earlier, there)) =
            given.iter().find(|(earlier, there)| earlier.key == position.key && *there != value)
        {
            return Err(ledger.contradiction(&fact(name), &at, [value, there.clone()], earlier));
        }
        given.push((position, value));
    }
    ledger.give_if(fact("read_bandwidth"), &mut known.read_bandwidth, told.read_bandwidth.as_ref(), |rate| rate.0);
    ledger.give_if(fact("write_bandwidth"), &mut known.write_bandwidth, told.write_bandwidth.as_ref(), |rate| rate.0);
    ledger.give_if(fact("read_latency_ns"), &mut known.read_latency, told.read_latency_ns.as_ref(), |time| *time);
    ledger.give_if(fact("write_latency_ns"), &mut known.write_latency, told.write_latency_ns.as_ref(), |time| *time);
    Ok(())
}
