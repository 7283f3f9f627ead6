//! Distances between nodes.

use super::Ledger;
use crate::{
    Distances, NodeId, Topology,
    config::{ConfigError, Position, Problem, located::Span},
};
use std::collections::BTreeMap;

/// A distance that the file gives.
struct StatedDistance {
    value: u64,
    at: Span,
    position: Position,
}

pub(super) fn apply(topology: &mut Topology, ledger: &mut Ledger<'_>) -> Result<(), ConfigError> {
    let stated = stated_distances(ledger)?;
    let Some(first) = stated.values().next() else { return Ok(()) };
    let (at, key) = (first.at.clone(), first.position.key.clone());
    // An entry holds in both directions, unless the other one has an entry of its own.
    let back = stated.iter().map(|((from, to), stated)| ((*to, *from), stated));
    let mut pairs: BTreeMap<(NodeId, NodeId), &StatedDistance> = back.collect();
    pairs.extend(stated.iter().map(|(pair, stated)| (*pair, stated)));

    let known = topology.distances.take();
    let nodes: Vec<NodeId> = ledger.nodes.iter().map(|node| node.id).collect();
    let mut values = Vec::with_capacity(nodes.len() * nodes.len());
    for (from, to) in nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to))) {
        let old = known.as_ref().and_then(|known| known.between(from, to));
        let value = match pairs.get(&(from, to)) {
            Some(stated) => {
                ledger.note(
                    format!("distance.{from}.{to}"),
                    &stated.at,
                    old.map(|old| old.to_string()),
                    Some(stated.value.to_string()),
                );
                stated.value
            }
            None if from == to => old.unwrap_or(LOCAL),
            None => old.ok_or_else(|| ledger.config.wrong(&at, key.clone(), Problem::DistanceMissing { from, to }))?,
        };
        values.push(value);
    }
    topology.distances = Some(Distances { nodes, values });
    Ok(())
}

/// The distances of the file, by direction.
fn stated_distances(ledger: &Ledger<'_>) -> Result<BTreeMap<(NodeId, NodeId), StatedDistance>, ConfigError> {
    let config = ledger.config;
    let mut stated: BTreeMap<(NodeId, NodeId), StatedDistance> = BTreeMap::new();
    for (index, fact) in config.document.distance.iter().enumerate() {
        let key = format!("distance[{index}]");
        let (from, to) = (NodeId(*fact.from.value()), NodeId(*fact.to.value()));
        ledger.node(&format!("{key}.from"), &fact.from.span(), from)?;
        ledger.node(&format!("{key}.to"), &fact.to.span(), to)?;
        if from == to {
            return Err(config.wrong(&fact.to.span(), format!("{key}.to"), Problem::DistanceToItself));
        }
        let (value, at) = (fact.value.value().0, fact.value.span());
        let key = format!("{key}.value");
        match stated.get(&(from, to)) {
            Some(earlier) if earlier.value != value => {
                let values = [value.to_string(), earlier.value.to_string()];
                return Err(ledger.contradiction(&key, &at, values, &earlier.position));
            }
            Some(_) => {}
            None => {
                let position = config.position(&at, key);
                stated.insert((from, to), StatedDistance { value, at, position });
            }
        }
    }
    Ok(stated)
}

/// A node's distance from itself.
const LOCAL: u64 = 10;
