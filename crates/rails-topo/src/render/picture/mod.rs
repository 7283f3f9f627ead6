//! The machine as a picture.
//!
//! The picture takes three steps, of which the first two draw nothing: facts become blocks in
//! blocks (`scene`), the blocks get their positions (`layout`), and the layout becomes SVG
//! (`draw`).

mod block;
mod draw;
mod layout;
mod palette;
mod scene;
#[cfg(test)]
mod tests;

use super::phrases;
use crate::{CpuSet, NodeId, Topology};

/// The marks in a picture of a machine ([`Topology::svg`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// The rails, planned or live, each in a colour of its own.
    pub rails: Vec<RailMark>,
}

/// A rail, as far as a picture shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RailMark {
    /// A short name such as `R0`, which marks all parts of the rail.
    pub name: String,
    /// The interface that the rail's lane uses; `None` if it is unknown.
    pub nic: Option<String>,
    /// The CPUs that the rail's threads are bound to.
    pub cpus: CpuSet,
    /// The node of the rail's memory; `None` if there are no nodes, or it is unknown.
    pub node: Option<NodeId>,
    /// The interrupts of the rail's packets, by their numbers in `/proc/interrupts`.
    pub interrupts: Vec<u32>,
}

impl Topology {
    /// The machine as a picture (an SVG file): packages, dies, nodes, caches, cores and PUs, the
    /// NICs and other devices beside their localities, with their PCI links, the CPUs of
    /// interrupts, and `overlay` over it.
    ///
    /// The layout suits a screen: equal blocks are in a grid, large machines have smaller blocks
    /// with fewer words, and the rest of a text shows under the pointer. No fact depends on colour
    /// alone. The same machine and overlay give the same bytes. Names may hold any text; the file
    /// is always well-formed.
    ///
    /// ```
    /// use rails_topo::{Nic, Overlay, RailMark, Topology};
    ///
    /// let machine = Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:2", vec![Nic::named("eth0")])?;
    /// let rail = RailMark {
    ///     name: "R0".to_owned(),
    ///     nic: Some("eth0".to_owned()),
    ///     cpus: "3".parse().unwrap(),
    ///     ..RailMark::default()
    /// };
    /// let picture = machine.svg(&Overlay { rails: vec![rail] });
    /// assert!(picture.contains("<svg"));
    /// # Ok::<(), rails_topo::SyntheticError>(())
    /// ```
    pub fn svg(&self, overlay: &Overlay) -> String {
        let scene = scene::scene(self, overlay);
        draw::draw(&layout::layout(&scene), overlay, &phrases::machine(self))
    }
}
