//! The machine as an hwloc XML file.
//!
//! The format is what hwloc's topology-xml.c reads and writes (hwloc 2.9; there is no other description but hwloc2.dtd).

mod cpu_objects;
mod elements;
mod io_objects;
mod object;

use crate::Topology;

impl Topology {
    /// The machine in hwloc's XML format of version 2.0, for `lstopo` and every program that uses hwloc; needs no hwloc.
    ///
    /// [`from_xml`](Self::from_xml) reads from it the same packages, dies, nodes, caches, cores, distances, PCI functions, and interfaces with a device. What the format has no
    /// place for is left out: queues, interrupts, speeds and addresses of interfaces, interfaces in software, sets that are neither inside nor outside of another one,
    /// and PCI domains above 0xffff. Where there are no nodes, one is made up, for hwloc demands it; a node whose memory is unknown has none; and a
    /// node without CPUs hangs on the whole machine, so that hwloc counts it among the nodes of everything.
    ///
    /// ```
    /// let machine = rails_topo::Topology::synthetic("package:2 numa:1 core:4 pu:2", vec![])?;
    /// assert!(machine.to_hwloc_xml().contains(r#"<object type="Package""#));
    /// # Ok::<(), rails_topo::SyntheticError>(())
    /// ```
    pub fn to_hwloc_xml(&self) -> String {
        let mut machine = cpu_objects::machine(self);
        io_objects::hang(self, &mut machine);
        elements::file(self, machine)
    }
}
