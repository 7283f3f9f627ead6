//! Objects as hwloc has them: each in another one, by its CPUs.

use crate::{CpuId, CpuSet, NodeSet};

/// One object and what it holds.
#[derive(Debug)]
pub(super) struct Object {
    /// hwloc's name of its type.
    pub(super) kind: &'static str,
    /// The kernel's number of it.
    pub(super) os_index: Option<u32>,
    /// `None` of I/O objects.
    pub(super) sets: Option<Sets>,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) infos: Vec<(&'static str, String)>,
    /// Pools of pages: size and count.
    pub(super) pages: Vec<(u64, u64)>,
    pub(super) memory: Vec<Object>,
    pub(super) children: Vec<Object>,
    pub(super) devices: Vec<Object>,
}

/// Where an object is.
#[derive(Debug, Clone, Default)]
pub(super) struct Sets {
    pub(super) cpus: CpuSet,
    pub(super) nodes: NodeSet,
}

impl Object {
    /// An object without CPUs.
    pub(super) fn device(kind: &'static str) -> Self {
        Self {
            kind,
            os_index: None,
            sets: None,
            attributes: Vec::new(),
            infos: Vec::new(),
            pages: Vec::new(),
            memory: Vec::new(),
            children: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// An object of these CPUs.
    pub(super) fn with_cpus(kind: &'static str, os_index: Option<u32>, cpus: CpuSet) -> Self {
        Self { os_index, sets: Some(Sets { cpus, nodes: NodeSet::new() }), ..Self::device(kind) }
    }

    pub(super) fn cpus(&self) -> Option<&CpuSet> {
        self.sets.as_ref().map(|sets| &sets.cpus)
    }

    /// Puts an object to where it belongs; all that are larger must be in already. One that is partly inside another is dropped: a tree has no place for it.
    pub(super) fn insert(&mut self, object: Object) {
        let Some(cpus) = object.cpus() else { return };
        match self.children.iter().position(|child| child.cpus().is_some_and(|known| known.intersects(cpus))) {
            Some(index) if self.children[index].holds(cpus) => self.children[index].insert(object),
            Some(_) => {}
            None => {
                let first = |object: &Object| object.cpus().and_then(CpuSet::first).unwrap_or(CpuId(u32::MAX));
                let index = self.children.partition_point(|child| first(child) < first(&object));
                self.children.insert(index, object);
            }
        }
    }

    /// The smallest object that holds these CPUs, and of several the outermost.
    pub(super) fn smallest(&mut self, cpus: &CpuSet) -> &mut Object {
        let inside = self.children.iter().position(|child| child.holds(cpus));
        match inside.filter(|_| !cpus.is_empty() && self.cpus() != Some(cpus)) {
            Some(index) => self.children[index].smallest(cpus),
            None => self,
        }
    }

    fn holds(&self, cpus: &CpuSet) -> bool {
        self.cpus().is_some_and(|own| cpus.is_subset(own))
    }
}
