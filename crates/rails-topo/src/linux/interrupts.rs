//! Interrupts of a device, with their names and CPUs.

use super::root::Root;
use crate::{CpuSet, Interrupt, InterruptLine, InterruptLines};
use std::collections::BTreeMap;

/// The names that drivers gave their interrupts, by number, from `/proc/interrupts`.
pub(super) struct InterruptNames(BTreeMap<u32, String>);

impl InterruptNames {
    pub(super) fn read(root: &Root) -> Self {
        Self::parse(&root.text("proc/interrupts").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let named = |line: InterruptLine<'_>| Some((line.number, line.name?.to_owned()));
        Self(InterruptLines::parse(text).filter_map(named).collect())
    }
}

/// The interrupts of the device in `folder` (a PCI function): its MSI vectors, or its one legacy
/// interrupt.
pub(super) fn of_device(root: &Root, folder: &str, names: &InterruptNames) -> Vec<Interrupt> {
    let vectors = root.numbered(&format!("{folder}/msi_irqs"), "");
    let legacy = || root.value::<u32>(&format!("{folder}/irq")).filter(|number| *number > 0);
    let numbers = if vectors.is_empty() { legacy().into_iter().collect() } else { vectors };
    let interrupt = |number| {
        let (affinity, effective) = served(root, number);
        Interrupt { number, name: names.0.get(&number).cloned(), affinity, effective }
    };
    numbers.into_iter().map(interrupt).collect()
}

/// The CPUs that may serve an interrupt, and those that do; each is `None` if unknown.
pub(crate) type Served = (Option<CpuSet>, Option<CpuSet>);

/// The CPUs of an interrupt.
pub(crate) fn served(root: &Root, number: u32) -> Served {
    let cpus = |name| {
        let file = format!("proc/irq/{number}/{name}");
        root.set(&format!("{file}_list"), &file).filter(|cpus: &CpuSet| !cpus.is_empty())
    };
    (cpus("smp_affinity"), cpus("effective_affinity"))
}
