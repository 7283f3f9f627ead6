//! NICs: a line of aligned columns each, and below it the PCI link, addresses, queues and
//! interrupts.

use super::columns::Columns;
use crate::{
    CpuSet, Interrupt, Nic, NicKind, RxQueue, Topology, TxQueue,
    render::phrases::{self, plain},
};

pub(super) fn columns(topology: &Topology) -> Columns {
    let mut columns = Columns::default();
    let (devices, software): (Vec<&Nic>, Vec<&Nic>) =
        topology.nics().iter().partition(|nic| nic.kind == NicKind::Device);
    for nic in devices.into_iter().chain(software) {
        columns.line(row(nic));
        for detail in details(topology, nic) {
            columns.note(format!("      {detail}"));
        }
    }
    columns
}

fn row(nic: &Nic) -> Vec<String> {
    let device = nic.kind == NicKind::Device;
    let unknown = |what: &str| if device { format!("{what} unknown") } else { String::new() };
    let kind = match nic.kind {
        NicKind::Loopback => "loopback".to_owned(),
        NicKind::Virtual => nic.virtual_kind.as_deref().map_or("in software".into(), plain).into_owned(),
        NicKind::Device => "PCI unknown".to_owned(),
        NicKind::Unknown => "not in /sys".to_owned(),
    };
    vec![
        format!("  {}", plain(&nic.name)),
        nic.pci.map_or(kind, |pci| pci.to_string()),
        nic.driver.as_deref().map_or_else(|| unknown("driver"), |driver| plain(driver).into_owned()),
        nic.node.map_or_else(|| unknown("node"), |node| format!("node {node}")),
        phrases::speed(nic),
        phrases::state(nic).to_owned(),
        nic.mtu.map_or(String::new(), |mtu| format!("mtu {mtu}")),
        nic.mac.map_or(String::new(), |mac| mac.to_string()),
    ]
}

fn details(topology: &Topology, nic: &Nic) -> Vec<String> {
    let mut lines = Vec::new();
    if !nic.lowers.is_empty() {
        lines.push(format!("over {}", list(nic.lowers.iter().map(|lower| plain(lower).into_owned()), MAX_NAMES)));
    }
    lines.extend(hardware(topology, nic));
    lines.extend(nic.hidden.iter().map(|reason| format!("left alone: {reason}")));
    if !nic.addresses.is_empty() {
        let addresses = nic.addresses.iter().map(|address| format!("{}/{}", address.ip, address.prefix_len));
        lines.push(list(addresses, MAX_ADDRESSES));
    }
    if !nic.rx_queues.is_empty() || !nic.tx_queues.is_empty() {
        let (rx, tx) = (receive(&nic.rx_queues), transmit(&nic.tx_queues));
        let polled = if nic.threaded_napi == Some(true) { "; polled by threads" } else { "" };
        lines.push(format!(
            "queues: {} receive{rx}, {} transmit{tx}{polled}",
            nic.rx_queues.len(),
            nic.tx_queues.len()
        ));
    }
    match nic.interrupts.len() {
        // Interrupts with the same facts (as in a capture) share a line.
        0..=MAX_INTERRUPTS => lines.extend(nic.interrupts.chunk_by(alike).map(interrupts)),
        _ => lines.extend(nic.interrupts.chunk_by(similar).map(interrupts)),
    }
    lines
}

