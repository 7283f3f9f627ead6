//! The CPUs beside disks, and threads on them.

use rails_bind::{Property, Unheld, thread};
use rails_topo::{CpuSet, Storage as Disks, Topology};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The CPUs on which threads shall run, and the cause for which they do not.
#[derive(Debug, Default)]
pub(super) struct Binding {
    pub(super) cpus: Option<CpuSet>,
    unheld: OnceLock<Unheld>,
}

impl Binding {
    /// Threads beside the disks of files. It blocks.
    pub(super) fn beside(paths: &[PathBuf]) -> Self {
        Self { cpus: cpus_beside(paths), unheld: OnceLock::new() }
    }

    /// Binds the calling thread for as long as it runs. A refusal is told of once.
    pub(super) fn bind_thread(&self) {
        let Some(cpus) = &self.cpus else { return };
        if let Err(unheld) = bind(cpus)
            && self.unheld.set(unheld.clone()).is_ok()
        {
            tracing::warn!(%unheld, "reading threads do not run beside the disks");
        }
    }

    /// The cause for which a thread does not run on the CPUs.
    pub(super) fn unheld(&self) -> Option<&Unheld> {
        self.unheld.get()
    }
}

/// The CPUs beside the disks of files; `None` on a machine of one NUMA node, for disks whose place
/// is unknown, and where all CPUs are beside them. It blocks.
pub(super) fn cpus_beside(paths: &[PathBuf]) -> Option<CpuSet> {
    if paths.is_empty() {
        return None;
    }
    let topology = Topology::detect().ok()?;
    cpus_of(&topology, paths.iter().filter_map(|path| disks_of(path)).flatten())
}

/// Binds the calling thread for as long as it runs.
///
/// # Errors
/// [`Unheld`], if the system refuses, or another set reads back.
fn bind(cpus: &CpuSet) -> Result<(), Unheld> {
    match thread::bind_current(cpus) {
        Ok(guard) => Unheld::by_outcome(Property::Cpus, &guard.keep()).map_or(Ok(()), Err),
        Err(error) => Err(Unheld::by_refusal(Property::Cpus, error).unwrap_or_else(|error| {
            // CPUs that went offline since the topology was read.
            let cause = rails_bind::Cause::Otherwise { wanted: cpus.to_string(), got: error.to_string() };
            Unheld::new(Property::Cpus, cause)
        })),
    }
}

fn disks_of(path: &Path) -> Option<Vec<String>> {
    Disks::of(path).ok().map(|disks| disks.disks)
}

/// The allowed CPUs beside any of the disks, if there are others.
fn cpus_of(topology: &Topology, disks: impl Iterator<Item = String>) -> Option<CpuSet> {
    if topology.nodes().len() < 2 {
        return None;
    }
    let locality = topology.locality();
    let beside = disks.filter_map(|name| {
        let device = topology.block_devices().iter().find(|device| device.name == name)?;
        locality.cpus_beside(device)
    });
    let cpus = beside.reduce(|all, cpus| all.union(&cpus))?.intersection(topology.allowed_cpus());
    (!cpus.is_empty() && cpus != *topology.allowed_cpus()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with a disk beside its last package.
    fn machine(packages: u32) -> Topology {
        let topology = Topology::synthetic(&format!("package:{packages} numa:1 core:2 pu:1"), Vec::new()).unwrap();
        let mut model = serde_json::to_value(topology).unwrap();
        let disk = r#"{"name": "sda", "pci": null, "size_bytes": null, "model": null, "node": 1, "local_cpus": null}"#;
        let disk = disk.replace('1', &(packages - 1).to_string());
        model["block_devices"] = serde_json::from_str(&format!("[{disk}]")).unwrap();
        serde_json::from_value(model).unwrap()
    }

    fn beside(topology: &Topology, disks: &[&str]) -> Option<String> {
        cpus_of(topology, disks.iter().map(ToString::to_string)).map(|cpus| cpus.to_string())
    }

    #[test]
    fn threads_are_beside_the_disks() {
        let two = machine(2);
        assert_eq!(beside(&two, &["sda"]).as_deref(), Some("2-3"));
        assert_eq!(beside(&two, &["sdb", "sda"]).as_deref(), Some("2-3"));
        assert_eq!((beside(&two, &["sdb"]), beside(&two, &[])), (None, None));
        // The CPUs beside the disk are all that are allowed, or none of them is.
        for allowed in ["2-3", "0-1"] {
            assert_eq!(beside(&machine(2).with_allowed(allowed.parse().unwrap()), &["sda"]), None);
        }
    }

    #[test]
    fn one_node_has_nothing_to_bind() {
        assert_eq!(beside(&machine(1), &["sda"]), None);
        let binding = Binding::beside(&[PathBuf::from("/proc/self/status")]);
        binding.bind_thread();
        assert_eq!((&binding.cpus, binding.unheld()), (&None, None));
    }

    #[test]
    fn cpus_that_are_gone_are_told_of() {
        let binding = Binding { cpus: Some("8191".parse().unwrap()), unheld: OnceLock::new() };
        binding.bind_thread();
        assert_eq!(binding.unheld().map(|unheld| unheld.property), Some(Property::Cpus));
        // A thread is bound for as long as it runs, so another one tries.
        let here = thread::current_affinity().unwrap().first().unwrap();
        let bound = std::thread::spawn(move || bind(&CpuSet::single(here)));
        assert_eq!(bound.join().unwrap(), Ok(()));
    }
}
