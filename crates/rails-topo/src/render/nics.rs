//! NICs: a line of aligned columns each, and below it addresses, queues and interrupts.

use crate::{CpuSet, Interrupt, Nic, NicKind, RxQueue, Topology, TxQueue};
use std::fmt;

pub(super) fn write(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    if topology.nics().is_empty() {
        return writeln!(f, "NICs: none");
    }
    writeln!(f, "NICs")?;
    let rows: Vec<[String; COLUMNS]> = topology.nics().iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    for (nic, row) in topology.nics().iter().zip(&rows) {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        for line in details(nic) {
            writeln!(f, "  {:indent$}  {line}", "", indent = widths[0])?;
        }
    }
    Ok(())
}

fn row(nic: &Nic) -> [String; COLUMNS] {
    let kind = match nic.kind {
        NicKind::Loopback => "loopback",
        NicKind::Virtual => "virtual",
        NicKind::Device => "PCI unknown",
    };
    let driver = match nic.kind {
        NicKind::Loopback | NicKind::Virtual => "no driver",
        NicKind::Device => "driver unknown",
    };
    let state = match nic.up {
        Some(true) => "up",
        Some(false) => "down",
        None => "state unknown",
    };
    [
        nic.name.clone(),
        nic.pci.map_or(kind.to_owned(), |pci| pci.to_string()),
        nic.driver.clone().unwrap_or(driver.to_owned()),
        nic.node.map_or("node unknown".to_owned(), |node| format!("node {node}")),
        nic.speed.map_or("speed unknown".to_owned(), |speed| speed.to_string()),
        state.to_owned(),
        nic.mtu.map_or("mtu unknown".to_owned(), |mtu| format!("mtu {mtu}")),
        nic.mac.map_or("MAC unknown".to_owned(), |mac| mac.to_string()),
    ]
}

fn details(nic: &Nic) -> Vec<String> {
    let addresses = nic.addresses.iter().map(|address| format!("{}/{}", address.ip, address.prefix_len));
    let addresses = addresses.collect::<Vec<_>>().join(", ");
    let mut lines: Vec<String> = nic.hidden.iter().map(|reason| format!("left alone: {reason}")).collect();
    if !addresses.is_empty() {
        lines.push(addresses);
    }
    if !nic.rx_queues.is_empty() || !nic.tx_queues.is_empty() {
        let (rx, tx) = (receive(&nic.rx_queues), transmit(&nic.tx_queues));
        lines.push(format!("queues: {} receive{rx}, {} transmit{tx}", nic.rx_queues.len(), nic.tx_queues.len()));
    }
    // Interrupts that nothing tells apart (of a captured machine, say) are one line.
    let alike = |a: &Interrupt, b: &Interrupt| {
        let bare = |interrupt: &Interrupt| interrupt.name.is_none() && interrupt.affinity.is_none();
        bare(a) && bare(b) && a.effective == b.effective && a.number + 1 == b.number
    };
    lines.extend(nic.interrupts.chunk_by(alike).map(interrupts));
    lines
}

/// Receive packet steering, where a queue has it.
fn receive(queues: &[RxQueue]) -> String {
    let steered = |queue: &RxQueue| {
        let cpus = queue.rps_cpus.as_ref().filter(|cpus| !cpus.is_empty())?;
        Some(format!("RPS of {}: CPUs {cpus}", queue.index))
    };
    let mut notes: Vec<String> = queues.iter().filter_map(steered).collect();
    if !queues.is_empty() && queues.iter().all(|queue| queue.rps_cpus.is_none()) {
        notes.push("RPS unknown".to_owned());
    }
    in_brackets(&notes)
}

/// Transmit packet steering, where a queue has it.
fn transmit(queues: &[TxQueue]) -> String {
    let steered = |queue: &TxQueue| {
        let cpus = queue.xps_cpus.as_ref().filter(|cpus| !cpus.is_empty())?;
        Some(format!("XPS of {}: CPUs {cpus}", queue.index))
    };
    let mut notes: Vec<String> = queues.iter().filter_map(steered).collect();
    if !queues.is_empty() && queues.iter().all(|queue| queue.xps_cpus.is_none()) {
        notes.push("XPS unknown".to_owned());
    }
    in_brackets(&notes)
}

fn in_brackets(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
}

fn interrupts(alike: &[Interrupt]) -> String {
    let first = &alike[0];
    let name = first.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
    let which = match alike.last() {
        Some(last) if alike.len() > 1 => format!("interrupts {}-{}", first.number, last.number),
        _ => format!("interrupt {}{name}", first.number),
    };
    let wish =
        |cpus: &CpuSet| if Some(cpus) == first.effective.as_ref() { String::new() } else { format!(" of {cpus}") };
    match (&first.effective, &first.affinity) {
        (Some(effective), affinity) => {
            format!("{which}: on CPUs {effective}{}", affinity.as_ref().map_or(String::new(), wish))
        }
        (None, Some(affinity)) => format!("{which}: may be on CPUs {affinity}, which of them is unknown"),
        (None, None) => format!("{which}: CPUs unknown"),
    }
}

const COLUMNS: usize = 8;
