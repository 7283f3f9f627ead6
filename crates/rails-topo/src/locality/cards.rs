//! Interfaces of one card, and interfaces below one port of the root complex.

use super::{
    CommonAncestor, Locality,
    pci_tree::{PciTree, slot},
};
use crate::{Nic, Topology};
use std::{collections::HashMap, hash::Hash};

/// An interface that shares a part of its path with another, so that the two are not two rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sharer<'l> {
    /// The interface.
    pub nic: &'l Nic,
    /// The innermost object that the two share: a port, a function, a card, a PCIe switch, or a
    /// port of the root complex.
    pub shares: CommonAncestor,
}

impl<'a> Locality<'a> {
    /// Whether two interfaces of this model are of one card, whose PCI link they share: functions
    /// of one PCI device (also of one whose virtual functions they are), or interfaces of one port
    /// or one switch in a card, which drivers name alike (`phys_port_id`, `phys_switch_id`). An
    /// interface is of one card with itself. `false` if the model does not state that they are.
    ///
    /// A card may have several PCI devices (one in each of two slots, a switch with a NIC below
    /// each of its ports): unless the driver names them alike, they count as sharing a PCIe switch
    /// or a root port, or nothing.
    pub fn same_card(&self, a: &Nic, b: &Nic) -> bool {
        let of = |nic: &Nic| self.nic_index(nic).map(|index| self.cards.cards.group_of[index]);
        of(a).is_some() && of(a) == of(b)
    }

    /// The other interfaces that share a card, a PCIe switch or a port of the root complex with
    /// this one, those of its card first. Empty if there are none, or none is known.
    ///
    /// A virtual interface (a bond, a VLAN, a bridge) has no sharers itself: query the interfaces
    /// under it.
    pub fn sharers(&self, nic: &Nic) -> impl Iterator<Item = Sharer<'a>> {
        let index = self.nic_index(nic);
        let card = index.map(|index| self.cards.cards.group(index)).unwrap_or_default();
        let root_port = index.map(|index| self.cards.root_ports.group(index)).unwrap_or_default();
        let card_of = |other: u32| self.cards.cards.group_of[other as usize];
        let elsewhere =
            root_port.iter().filter(move |other| index.map(|index| card_of(index as u32)) != Some(card_of(**other)));
        let others = card.iter().chain(elsewhere).filter(move |other| index != Some(**other as usize));
        others.filter_map(move |other| {
            let own = &self.topology.nics()[index?];
            let nic = &self.topology.nics()[*other as usize];
            Some(Sharer { nic, shares: self.common_ancestor(own, nic)? })
        })
    }

    fn nic_index(&self, nic: &Nic) -> Option<usize> {
        let nics = self.topology.nics();
        let found = self.cards.by_name.binary_search_by(|index| nics[*index as usize].name.cmp(&nic.name)).ok()?;
        Some(self.cards.by_name[found] as usize)
    }
}

/// The interfaces of a machine, grouped.
#[derive(Debug, Clone)]
pub(super) struct Cards {
    by_name: Vec<u32>,
    cards: Groups,
    /// Groups by the topmost function above: mostly a root port.
    root_ports: Groups,
}

/// Every interface in one group.
#[derive(Debug, Clone)]
struct Groups {
    group_of: Vec<u32>,
    members: Vec<Vec<u32>>,
}

impl Cards {
    pub(super) fn of(topology: &Topology, tree: &PciTree) -> Self {
        let nics = topology.nics();
        let mut by_name: Vec<u32> = (0..nics.len() as u32).collect();
        by_name.sort_by_key(|index| &nics[*index as usize].name);

        let mut cards = Joined::new(nics.len());
        cards.join(nics.iter().map(|nic| nic.pci.map(|address| slot(tree, address))));
        cards.join(nics.iter().map(|nic| nic.physical_switch.as_ref()));
        cards.join(nics.iter().map(|nic| nic.physical_port.as_ref()));
        let mut root_ports = Joined::new(nics.len());
        root_ports.join(nics.iter().map(|nic| Some(tree.top(tree.find(nic.pci?)?).address)));
        Self { by_name, cards: cards.into(), root_ports: root_ports.into() }
    }
}

impl Groups {
    fn group(&self, index: usize) -> &[u32] {
        &self.members[self.group_of[index] as usize]
    }
}

/// Disjoint sets of numbers, as a forest: each points to another of its set, or to itself.
struct Joined(Vec<u32>);

impl Joined {
    fn new(count: usize) -> Self {
        Self((0..count as u32).collect())
    }

    /// Joins the sets of all that have the same key.
    fn join<K: Hash + Eq>(&mut self, keys: impl Iterator<Item = Option<K>>) {
        let mut first: HashMap<K, u32> = HashMap::new();
        for (index, key) in (0..).zip(keys) {
            let Some(key) = key else { continue };
            let earlier = *first.entry(key).or_insert(index);
            let (a, b) = (self.root(earlier), self.root(index));
            // The smaller number leads, so that the outcome does not depend on the order.
            self.0[a.max(b) as usize] = a.min(b);
        }
    }

    fn root(&mut self, index: u32) -> u32 {
        let mut root = index;
        while self.0[root as usize] != root {
            root = self.0[root as usize];
        }
        self.0[index as usize] = root;
        root
    }
}

impl From<Joined> for Groups {
    fn from(mut joined: Joined) -> Self {
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut group_of = Vec::new();
        for index in 0..joined.0.len() as u32 {
            let root = joined.root(index);
            let group = if root == index { members.len() as u32 } else { group_of[root as usize] };
            if root == index {
                members.push(Vec::new());
            }
            members[group as usize].push(index);
            group_of.push(group);
        }
        Self { group_of, members }
    }
}
