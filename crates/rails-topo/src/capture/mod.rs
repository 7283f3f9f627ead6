//! What was read of a machine, packed into one file, and replayed.

mod anonymous;
mod archive;
mod recorder;
mod tree;

use crate::{
    CaptureError, CaptureFault, DetectError, InterfaceAddress, Origin, SysfsError, Topology, detect,
    linux::{self, Folder, Root},
};
use recorder::Recorder;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{BufReader, Read, Write},
    path::Path,
    sync::{Arc, PoisonError},
};
use tree::Tree;

/// What the reader of the kernel's files read of a machine: the files, the links, and what was in the folders, and nothing else.
///
/// Replayed it gives what the kernel's files said then, on any machine and without hwloc. In a file it is a `.tar.gz` of `sys` and `proc` as
/// far as they were read, and of `rails-capture.json` with what no file holds (addresses of version 4). Unpacked it is a folder for
/// [`Topology::from_sysfs_root`], and for hwloc (`HWLOC_FSROOT`).
///
/// # What it tells of a machine
///
/// Whoever has it knows the machine's **host name**, the **hardware addresses** of its interfaces, their **IP addresses**, what its cgroup is called, what is
/// mounted where, and
/// which processor, devices, drivers and kernel it has. It holds no serial numbers, no processes but for the status of the one that captured, and nobody's data.
/// [`anonymous`](Self::anonymous) makes up other names and addresses, and leaves the mounts out.
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

/// What no file of the kernel's holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Extra {
    /// Of the capture's format.
    version: u32,
    /// The addresses of the interfaces, by their names; `None` where the capture is of a folder, whose files then say what they can.
    addresses: Option<Vec<(String, InterfaceAddress)>>,
}

impl Capture {
    /// Captures this machine.
    ///
    /// # Errors
    ///
    /// [`DetectError::Sysfs`], [`DetectError::Addresses`].
    pub fn of_this_machine() -> Result<Self, DetectError> {
        let capture = Self::of_folder("/")?;
        let addresses = Some(detect::addresses()?);
        Ok(Self { extra: Extra { addresses, ..capture.extra }, ..capture })
    }

    /// Captures what [`Topology::from_sysfs_root`] reads of a folder that holds a machine's `/sys` and `/proc`.
    ///
    /// # Errors
    ///
    /// As those of [`Topology::from_sysfs_root`].
    pub fn of_folder(path: impl AsRef<Path>) -> Result<Self, SysfsError> {
        let path = path.as_ref();
        let folder = Folder::open(path).map_err(|source| SysfsError::Open { path: path.to_owned(), source })?;
        let (recorder, kept) = Recorder::new(folder);
        let root = Root::of(recorder);
        linux::read_root(&root, path, Origin::Sysfs { path: path.to_owned() })?;
        drop(root);
        let kept = Arc::into_inner(kept).expect("the recorder is gone, which held it too");
        let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { tree: kept.tree, extra: Extra { version: archive::VERSION, addresses: None } })
    }

    /// The machine as it was captured: its allowed CPUs and nodes are those of the process that captured it.
    ///
    /// `path` is what its [`Origin`] and errors call it; nothing is read from there.
    ///
    /// # Errors
    ///
    /// [`SysfsError::NoCpus`].
    pub fn replay(self, path: impl AsRef<Path>) -> Result<Topology, SysfsError> {
        let path = path.as_ref();
        let topology = linux::read_root(&Root::of(self.tree), path, Origin::Capture { path: path.to_owned() })?;
        Ok(match self.extra.addresses {
            Some(addresses) => detect::with_addresses(topology, addresses),
            None => topology,
        })
    }

    /// Writes the capture to a file; one that is there is written over.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CaptureError> {
        let path = path.as_ref();
        File::create(path)
            .and_then(|file| self.write(file))
            .map_err(|source| CaptureError::Write { path: path.to_owned(), source })
    }

    /// Reads a capture from a file.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Read`], [`CaptureError::Invalid`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| CaptureError::Read { path: path.to_owned(), source })?;
        Self::read(BufReader::new(file)).map_err(|source| CaptureError::Invalid { path: path.to_owned(), source })
    }

    /// Writes the capture's `.tar.gz`.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write(&self, to: impl Write) -> std::io::Result<()> {
        archive::write(self, to)
    }

    /// Reads a capture's `.tar.gz`, whoever made it: it takes no more than 256 MiB for the contents and 400,000 entries, and no link in it leads out of it.
    ///
    /// # Errors
    ///
    /// [`CaptureFault`]: what is wrong with it.
    pub fn read(from: impl Read) -> Result<Self, CaptureFault> {
        archive::read(from)
    }

    /// The same capture of a machine of another name, with other hardware and IP addresses.
    ///
    /// The same name becomes the same other one wherever it is, addresses of one network stay addresses of one network, and nothing else changes: not the cgroup's
    /// name, nor those of devices and drivers. Which name stood for which cannot be told afterwards: the key is drawn for each
    /// call and forgotten.
    #[must_use]
    pub fn anonymous(self) -> Self {
        anonymous::anonymous(self)
    }
}

impl Topology {
    /// Reads a capture that [`Capture::save`] made. The kernel's files say all of it, with the cargo feature `hwloc` as without.
    ///
    /// # Errors
    ///
    /// [`CaptureError`]: the file cannot be read, is no capture, or holds no CPU.
    pub fn from_capture(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        Ok(Capture::open(path)?.replay(path)?)
    }
}

#[cfg(test)]
mod tests;
