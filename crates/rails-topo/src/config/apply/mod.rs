//! Applies a file to a model.

mod devices;
mod distances;
mod locality_facts;
mod nics;
mod nodes;

use super::{
    Config, ConfigError, Position, Problem,
    located::{Located, Span},
};
use crate::{CpuSet, NodeId, NumaNode, Override, PciAddress, Topology};
use std::fmt;

/// The machine with the facts of the file. Does no I/O.
///
/// # Errors
/// [`ConfigError::Wrong`] for the first fault; the given machine does not change.
pub fn apply(topology: &Topology, config: &Config) -> Result<Topology, ConfigError> {
    let mut topology = topology.clone();
    let mut ledger = Ledger {
        config,
        nodes: topology.nodes.clone(),
        online: topology.online_cpus.clone(),
        overrides: Vec::new(),
        nodes_of_functions: Vec::new(),
    };
    nics::apply(&mut topology, &mut ledger)?;
    devices::apply(&mut topology, &mut ledger)?;
    nodes::apply(&mut topology, &mut ledger)?;
    distances::apply(&mut topology, &mut ledger)?;
    topology.overrides.append(&mut ledger.overrides);
    Ok(topology.in_order())
}

/// The changes of a file so far, and the facts that it is checked against.
struct Ledger<'a> {
    config: &'a Config,
    nodes: Vec<NumaNode>,
    online: CpuSet,
    overrides: Vec<Override>,
    /// The nodes that were given to devices of PCI functions so far; they are the functions' nodes.
    nodes_of_functions: Vec<(PciAddress, NodeId, Position)>,
}

impl Ledger<'_> {
    /// Sets a fact, and records its old value.
    fn set<T: fmt::Display>(&mut self, fact: String, at: &Span, slot: &mut Option<T>, value: T) {
        let new = Some(value.to_string());
        self.note(fact, at, slot.as_ref().map(T::to_string), new);
        *slot = Some(value);
    }

    /// Sets a fact that the file may leave out.
    fn set_if<T, V: fmt::Display>(
        &mut self,
        fact: String,
        slot: &mut Option<V>,
        stated: Option<&Located<T>>,
        value: impl FnOnce(&T) -> V,
    ) {
        if let Some(stated) = stated {
            self.set(fact, &stated.span(), slot, value(stated.value()));
        }
    }

    /// Sets a fact that follows from another one, which may also make it unknown. An equal old
    /// value is no change.
    fn follow<T: fmt::Display + PartialEq>(
        &mut self,
        fact: String,
        from: String,
        at: &Span,
        slot: &mut Option<T>,
        value: Option<T>,
    ) {
        if *slot == value {
            return;
        }
        self.note(fact, at, slot.as_ref().map(T::to_string), value.as_ref().map(T::to_string));
        if let Some(made) = self.overrides.last_mut() {
            made.follows_from = Some(from);
        }
        *slot = value;
    }

    /// Records a change.
    fn note(&mut self, fact: String, at: &Span, old: Option<String>, new: Option<String>) {
        let Position { file, line, column, key } = self.config.position(at, fact);
        self.overrides.push(Override { fact: key, old, new, follows_from: None, file, line, column });
    }

    /// The CPUs, all of which must be online.
    fn online(&self, key: &str, at: &Span, cpus: &CpuSet) -> Result<(), ConfigError> {
        let missing = cpus.difference(&self.online);
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.config.wrong(at, key, Problem::NoSuchCpus { missing, online: self.online.clone() })),
        }
    }

    /// The node of that number, which must be there.
    fn node(&self, key: &str, at: &Span, node: NodeId) -> Result<&NumaNode, ConfigError> {
        let there = || self.nodes.iter().map(|node| node.id).collect();
        let found = self.nodes.iter().find(|found| found.id == node);
        found.ok_or_else(|| self.config.wrong(at, key, Problem::NoSuchNode { node, there: there() }))
    }

    /// The error for a fact that has two values in the file.
    fn contradiction(&self, key: &str, at: &Span, values: [String; 2], earlier: &Position) -> ConfigError {
        let [here, there] = values;
        let problem = Problem::Contradiction { here, there, line: earlier.line, other: earlier.key.clone() };
        self.config.wrong(at, key, problem)
    }
}
