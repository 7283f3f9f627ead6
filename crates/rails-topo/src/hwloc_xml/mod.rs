//! The model as an hwloc XML file.
//!
//! The format is that of hwloc's topology-xml.c (hwloc 2.9; the only other description is
//! hwloc2.dtd).

mod cpu_objects;
mod document;
mod element;
mod io_objects;
mod object;

use crate::Topology;

impl Topology {
    /// The machine in hwloc's XML format of version 2.0, for `lstopo` and every program that uses
    /// hwloc; needs no hwloc.
    ///
    /// [`from_xml`](Self::from_xml) reads from it the same packages, dies, nodes, caches, cores,
    /// distances, PCI functions, and interfaces with a device. The format has no room for queues,
    /// interrupts, speeds and addresses of interfaces, virtual interfaces, sets that lie partly in
    /// another one, and PCI domains above 0xffff. hwloc demands a node, so a machine without nodes
    /// gets one; a node of unknown memory is written without a size; and a node without CPUs is
    /// attached to the whole machine, so that hwloc counts it among the nodes of every object.
    ///
    /// ```
    /// let machine = rails_topo::Topology::synthetic("package:2 numa:1 core:4 pu:2", vec![])?;
    /// assert!(machine.to_hwloc_xml().contains(r#"<object type="Package""#));
    /// # Ok::<(), rails_topo::SyntheticError>(())
    /// ```
    pub fn to_hwloc_xml(&self) -> String {
        let mut machine = cpu_objects::machine(self);
        io_objects::attach_devices(self, &mut machine);
        document::document(self, machine)
    }
}
