//! The description of a lab, until it is built.

use crate::{
    EmulatedLink, LabError, LinkLab, MAX_LINKS, Shape, Side, description::Description, keeper::Keeper, lab,
    name::NamespaceName, namespace::Namespace, sweep,
};
use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// Collects the links of a lab.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder makes nothing until it is built"]
pub struct LinkLabBuilder {
    links: Vec<Description>,
    known_neighbours: bool,
}

impl LinkLab {
    /// A builder without links.
    pub fn builder() -> LinkLabBuilder {
        LinkLabBuilder::default()
    }
}

impl LinkLabBuilder {
    /// Adds a veth pair of this shape.
    pub fn link(mut self, shape: Shape) -> Self {
        self.links.push(Description::Veth(shape));
        self
    }

    /// Adds a veth pair of each of these shapes.
    pub fn links(mut self, shapes: impl IntoIterator<Item = Shape>) -> Self {
        self.links.extend(shapes.into_iter().map(Description::Veth));
        self
    }

    /// Adds a link of this shape that goes through a bridge, as two machines at a switch are
    /// joined: if one end goes down, the other keeps its carrier.
    pub fn bridged(mut self, shape: Shape) -> Self {
        self.links.push(Description::Bridged(shape));
        self
    }

    /// Adds an emulated link: a link through user space, with delay and loss.
    pub fn emulated(mut self, link: EmulatedLink) -> Self {
        self.links.push(Description::Emulated(link));
        self
    }

    /// Gives the ends of emulated links permanent neighbour entries, for tests that count every
    /// frame: an ARP frame would draw from the losses too. By default the ends use ARP, so the
    /// first packet after a link has come up may wait, for a second if a request is lost.
    pub fn known_neighbours(mut self) -> Self {
        self.known_neighbours = true;
        self
    }

    /// Sweeps the leftovers of dead owners, then makes the namespaces and the links; a failure
    /// half-way leaves nothing.
    ///
    /// # Errors
    ///
    /// [`LabError::NoLinks`], [`LabError::TooManyLinks`], [`LabError::BadShape`] and
    /// [`LabError::BadEmulatedLink`] before anything is touched, those of [`LinkLab::check`],
    /// [`LabError::System`] when `ip` or `tc` refuses, [`LabError::Tap`] and
    /// [`LabError::EmulationNotStarted`].
    ///
    /// # Privileges
    ///
    /// Root; for an emulated link also `/dev/net/tun`.
    pub fn build(self) -> Result<LinkLab, LabError> {
        match self.links.len() {
            0 => return Err(LabError::NoLinks),
            wanted if wanted > MAX_LINKS => return Err(LabError::TooManyLinks { wanted }),
            _ => {}
        }
        self.links.iter().try_for_each(Description::validate)?;
        let tools = lab::check()?;
        sweep::sweep(&tools)?;

        let (pid, lab) = (process::id(), NEXT_LAB.fetch_add(1, Ordering::Relaxed));
        let [a, b] =
            Side::BOTH.map(|side| Namespace::new(NamespaceName { pid, lab, side }.to_string(), tools.ip.clone()));
        // The keeper starts first: from here on every return cleans up.
        let keeper = Keeper::start(&tools.ip, [a.name(), b.name()])?;
        let mut lab =
            LinkLab { tools, a, b, links: Vec::new(), known_neighbours: self.known_neighbours, _keeper: keeper };
        for side in Side::BOTH {
            lab.make_namespace(side)?;
        }
        for link in self.links {
            match link {
                Description::Veth(shape) => lab.make_veth(shape)?,
                Description::Bridged(shape) => lab.make_bridged(shape)?,
                Description::Emulated(link) => lab.make_emulated(link)?,
            }
        }
        Ok(lab)
    }
}

static NEXT_LAB: AtomicU32 = AtomicU32::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_labs_are_refused_untouched() {
        assert!(matches!(LinkLab::builder().build(), Err(LabError::NoLinks)));
        let many = LinkLab::builder().links([Shape::Unshaped; MAX_LINKS + 1]);
        assert!(matches!(many.build(), Err(LabError::TooManyLinks { wanted: 257 })));
        let still = LinkLab::builder().link(Shape::mbit(0));
        assert!(matches!(still.build(), Err(LabError::BadShape { .. })));
        let gone = LinkLab::builder().link(Shape::Unshaped).emulated(EmulatedLink::mbit(1).loss(2.0));
        assert!(matches!(gone.build(), Err(LabError::BadEmulatedLink { .. })));
    }
}
