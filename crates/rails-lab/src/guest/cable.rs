//! The guest's cables, and the NICs at their ends.

use crate::{
    LabError, guest,
    namespace::Namespace,
    system::{file_error, output},
    tool::Tools,
};
use std::{fs, io, path::Path, process::Command};

/// The two NICs of one node with the cable between them, inside a guest.
///
/// The far NIC is in a network namespace of its own, so that traffic between the two addresses
/// takes the cable. Dropping the cable returns the far NIC, deletes the namespace, and removes the
/// near NIC's address.
#[derive(Debug)]
pub struct Cable {
    tools: Tools,
    node: u8,
    near: String,
    far: String,
    namespace: Namespace,
    owns_namespace: bool,
}

impl Cable {
    /// Gives the two NICs of `node` (0 or 1) their addresses, `10.9.<node>.1` and `10.9.<node>.2`,
    /// and brings them up.
    ///
    /// # Errors
    ///
    /// [`LabError`] if `ip` fails, most likely because the cable is already plugged.
    ///
    /// # Panics
    ///
    /// Outside a guest ([`guest::require`]).
    pub fn plug(node: u8) -> Result<Self, LabError> {
        Self::plug_into(node, Namespace::new(format!("cable{node}"), Tools::find()?.ip), true)
    }

    /// As [`Cable::plug`], but the far NIC joins the namespace that another cable's far NIC is in.
    ///
    /// # Errors
    ///
    /// As [`Cable::plug`].
    pub fn plug_beside(node: u8, other: &Self) -> Result<Self, LabError> {
        Self::plug_into(node, other.namespace.clone(), false)
    }

    fn plug_into(node: u8, namespace: Namespace, is_new: bool) -> Result<Self, LabError> {
        guest::require();
        let tools = Tools::find()?;
        let (near, far) = (interface(node + 1)?, interface(node + 3)?);
        if is_new {
            tools.ip(["netns", "add", namespace.name()])?;
        }
        // From here on every return gives the NICs back.
        let cable = Self { tools, node, near, far, namespace, owns_namespace: is_new };
        let (name, ip) = (cable.namespace.name(), &cable.tools);
        ip.ip(["link", "set", &cable.far, "netns", name])?;
        ip.ip(["-n", name, "link", "set", "lo", "up"])?;
        ip.ip(["address", "add", &format!("{}/24", cable.near_address()), "dev", &cable.near])?;
        ip.ip(["link", "set", &cable.near, "up"])?;
        ip.ip(["-n", name, "address", "add", &format!("{}/24", cable.far_address()), "dev", &cable.far])?;
        ip.ip(["-n", name, "link", "set", &cable.far, "up"])?;
        // The first packet waits for ARP, and a link that has just come up may lose it.
        cable.ping(1)?;
        Ok(cable)
    }

    /// The interface of the near NIC.
    pub fn near(&self) -> &str {
        &self.near
    }

    /// The interface of the far NIC, in its namespace.
    pub fn far(&self) -> &str {
        &self.far
    }

    /// The near NIC's address.
    pub fn near_address(&self) -> String {
        format!("10.9.{}.1", self.node)
    }

    /// The far NIC's address.
    pub fn far_address(&self) -> String {
        format!("10.9.{}.2", self.node)
    }

    /// The namespace of the far NIC.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Sends `count` small packets to the far NIC and back, one after the other; each raises an
    /// interrupt or two at both ends.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] if not all came back.
    pub fn ping(&self, count: u32) -> Result<(), LabError> {
        let (count, to) = (count.to_string(), self.far_address());
        output(Command::new("busybox").args(["ping", "-q", "-A", "-w", "20", "-c", &count, &to]))?;
        Ok(())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // A namespace outlives its name while a socket is in it, so the NIC is moved back to the
        // namespace of process 1. The call fails if another cable's drop has done that, or plugging
        // failed half-way; a drop cannot report errors.
        let _ = self.tools.ip(["-n", self.namespace.name(), "link", "set", &self.far, "netns", "1"]);
        if self.owns_namespace {
            let _ = self.tools.ip(["netns", "del", self.namespace.name()]);
        }
        let _ = self.tools.ip(["address", "flush", "dev", &self.near]);
        let _ = self.tools.ip(["link", "set", &self.near, "down"]);
    }
}

/// The interface whose hardware address ends with this byte.
fn interface(number: u8) -> Result<String, LabError> {
    const INTERFACES: &str = "/sys/class/net";
    let address = format!("52:54:00:00:00:{number:02x}");
    let folder = Path::new(INTERFACES);
    for entry in fs::read_dir(folder).map_err(file_error("readdir", folder))? {
        let path = entry.map_err(file_error("readdir", folder))?.path();
        if fs::read_to_string(path.join("address")).is_ok_and(|text| text.trim() == address) {
            return Ok(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    let absent = io::Error::new(io::ErrorKind::NotFound, format!("no interface has the address {address}"));
    Err(file_error("find", folder)(absent).into())
}
