//! Detection of the machine that this process runs on.

use crate::{
    DetectError, Origin, Topology,
    linux::{self, Root},
};
use std::path::Path;

/// Whether the files in `/sys/class/net/NAME` are those of the interface that the calling thread's
/// network namespace has under that name. `/sys` shows the namespace that it was mounted in, which
/// may be another.
pub fn sysfs_shows(name: &str) -> bool {
    Root::this_machine().is_ok_and(|root| linux::has_own_files(&root, name))
}

impl Topology {
    /// Reads this machine: the kernel's files, and with cargo feature `hwloc` (on by default)
    /// packages, nodes, caches, cores and distances as hwloc sees them.
    ///
    /// # Files that are hidden
    ///
    /// In sandboxes and containers much of `/sys` and `/proc` can be missing: facts that cannot be
    /// read are unknown. The CPUs are then those that `/proc/stat` counts, or else those that
    /// this process may use. Where hwloc fails, or would end the process, the facts are those
    /// of the kernel's files, and [`Origin::ThisMachine`] says so.
    ///
    /// # Interfaces
    ///
    /// The interfaces are those of the calling thread's network namespace, as the kernel lists them
    /// (getifaddrs(3)). `/sys` can show another namespace's: its facts count for an interface
    /// only if index and hardware address agree. One that `/sys` does not show is
    /// [`NicKind::Unknown`](crate::NicKind::Unknown).
    ///
    /// # Allowed CPUs and nodes
    ///
    /// The allowed CPUs are those that `/proc/self/status` and the cpuset of the process's control
    /// group both allow. The mask is that of the process's *main thread*, whichever thread
    /// calls, so a pinned thread still sees the rest of the machine. Pinning the main thread
    /// hides the rest: detect first and pin it afterwards. hwloc leaves out the CPUs that the
    /// cgroup forbids, which are not in the kernel's mask either; all three are taken together.
    ///
    /// # Errors
    ///
    /// [`DetectError`], by source. hwloc's environment variables can make it describe another
    /// machine: that is [`DetectError::NotThisMachine`], because a binding by such a
    /// description would be wrong.
    pub fn detect() -> Result<Self, DetectError> {
        let root = Root::this_machine()?;
        let topology = linux::read_root(&root, Path::new("/"), Origin::ThisMachine { reader: "sysfs".to_owned() })?;
        #[cfg(feature = "hwloc")]
        let topology = crate::hwloc::complete(&root, topology)?;
        root.check(Path::new("/"))?;
        Ok(topology)
    }
}
