//! Devices beside NICs, and PCI functions.

use super::{Ledger, locality_facts::LocalityFields};
use crate::{
    PciAddress, PciDevice, Topology,
    config::{
        ConfigError, Problem,
        document::{DeviceFacts, PciFacts},
        located::Located,
        values::text_of_link,
    },
    model::quoted,
};
use std::collections::BTreeMap;

pub(super) fn apply(topology: &mut Topology, ledger: &mut Ledger<'_>) -> Result<(), ConfigError> {
    let document = &ledger.config.document;
    for (name, facts) in &document.pci {
        let key = format!("pci.{}", quoted(name.value()));
        let wrong = |problem| ledger.config.wrong(&name.span(), key.clone(), problem);
        let bad = || Problem::BadName { name: name.value().clone(), expected: "a PCI address like 0000:3b:00.1" };
        let address: PciAddress = name.value().parse().map_err(|_| wrong(bad()))?;
        let device = topology.pci_devices.iter_mut().find(|device| device.address == address);
        let device = device.ok_or_else(|| wrong(Problem::NoSuchDevice { kind: "PCI function" }))?;
        function(ledger, &key, facts, device)?;
    }
    let mut devices = Devices { topology, ledger };
    devices.set_localities("rdma", "RDMA device", &document.rdma, |topology, name| {
        let device = topology.rdma_devices.iter_mut().find(|device| device.name == name)?;
        Some(LocalityFields { pci: device.pci, node: &mut device.node, local_cpus: &mut device.local_cpus })
    })?;
    devices.set_localities("gpu", "GPU", &document.gpu, |topology, name| {
        let device = topology.gpus.iter_mut().find(|device| device.name == name)?;
        Some(LocalityFields { pci: device.pci, node: &mut device.node, local_cpus: &mut device.local_cpus })
    })?;
    devices.set_localities("disk", "disk", &document.disk, |topology, name| {
        let device = topology.block_devices.iter_mut().find(|device| device.name == name)?;
        Some(LocalityFields { pci: device.pci, node: &mut device.node, local_cpus: &mut device.local_cpus })
    })
}

/// The devices that a file locates by name.
struct Devices<'a, 'c> {
    topology: &'a mut Topology,
    ledger: &'a mut Ledger<'c>,
}

impl Devices<'_, '_> {
    /// Places the devices of a table, each where `find` has it.
    fn set_localities(
        &mut self,
        table: &str,
        kind: &'static str,
        devices: &BTreeMap<Located<String>, DeviceFacts>,
        find: for<'t> fn(&'t mut Topology, &str) -> Option<LocalityFields<'t>>,
    ) -> Result<(), ConfigError> {
        for (name, facts) in devices {
            let key = format!("{table}.{}", quoted(name.value()));
            let unknown = || self.ledger.config.wrong(&name.span(), key.clone(), Problem::NoSuchDevice { kind });
            let fields = find(self.topology, name.value()).ok_or_else(unknown)?;
            self.ledger.set_locality(&key, &facts.locality(), fields)?;
        }
        Ok(())
    }
}

fn function(ledger: &mut Ledger<'_>, key: &str, facts: &PciFacts, device: &mut PciDevice) -> Result<(), ConfigError> {
    let fields =
        LocalityFields { pci: Some(device.address), node: &mut device.node, local_cpus: &mut device.local_cpus };
    ledger.set_locality(key, &facts.locality(), fields)?;
    if let Some(stated) = &facts.link {
        let link = stated.value().0;
        let (link_key, bandwidth_key) = (format!("{key}.link"), format!("{key}.bandwidth"));
        ledger.note(link_key.clone(), &stated.span(), device.link.map(text_of_link), Some(text_of_link(link)));
        device.link = Some(link);
        ledger.follow(bandwidth_key, link_key, &stated.span(), &mut device.bandwidth, Some(link.bandwidth()));
    }
    Ok(())
}
