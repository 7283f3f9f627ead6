//! Objects as in hwloc: each in the smallest one that holds its CPUs.

use super::element::Element;
use crate::{CpuId, CpuSet, NodeSet};

/// One object and the objects in it.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// hwloc's name for the object's type.
    pub(super) kind: &'static str,
    /// The kernel's number for the object.
    pub(super) os_index: Option<u32>,
    /// `None` for I/O objects.
    pub(super) cpus: Option<CpuSet>,
    pub(super) nodes: NodeSet,
    pub(super) attributes: Vec<(&'static str, String)>,
    /// Elements that stand before the inner objects.
    pub(super) inner: Vec<Element>,
    pub(super) memory: Vec<Object>,
    pub(super) children: Vec<Object>,
    pub(super) devices: Vec<Object>,
}

impl Object {
    pub(super) fn io(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    pub(super) fn with_cpus(kind: &'static str, os_index: Option<u32>, cpus: CpuSet) -> Self {
        Self { kind, os_index, cpus: Some(cpus), ..Self::default() }
    }

    /// Adds an element for each value that is known.
    pub(super) fn infos<'a>(mut self, infos: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Self {
        self.inner.extend(infos.into_iter().filter_map(|(name, value)| Some(Element::info(name, &value?))));
        self
    }

    /// Puts an object into the smallest one that holds it, after all larger ones. An object that
    /// lies partly in another is dropped, because a tree cannot hold it.
    pub(super) fn insert(&mut self, object: Object) {
        let Some(cpus) = &object.cpus else { return };
        let touched = |child: &Object| child.cpus.as_ref().is_some_and(|known| known.intersects(cpus));
        match self.children.iter().position(touched) {
            Some(index) if self.children[index].holds(cpus) => self.children[index].insert(object),
            Some(_) => {}
            None => {
                let first = |object: &Object| object.cpus.as_ref().and_then(CpuSet::first).unwrap_or(CpuId(u32::MAX));
                let index = self.children.partition_point(|child| first(child) < first(&object));
                self.children.insert(index, object);
            }
        }
    }

    /// The smallest object that holds these CPUs, and of several the outermost.
    pub(super) fn smallest(&mut self, cpus: &CpuSet) -> &mut Object {
        let inside = self.children.iter().position(|child| child.holds(cpus));
        match inside.filter(|_| !cpus.is_empty() && self.cpus.as_ref() != Some(cpus)) {
            Some(index) => self.children[index].smallest(cpus),
            None => self,
        }
    }

    fn holds(&self, cpus: &CpuSet) -> bool {
        self.cpus.as_ref().is_some_and(|own| cpus.is_subset(own))
    }
}
