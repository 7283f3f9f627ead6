//! The parts of this machine, as far as anyone states them: packages, NUMA nodes, cores and NICs.
//!
//! Run: `cargo run --example show_topology`
//!
//! Expected: a line for each package and node, one for the cores, and a few for each NIC. Facts
//! that neither the kernel nor hwloc knows are printed as unknown, with the consequence for a rail;
//! a virtual machine has many of them. The method `Topology::tree` prints all of this and more in
//! one call; this example walks the model instead to show its parts.

use rails::topo::{Nic, NicKind, Topology};
use std::fmt::{Display, Write};

fn main() -> anyhow::Result<()> {
    print!("{}", describe(&Topology::detect()?));
    Ok(())
}

/// The machine as a text.
pub(crate) fn describe(topology: &Topology) -> String {
    let mut text = String::new();
    write_all(&mut text, topology).expect("a String takes all that is written to it");
    text
}

fn write_all(out: &mut String, topology: &Topology) -> std::fmt::Result {
    for package in topology.packages() {
        writeln!(out, "package {}: CPUs {}", known(package.id.as_ref()), package.cpus)?;
    }
    for node in topology.nodes() {
        writeln!(out, "node {}: {} of memory, CPUs {}", node.id, known(node.memory.as_ref()), node.cpus)?;
    }
    if topology.nodes().is_empty() {
        writeln!(out, "no NUMA nodes: memory is everywhere equally near, or the kernel does not say")?;
    }
    let cores: Vec<String> = topology.cores().iter().map(|core| core.cpus.to_string()).collect();
    writeln!(out, "{} cores: CPUs {}", cores.len(), cores.join(" | "))?;
    writeln!(out, "this process may use CPUs {} of {}", topology.allowed_cpus(), topology.online_cpus())?;
    topology.nics().iter().try_for_each(|nic| write_nic(out, topology, nic))
}

fn write_nic(out: &mut String, topology: &Topology, nic: &Nic) -> std::fmt::Result {
    let kind = match nic.kind {
        NicKind::Loopback => "loopback",
        NicKind::Device => "a device",
        NicKind::Virtual => "made in software",
        NicKind::Unknown => "not in /sys",
    };
    writeln!(out, "{}: {kind}, speed {}", nic.name, known(nic.speed.as_ref()))?;
    for address in &nic.addresses {
        writeln!(out, "  address {}/{}", address.ip, address.prefix_len)?;
    }
    if nic.kind != NicKind::Device {
        // An interface without a device has no PCI address, node or interrupts.
        return Ok(());
    }
    writeln!(out, "  PCI address {}, node {}", known(nic.pci.as_ref()), known(nic.node.as_ref()))?;
    match nic.locality(topology) {
        Some(cpus) => writeln!(out, "  beside CPUs {cpus}")?,
        None => writeln!(out, "  beside unknown CPUs: a rail on it may be far from it")?,
    }
    if nic.interrupts.is_empty() {
        writeln!(out, "  unknown interrupts: nobody can say whether a rail's thread is beside them")?;
    }
    nic.interrupts.iter().try_for_each(|interrupt| {
        writeln!(out, "  interrupt {} is served on CPUs {}", interrupt.number, known(interrupt.effective.as_ref()))
    })
}

fn known(value: Option<&impl Display>) -> String {
    value.map_or("unknown".to_owned(), |value| value.to_string())
}