/// The PCI link, its port, and its virtual functions.
fn hardware(topology: &Topology, nic: &Nic) -> Option<String> {
    let device = nic.pci.and_then(|pci| topology.pci_device(pci));
    let link = device.and_then(phrases::link);
    let port = nic.port.filter(|port| *port > 0).map(|port| format!("port {port}"));
    let functions = device.and_then(|device| device.virtual_functions).filter(|functions| functions.enabled > 0);
    let functions = functions.map(|of| format!("{} of {} virtual functions", of.enabled, of.total));
    let of = device.and_then(|device| device.physical_function).map(|of| format!("a virtual function of {of}"));
    let known: Vec<String> = [link, port, functions, of].into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Receive packet steering and receive flow steering, where a queue has them.
fn receive(queues: &[RxQueue]) -> String {
    let mut notes = steering("RPS", queues, |queue| (queue.index, queue.rps_cpus.as_ref()));
    let flows: u64 = queues.iter().filter_map(|queue| queue.rps_flows).map(u64::from).sum();
    if flows > 0 {
        notes.push(format!("RFS of {flows} flows"));
    }
    in_brackets(&notes)
}

/// Transmit packet steering, where a queue has it.
fn transmit(queues: &[TxQueue]) -> String {
    in_brackets(&steering("XPS", queues, |queue| (queue.index, queue.xps_cpus.as_ref())))
}

/// The CPUs of each steered queue; of many queues only the CPUs together.
fn steering<'a, Q>(what: &str, queues: &'a [Q], of: impl Fn(&'a Q) -> (u32, Option<&'a CpuSet>)) -> Vec<String> {
    if !queues.is_empty() && queues.iter().all(|queue| of(queue).1.is_none()) {
        return vec![format!("{what} unknown")];
    }
    let steered: Vec<(u32, &CpuSet)> = queues
        .iter()
        .filter_map(|queue| {
            let (index, cpus) = of(queue);
            Some((index, cpus.filter(|cpus| !cpus.is_empty())?))
        })
        .collect();
    if steered.len() <= MAX_QUEUES {
        return steered
            .iter()
            .map(|(index, cpus)| format!("{what} of {index}: CPUs {}", phrases::cpus(cpus)))
            .collect();
    }
    let all = steered.iter().fold(CpuSet::new(), |all, (_, cpus)| all.union(cpus));
    vec![format!("{what} of {}: CPUs {} together", steered.len(), phrases::cpus(&all))]
}

fn in_brackets(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
}

fn alike(a: &Interrupt, b: &Interrupt) -> bool {
    let bare = |interrupt: &Interrupt| interrupt.name.is_none() && interrupt.affinity.is_none();
    bare(a) && bare(b) && a.effective == b.effective && follows(a, b)
}

/// A summary of many interrupts in one line: each has its own CPU, or nothing is known of any.
fn similar(a: &Interrupt, b: &Interrupt) -> bool {
    a.effective.is_some() == b.effective.is_some() && a.affinity.is_some() == b.affinity.is_some() && follows(a, b)
}

fn follows(a: &Interrupt, b: &Interrupt) -> bool {
    a.number.checked_add(1) == Some(b.number)
}

fn interrupts(run: &[Interrupt]) -> String {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return String::new() };
    let name = |interrupt: &Interrupt| interrupt.name.as_deref().map(|name| plain(name).into_owned());
    if run.len() == 1 {
        let name = name(first).map_or(String::new(), |name| format!(" {name}"));
        return format!("interrupt {}{name}: {}", first.number, served(first));
    }
    let names = match (name(first), name(last)) {
        (Some(first), Some(last)) => format!(" {first} to {last}"),
        _ => String::new(),
    };
    let which = format!("interrupts {}-{}{names}", first.number, last.number);
    if run.iter().all(|interrupt| (&interrupt.effective, &interrupt.affinity) == (&first.effective, &first.affinity)) {
        return format!("{which}: {}", served(first));
    }
    let union = |of: fn(&Interrupt) -> Option<&CpuSet>| {
        run.iter().filter_map(of).fold(CpuSet::new(), |all, cpus| all.union(cpus))
    };
    match first.effective {
        Some(_) => {
            let all = union(|interrupt| interrupt.effective.as_ref());
            let each = if all.len() == run.len() { ", one each" } else { " together" };
            format!("{which}: on CPUs {}{each}", phrases::cpus(&all))
        }
        None => {
            let all = union(|interrupt| interrupt.affinity.as_ref());
            format!("{which}: may be on CPUs {}, which of them is unknown", phrases::cpus(&all))
        }
    }
}

fn served(interrupt: &Interrupt) -> String {
    match (&interrupt.effective, &interrupt.affinity) {
        (Some(effective), affinity) => {
            let wish = affinity.as_ref().filter(|affinity| *affinity != effective);
            let wish = wish.map_or(String::new(), |cpus| format!(" of {}", phrases::cpus(cpus)));
            format!("on CPUs {}{wish}", phrases::cpus(effective))
        }
        (None, Some(affinity)) => format!("may be on CPUs {}, which of them is unknown", phrases::cpus(affinity)),
        (None, None) => "CPUs unknown".to_owned(),
    }
}

/// The first few items, and the number of the rest.
fn list(items: impl Iterator<Item = String>, most: usize) -> String {
    let mut items: Vec<String> = items.collect();
    if items.len() > most {
        let more = items.len() - most;
        items.truncate(most);
        items.push(format!("{more} more"));
    }
    items.join(", ")
}

/// The longest lists that a reader takes in at a glance; the JSON has all.
const MAX_ADDRESSES: usize = 6;
const MAX_NAMES: usize = 16;
const MAX_QUEUES: usize = 4;
const MAX_INTERRUPTS: usize = 4;
