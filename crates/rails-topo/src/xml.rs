//! Machines saved by `lstopo machine.xml`.

use crate::{Topology, XmlError};
use std::path::Path;

impl Topology {
    /// Reads an hwloc XML file; needs the cargo feature `hwloc`.
    ///
    /// The file has no queues, interrupts, link speeds and addresses, so these are empty or
    /// unknown. The locality of an interface is its first ancestor that is no I/O object; if
    /// that is the whole of a machine with several nodes, it is unknown.
    ///
    /// The installed hwloc parses and trusts the file: some damaged files crash the process in
    /// hwloc's C code (seen with 2.9.0, whose own `lstopo` crashes too). Read a file of unknown
    /// origin in a process of its own.
    ///
    /// # Errors
    ///
    /// [`XmlError`]: the file cannot be read, is longer than 256 MiB, is something else, is of a version
    /// that the installed hwloc does not know (hwloc 2 does not read version 3), is damaged, or
    /// this build is without hwloc.
    pub fn from_xml(path: impl AsRef<Path>) -> Result<Self, XmlError> {
        read(path.as_ref())
    }
}

#[cfg(feature = "hwloc")]
fn read(path: &Path) -> Result<Topology, XmlError> {
    crate::hwloc::read_xml(path)
}

#[cfg(not(feature = "hwloc"))]
fn read(path: &Path) -> Result<Topology, XmlError> {
    Err(XmlError::WithoutHwloc { path: path.to_owned() })
}
