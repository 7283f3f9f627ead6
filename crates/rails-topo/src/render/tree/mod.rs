//! The machine as a text for people: `topo` in a terminal.

mod columns;
mod devices;
mod nics;
mod object_lines;

use super::phrases;
use crate::{Distances, NodeId, Topology};
use std::fmt;

impl Topology {
    /// The machine as an indented text: packages, dies, nodes, caches and cores, then NICs and
    /// other devices, distances, and the allowed sets. The text is for people: long lists are cut.
    /// The model itself (by serde) has everything.
    pub fn tree(&self) -> Tree<'_> {
        Tree(self)
    }
}

/// Prints a [`Topology`]; made by [`Topology::tree`].
#[derive(Debug, Clone, Copy)]
pub struct Tree<'a>(&'a Topology);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topology = self.0;
        writeln!(f, "machine {} ({})", phrases::machine(topology), phrases::origin(topology))?;
        write!(f, "{}", object_lines::columns(topology))?;
        match topology.nics().is_empty() {
            true => writeln!(f, "NICs: none")?,
            false => write!(f, "NICs\n{}", nics::columns(topology))?,
        }
        devices::write(f, topology)?;
        if let Some(distances) = &topology.distances {
            write_distances(f, distances)?;
        }
        allowed(f, topology)
    }
}

fn write_distances(f: &mut fmt::Formatter<'_>, distances: &Distances) -> fmt::Result {
    let width = distances.values.iter().map(|value| value.to_string().len()).max().unwrap_or(1).max(2);
    writeln!(f, "distances")?;
    let column = |f: &mut fmt::Formatter<'_>, node: &NodeId| write!(f, " {:>width$}", node.0);
    write!(f, "  node")?;
    distances.nodes.iter().try_for_each(|node| column(f, node))?;
    writeln!(f)?;
    for (node, row) in distances.nodes.iter().zip(distances.values.chunks(distances.nodes.len().max(1))) {
        write!(f, "  {:>4}", node.0)?;
        row.iter().try_for_each(|value| write!(f, " {value:>width$}"))?;
        writeln!(f)?;
    }
    Ok(())
}

fn allowed(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    let (allowed, online) = (topology.allowed_cpus(), topology.online_cpus());
    write!(f, "allowed CPUs {}", phrases::cpus(allowed))?;
    if allowed != online {
        write!(f, " of {}", phrases::cpus(online))?;
    }
    match topology.nodes().len() {
        0 => writeln!(f, ", no NUMA nodes")?,
        _ => writeln!(f, ", nodes {}", topology.allowed_nodes())?,
    }
    for (what, cpus) in [("isolated", topology.isolated_cpus()), ("nohz_full", topology.nohz_full_cpus())] {
        if !cpus.is_empty() {
            writeln!(f, "{what} CPUs {}", phrases::cpus(cpus))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
