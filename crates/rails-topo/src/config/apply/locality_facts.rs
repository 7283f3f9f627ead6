//! The locality of a device: its node and its local CPUs, which go together.

use super::Ledger;
use crate::{
    CpuSet, NodeId, PciAddress,
    config::{
        ConfigError, Problem,
        document::{DeviceFacts, NicFacts, PciFacts},
        located::Located,
        values::Text,
    },
};

/// The locality that a file states.
pub(super) struct LocalityFacts<'a> {
    node: Option<&'a Located<u32>>,
    local_cpus: Option<&'a Located<Text<CpuSet>>>,
}

/// The fields of the model that hold a device's locality.
pub(super) struct LocalityFields<'a> {
    pub(super) pci: Option<PciAddress>,
    pub(super) node: &'a mut Option<NodeId>,
    pub(super) local_cpus: &'a mut Option<CpuSet>,
}

macro_rules! states_locality {
    ($($type:ty),*) => {
        $(impl $type {
            pub(super) fn locality(&self) -> LocalityFacts<'_> {
                LocalityFacts { node: self.node.as_ref(), local_cpus: self.local_cpus.as_ref() }
            }
        })*
    };
}

states_locality!(NicFacts, DeviceFacts, PciFacts);

impl Ledger<'_> {
    /// Sets the locality of a device to that of the file; `of` is the device's key.
    ///
    /// One half alone would contradict the other one, because queries go by the local CPUs first.
    /// So a new node brings its CPUs, and CPUs outside the known node bring their own.
    pub(super) fn set_locality(
        &mut self,
        of: &str,
        facts: &LocalityFacts<'_>,
        fields: LocalityFields<'_>,
    ) -> Result<(), ConfigError> {
        let (node_key, cpus_key) = (format!("{of}.node"), format!("{of}.local_cpus"));
        if let Some(cpus) = facts.local_cpus {
            self.online(&cpus_key, &cpus.span(), &cpus.value().0)?;
        }
        if let Some(stated) = facts.node {
            let node = NodeId(*stated.value());
            let of_node = self.node(&node_key, &stated.span(), node)?.cpus.clone();
            self.agree(&node_key, stated, fields.pci)?;
            let moves = *fields.node != Some(node);
            self.set(node_key.clone(), &stated.span(), fields.node, node);
            match facts.local_cpus {
                Some(cpus) if !of_node.is_empty() && !cpus.value().0.intersects(&of_node) => {
                    let line = self.config.position(&stated.span(), "").line;
                    let problem = Problem::NotOfNode { cpus: cpus.value().0.clone(), node, line, of_node };
                    return Err(self.config.wrong(&cpus.span(), cpus_key, problem));
                }
                Some(_) => {}
                None if moves => {
                    let local = Some(of_node).filter(|cpus| !cpus.is_empty());
                    self.follow(cpus_key.clone(), node_key, &stated.span(), fields.local_cpus, local);
                }
                None => {}
            }
        }
        if let Some(cpus) = facts.local_cpus {
            let (at, cpus) = (cpus.span(), cpus.value().0.clone());
            self.set(cpus_key.clone(), &at, fields.local_cpus, cpus.clone());
            let known = self.nodes.iter().find(|node| Some(node.id) == *fields.node);
            if facts.node.is_none() && known.is_none_or(|node| !node.cpus.is_empty() && !node.cpus.intersects(&cpus)) {
                let holder = self.nodes.iter().find(|node| cpus.is_subset(&node.cpus)).map(|node| node.id);
                self.follow(format!("{of}.node"), cpus_key, &at, fields.node, holder);
            }
        }
        Ok(())
    }

    /// All devices of one PCI function have one locality: the file must not give two.
    fn agree(&mut self, key: &str, stated: &Located<u32>, pci: Option<PciAddress>) -> Result<(), ConfigError> {
        let Some(pci) = pci else { return Ok(()) };
        let node = NodeId(*stated.value());
        if let Some((_, other, earlier)) =
            self.nodes_of_functions.iter().find(|(function, other, _)| *function == pci && *other != node)
        {
            let values = [format!("node {node}"), format!("node {other}")];
            return Err(self.contradiction(key, &stated.span(), values, earlier));
        }
        self.nodes_of_functions.push((pci, node, self.config.position(&stated.span(), key)));
        Ok(())
    }
}
