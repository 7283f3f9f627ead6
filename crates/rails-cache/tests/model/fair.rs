//! An exact search for runs in which a request waits for ever.
//!
//! stateright's `eventually` forgets a property on cycles. On a finite model a request waits for
//! ever exactly if there is a reachable set of states, each reachable from each, in which it waits,
//! that a run can stay in while every module is scheduled. A module that is scheduled idles only if
//! it has nothing else to do.

use crate::site::{Module, Site, State};
use foldhash::fast::FixedState;
use petgraph::{
    algo::tarjan_scc,
    graph::{DiGraph, NodeIndex},
    visit::EdgeRef,
};
use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher,
};

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) states: usize,
    /// The number of states in a set in which the watched request waits for ever.
    pub(crate) starving_states: Option<usize>,
}

pub(crate) fn search(site: &Site) -> Search {
    // A state is a node with the weight whether the watched request waits in it, a step an edge.
    let mut graph: DiGraph<bool, Module> = DiGraph::new();
    let mut found: HashMap<u128, NodeIndex> = HashMap::new();
    let mut todo = Vec::new();
    let first = site.first_state();
    let index = graph.add_node(false);
    found.insert(fingerprint(&first), index);
    todo.push((index, first));
    while let Some((from, state)) = todo.pop() {
        for module in Module::ALL {
            for step in site.steps(&state, module) {
                let next = site.after(&state, step);
                let is_progress = next.is_progress;
                let to = *found.entry(fingerprint(&next)).or_insert_with(|| {
                    let index = graph.add_node(next.is_watching());
                    todo.push((index, next));
                    index
                });
                if !is_progress {
                    graph.add_edge(from, to, module);
                }
            }
        }
    }
    let waiting = graph.filter_map(|_, is_watching| is_watching.then_some(()), |_, module| Some(*module));
    let starving_states = tarjan_scc(&waiting).into_iter().find_map(|component| {
        let inside: HashSet<NodeIndex> = component.iter().copied().collect();
        let edges = component.iter().flat_map(|state| waiting.edges(*state));
        let scheduled: HashSet<Module> =
            edges.filter(|edge| inside.contains(&edge.target())).map(|edge| *edge.weight()).collect();
        (scheduled.len() == Module::ALL.len()).then_some(component.len())
    });
    Search { states: graph.node_count(), starving_states }
}

/// A state in 128 bits. Among a million states, two are taken for one with a chance of 1e-27.
fn fingerprint(state: &State) -> u128 {
    let [high, low] = [1, 2].map(|seed| u128::from(FixedState::with_seed(seed).hash_one(state)));
    high << 64 | low
}
