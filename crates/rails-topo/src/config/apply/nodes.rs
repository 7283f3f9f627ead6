//! NUMA nodes: their memory, and how fast it is.

use super::Ledger;
use crate::{
    Bandwidth, MemoryPerformance, NodeId, NumaNode, Topology,
    config::{
        ConfigError, Problem,
        document::{NodeFacts, PerformanceFacts},
        located::{Located, Span},
        values::Text,
    },
    model::quoted,
};
use std::collections::{BTreeMap, btree_map::Entry};

pub(super) fn apply(topology: &mut Topology, ledger: &mut Ledger<'_>) -> Result<(), ConfigError> {
    let config = ledger.config;
    for (number, facts) in &config.document.node {
        let key = format!("node.{}", quoted(number.value()));
        let bad = || Problem::BadName { name: number.value().clone(), expected: "the number of a node" };
        // In the kernel's form, so that each node has one name.
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
    ledger.set_if(format!("{key}.tier"), &mut node.tier, facts.tier.as_ref(), |tier| *tier);
    ledger.set_if(format!("{key}.memory"), &mut node.memory, facts.memory.as_ref(), |size| size.0);
    let mut given = BTreeMap::new();
    for stated in &facts.performance {
        let from = &stated.from.value().0;
        ledger.online(&format!("{key}.performance.from"), &stated.from.span(), from)?;
        let index = node.performance.iter().position(|known| known.from == *from).unwrap_or_else(|| {
            node.performance.push(MemoryPerformance { from: from.clone(), ..MemoryPerformance::default() });
            node.performance.len() - 1
        });
        performance(
            ledger,
            &format!("{key}.performance.{}", quoted(&from.to_string())),
            stated,
            &mut node.performance[index],
            &mut given,
        )?;
    }
    Ok(())
}

fn performance(
    ledger: &mut Ledger<'_>,
    key: &str,
    stated: &PerformanceFacts,
    known: &mut MemoryPerformance,
    given: &mut BTreeMap<String, (Span, u64, String)>,
) -> Result<(), ConfigError> {
    let fact = |name: &str| format!("{key}.{name}");
    let rate = |stated: &Located<Text<Bandwidth>>| {
        (stated.span(), stated.value().0.as_bits_per_second(), stated.value().0.to_string())
    };
    let time = |stated: &Located<u64>| (stated.span(), *stated.value(), stated.value().to_string());
    let values = [
        ("read_bandwidth", stated.read_bandwidth.as_ref().map(rate)),
        ("write_bandwidth", stated.write_bandwidth.as_ref().map(rate)),
        ("read_latency_ns", stated.read_latency_ns.as_ref().map(time)),
        ("write_latency_ns", stated.write_latency_ns.as_ref().map(time)),
    ];
    if values.iter().all(|(_, value)| value.is_none()) {
        return Err(ledger.config.wrong(&stated.from.span(), key, Problem::NothingGiven));
    }
    for (name, value) in values {
        let Some((at, value, text)) = value else { continue };
        match given.entry(fact(name)) {
            Entry::Vacant(first) => drop(first.insert((at, value, text))),
            Entry::Occupied(earlier) if earlier.get().1 == value => {}
            Entry::Occupied(earlier) => {
                let (span, _, there) = earlier.get();
                let values = [text, there.clone()];
                return Err(ledger.contradiction(&fact(name), &at, values, &ledger.config.position(span, fact(name))));
            }
        }
    }
    ledger.set_if(fact("read_bandwidth"), &mut known.read_bandwidth, stated.read_bandwidth.as_ref(), |rate| rate.0);
    ledger.set_if(fact("write_bandwidth"), &mut known.write_bandwidth, stated.write_bandwidth.as_ref(), |rate| rate.0);
    ledger.set_if(fact("read_latency_ns"), &mut known.read_latency, stated.read_latency_ns.as_ref(), |time| *time);
    ledger.set_if(fact("write_latency_ns"), &mut known.write_latency, stated.write_latency_ns.as_ref(), |time| *time);
    Ok(())
}
