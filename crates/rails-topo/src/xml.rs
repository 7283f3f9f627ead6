//! Machines that somebody saved with `lstopo machine.xml`.

use crate::{Topology, XmlError};
use std::path::Path;

impl Topology {
    /// Reads an hwloc XML file; needs the cargo feature `hwloc`.
    ///
    /// The file says nothing of queues, interrupts, link speeds and addresses, so these are empty or unknown. An
    /// interface is placed by the first object above it that is no I/O object; where that is the whole of a machine
    /// with several nodes, its place is unknown.
    ///
    /// The file is parsed by the installed hwloc, which trusts it: of some damaged files a process dies in its C code (seen with 2.9.0,
    /// whose own `lstopo` does so too). A file of unknown origin belongs into a process of its own.
    ///
    /// # Errors
    ///
    /// [`XmlError`]: the file cannot be read, is something else, is of a version that the installed hwloc does not
    /// know (hwloc 2 does not read version 3), is damaged, or this build is without hwloc.
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
