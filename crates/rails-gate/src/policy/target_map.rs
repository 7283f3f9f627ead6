//! Values by destination: the longest prefix decides, and under it the port.

use super::{
    Target,
    ports::PortRange,
    target::{canonical, min_prefix},
};
use ipnet::IpNet;
use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
};

/// The values of destinations. A lookup takes as many steps as there are different prefixes, and
/// is no slower for more targets.
#[derive(Debug, PartialEq)]
pub(super) struct TargetMap<V> {
    nets: HashMap<IpNet, Runs<V>>,
    /// The prefixes that networks have, by family.
    v4_prefixes: BTreeSet<u8>,
    v6_prefixes: BTreeSet<u8>,
}

/// The values of a network's ports, in ascending order without overlaps.
type Runs<V> = Vec<(PortRange, V)>;

/// A port of a network has two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Conflict<V> {
    pub(super) net: IpNet,
    /// The ports that both have.
    pub(super) ports: PortRange,
    pub(super) values: [V; 2],
}

impl<V: Copy + PartialEq> TargetMap<V> {
    /// The values of these targets.
    ///
    /// # Errors
    /// Two targets with the same network, a common port and different values.
    pub(super) fn new<'a>(targets: impl IntoIterator<Item = (&'a Target, V)>) -> Result<Self, Conflict<V>> {
        let mut map = Self { nets: HashMap::new(), v4_prefixes: BTreeSet::new(), v6_prefixes: BTreeSet::new() };
        for (target, value) in targets {
            let runs = map.nets.entry(target.net()).or_default();
            runs.extend(target.ports().ranges().iter().map(|range| (*range, value)));
        }
        for (net, runs) in &mut map.nets {
            *runs = disjoint(std::mem::take(runs)).map_err(|(ports, values)| Conflict { net: *net, ports, values })?;
            let prefixes = if net.addr().is_ipv4() { &mut map.v4_prefixes } else { &mut map.v6_prefixes };
            prefixes.insert(net.prefix_len());
        }
        Ok(map)
    }

    /// The value of a destination: of the longest prefix among the targets that contain it.
    pub(super) fn get(&self, destination: SocketAddr) -> Option<V> {
        let destination = canonical(destination);
        let (ip, port) = (destination.ip(), destination.port());
        let prefixes = if ip.is_ipv4() { &self.v4_prefixes } else { &self.v6_prefixes };
        prefixes.range(min_prefix(ip)..).rev().find_map(|prefix| {
            let net = IpNet::new(ip, *prefix).ok()?.trunc();
            let runs = self.nets.get(&net)?;
            let above = runs.partition_point(|(range, _)| range.first() <= port);
            let (range, value) = runs.get(above.checked_sub(1)?)?;
            range.contains(port).then_some(*value)
        })
    }
}

/// Runs in ascending order, with those joined that overlap and have one value.
///
/// # Errors
/// The ports that two values share.
fn disjoint<V: Copy + PartialEq>(mut runs: Vec<(PortRange, V)>) -> Result<Runs<V>, (PortRange, [V; 2])> {
    runs.sort_by_key(|(range, _)| *range);
    let mut disjoint: Runs<V> = Vec::with_capacity(runs.len());
    for (range, value) in runs {
        let shared = disjoint.last_mut().and_then(|before| {
            let shared = PortRange::new(range.first(), range.last().min(before.0.last()))?;
            Some((before, shared))
        });
        match shared {
            None => disjoint.push((range, value)),
            Some((before, _)) if before.1 == value => {
                before.0 = PortRange::new(before.0.first(), before.0.last().max(range.last())).unwrap_or(before.0);
            }
            Some((before, shared)) => return Err((shared, [before.1, value])),
        }
    }
    Ok(disjoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::generate;
    use proptest::{collection::vec, prelude::*};

    /// The value as the documentation has it, in time that grows with the targets.
    fn oracle(targets: &[(Target, usize)], address: SocketAddr) -> Option<usize> {
        let containing = targets.iter().filter(|(target, _)| target.contains(address));
        containing.max_by_key(|(target, _)| target.net().prefix_len()).map(|(_, value)| *value)
    }

    fn conflict(targets: &[(Target, usize)]) -> bool {
        targets.iter().enumerate().any(|(index, (one, value))| {
            targets[..index].iter().any(|(other, others)| {
                let overlap = |port| one.ports().contain(port) && other.ports().contain(port);
                let firsts = one.ports().ranges().iter().chain(other.ports().ranges());
                value != others && one.net() == other.net() && firsts.into_iter().any(|range| overlap(range.first()))
            })
        })
    }

    proptest! {
        #[test]
        fn the_map_agrees_with_a_search(
            targets in vec((generate::target(), 0_usize..3), 0..8),
            addresses in vec(generate::address(), 20),
        ) {
            match TargetMap::new(targets.iter().map(|(target, value)| (target, *value))) {
                Err(found) => {
                    prop_assert!(conflict(&targets), "{:?}", found);
                    prop_assert!(found.values[0] != found.values[1]);
                    for value in found.values {
                        let has_it = targets.iter().any(|(target, other)| {
                            value == *other && target.net() == found.net && target.ports().contain(found.ports.first())
                        });
                        prop_assert!(has_it, "{:?}", found);
                    }
                }
                Ok(map) => {
                    prop_assert!(!conflict(&targets));
                    for address in addresses {
                        prop_assert_eq!(map.get(address), oracle(&targets, address), "{}", address);
                    }
                }
            }
        }
    }
}
