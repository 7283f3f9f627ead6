//! Captures: the files that the readers have read, packed into one file and replayed.

mod anonymous;
#[cfg(feature = "captures")]
mod archive;
mod recorder;
mod tree;

use crate::{
    InterfaceAddress, Nic, Origin, SysfsError, Topology,
    linux::{self, Folder, Root},
};
use recorder::Recorder;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, PoisonError},
};
use tree::Tree;

/// The kernel's files that the reader of a machine has read, with their links and the names in
/// their folders.
///
/// A replayed capture gives the same model on any machine, and without hwloc. Its file is a
/// `.tar.gz` of `sys`, `proc` and `rails-capture.json`, which has the facts that no file holds
/// (IPv4 addresses). Unpacked it is a folder for [`Topology::from_sysfs_root`] and for hwloc
/// (`HWLOC_FSROOT`).
///
/// # Facts that a capture reveals
///
/// A capture states the machine's **host name**, the **hardware addresses** of its interfaces,
/// their **IP addresses**, the name of its cgroup, its mounts, and its processor, devices, drivers
/// and kernel. A capture holds no serial numbers, no user data, and the status of no process but
/// the capturing one. [`anonymous`](Self::anonymous) replaces names and addresses, and leaves the
/// mounts out.
///
/// ```no_run
/// use rails_topo::{Capture, Topology};
///
/// Capture::of_this_machine()?.save("machine.tar.gz")?;
/// let machine = Topology::from_capture("machine.tar.gz")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    tree: Tree,
    extra: Extra,
}

/// The facts that no file of the kernel holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Extra {
    /// The version of the capture's format.
    version: u32,
    /// The addresses of the interfaces, by name; `None` for the capture of a folder.
    addresses: Option<Vec<(String, InterfaceAddress)>>,
}

impl Capture {
    /// Captures this machine.
    ///
    /// # Errors
    ///
    /// As [`Topology::from_sysfs_root`].
    pub fn of_this_machine() -> Result<Self, SysfsError> {
        let capture = Self::of_folder("/")?;
        let root = Root::this_machine()?;
        let addresses = linux::own_addresses(&root);
        root.check(Path::new("/"))?;
        Ok(Self { extra: Extra { addresses, ..capture.extra }, ..capture })
    }

    /// Captures the files that [`Topology::from_sysfs_root`] reads in a folder with a machine's
    /// `/sys` and `/proc`.
    ///
    /// # Errors
    ///
    /// As [`Topology::from_sysfs_root`].
    pub fn of_folder(path: impl AsRef<Path>) -> Result<Self, SysfsError> {
        let path = path.as_ref();
        let folder = Folder::open(path).map_err(|source| SysfsError::Open { path: path.to_owned(), source })?;
        let (recorder, kept) = Recorder::new(folder);
        let root = Root::of(recorder);
        linux::read_root(&root, path, Origin::Sysfs { path: path.to_owned() })?;
        drop(root);
        let kept = Arc::into_inner(kept).expect("the recorder is gone, which held it too");
        let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { tree: kept.tree, extra: Extra { version: VERSION, addresses: None } })
    }

    /// The captured machine, with the allowed CPUs and nodes of the capturing process.
    ///
    /// [`Origin`] and errors name the machine by `path`; no file is read there.
    ///
    /// # Errors
    ///
    /// [`SysfsError::NoCpus`].
    pub fn replay(self, path: impl AsRef<Path>) -> Result<Topology, SysfsError> {
        let path = path.as_ref();
        let mut topology = linux::read_root(&Root::of(self.tree), path, Origin::Capture { path: path.to_owned() })?;
        if let Some(addresses) = self.extra.addresses {
            give_addresses(&mut topology.nics, addresses);
        }
        Ok(topology)
    }

    /// This capture with another host name, and other hardware and IP addresses.
    ///
    /// Equal names get equal replacements, and addresses of one network stay in one network.
    /// Everything else stays: the names of the cgroup, of devices and of drivers too. The
    /// original names cannot be recovered: each call draws a key and forgets it.
    #[must_use]
    pub fn anonymous(self) -> Self {
        anonymous::anonymous(self)
    }
}

/// Gives the interfaces these addresses and no others.
fn give_addresses(nics: &mut [Nic], addresses: Vec<(String, InterfaceAddress)>) {
    let mut of_name: BTreeMap<String, Vec<InterfaceAddress>> = BTreeMap::new();
    for (name, address) in addresses {
        of_name.entry(name).or_default().push(address);
    }
    nics.iter_mut().for_each(|nic| nic.addresses = of_name.remove(&nic.name).unwrap_or_default());
}

/// The version of a capture's format.
const VERSION: u32 = 1;

#[cfg(all(test, feature = "captures"))]
mod tests;
