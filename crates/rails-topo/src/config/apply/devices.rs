//! Devices beside NICs, and PCI functions.

use super::{Ledger, place::Place};
use crate::{
    PciAddress, PciDevice, Topology,
    config::{
        ConfigError, Problem,
        document::{DeviceFacts, PciFacts},
        place::{Located, quoted},
        values::Link,
    },
};
use std::collections::BTreeMap;

pub(super) fn apply(topology: &mut Topology, ledger: &mut Ledger<'_>) -> Result<(), ConfigError> {
    let document = &ledger.config.document;
    each(ledger, "pci", "PCI function", &document.pci, |ledger, key, address, facts| {
        let address: PciAddress = address.parse().ok()?;
        let device = topology.pci_devices.iter_mut().find(|device| device.address == address)?;
        Some(function(ledger, key, facts, device))
    })?;
    each(ledger, "rdma", "RDMA device", &document.rdma, |ledger, key, name, facts| {
        let device = topology.rdma_devices.iter_mut().find(|device| device.name == name)?;
        let place = Place { pci: device.pci, node: &mut device.node, local_cpus: &mut device.local_cpus };
        Some(ledger.place(key, &facts.place(), place))
    })?;
    each(ledger, "gpu", "GPU", &document.gpu, |ledger, key, name, facts: &DeviceFacts| {
        let device = topology.gpus.iter_mut().find(|device| device.name == name)?;
        let place = Place { pci: device.pci, node: &mut device.node, local_cpus: &mut device.local_cpus };
        Some(ledger.place(key, &facts.place(), place))
    })?;
    each(ledger, "disk", "disk", &document.disk, |ledger, key, name, facts| {
        let device = topology.block_devices.iter_mut().find(|device| device.name == name)?;
        let place = Place { pci: device.pci, node: &mut device.node, local_cpus: &mut device.local_cpus };
        Some(ledger.place(key, &facts.place(), place))
    })
}

/// Does it for each device of a table; what gives nothing is not there.
fn each<'a, F>(
    ledger: &mut Ledger<'a>,
    table: &str,
    kind: &'static str,
    devices: &BTreeMap<Located<String>, F>,
    mut change: impl FnMut(&mut Ledger<'a>, &str, &str, &F) -> Option<Result<(), ConfigError>>,
) -> Result<(), ConfigError> {
    for (name, facts) in devices {
        let key = format!("{table}.{}", quoted(name.value()));
        if kind == "PCI function" && name.value().parse::<PciAddress>().is_err() {
            let problem = Problem::BadName { name: name.value().clone(), expected: "a PCI address like 0000:3b:00.1" };
            return Err(ledger.config.wrong(&name.span(), key, problem));
        }
        match change(ledger, &key, name.value(), facts) {
            Some(changed) => changed?,
            None => return Err(ledger.config.wrong(&name.span(), key, Problem::NoSuchDevice { kind })),
        }
    }
    Ok(())
}

fn function(ledger: &mut Ledger<'_>, key: &str, facts: &PciFacts, device: &mut PciDevice) -> Result<(), ConfigError> {
    let place = Place { pci: Some(device.address), node: &mut device.node, local_cpus: &mut device.local_cpus };
    ledger.place(key, &facts.place(), place)?;
    if let Some(told) = &facts.link {
        let link = told.value();
        let (link_key, bandwidth_key) = (format!("{key}.link"), format!("{key}.bandwidth"));
        let mut shown = device.link.map(Link);
        ledger.give(link_key.clone(), &told.span(), &mut shown, *link);
        device.link = Some(link.0);
        ledger.follow(bandwidth_key, link_key, &told.span(), &mut device.bandwidth, Some(link.0.bandwidth()));
    }
    Ok(())
}
