//! The interrupt of each queue.

use super::{Direction, InterruptRole};
use crate::{CpuSet, Interrupt, Nic};
use std::collections::{BTreeMap, BTreeSet};

impl Nic {
    /// The NIC's interrupt of that number.
    pub fn interrupt(&self, number: u32) -> Option<&Interrupt> {
        self.interrupts.iter().find(|interrupt| interrupt.number == number)
    }

    /// Assigns interrupts to queues by the names of this NIC's interrupts.
    ///
    /// `on_device` are the names of all interfaces of the same device: the others' interrupts are
    /// listed with this one's, and some drivers number each interface's queues from 0 (cxgb4:
    /// `eth0-Rx3`, `eth1-Rx3`).
    pub(crate) fn assign_interrupts(&mut self, on_device: &BTreeSet<&str>) {
        let claims = Claims::of(self, on_device);
        self.rx_queues.iter_mut().for_each(|queue| queue.interrupt = claims.receive.interrupt_of(queue.index));
        self.tx_queues.iter_mut().for_each(|queue| queue.interrupt = claims.transmit.interrupt_of(queue.index));
    }
}

impl Interrupt {
    /// The CPUs that serve the interrupt: `effective` if it is known, else `affinity`. `None` is
    /// unknown.
    pub fn cpus(&self) -> Option<&CpuSet> {
        self.effective.as_ref().or(self.affinity.as_ref())
    }
}

/// The interrupts by queue.
#[derive(Default)]
struct Claims {
    receive: Direct,
    transmit: Direct,
}

/// The interrupts of the queues of one direction.
#[derive(Default)]
struct Direct {
    by_queue: BTreeMap<u32, Claim>,
    /// The interrupts of unknown queues.
    shared: Option<Claim>,
    /// Whether an interrupt has an unknown role.
    has_unknown: bool,
}

/// The interrupts that claim a queue.
#[derive(Clone, Copy)]
enum Claim {
    One(u32),
    /// Several; at most one is right, and nothing decides which.
    Several,
}

impl Claims {
    fn of(nic: &Nic, on_device: &BTreeSet<&str>) -> Self {
        let mut claims = Self::default();
        for (interrupt, role) in nic.interrupt_roles() {
            let Some(name) = interrupt.name.as_deref() else { continue };
            if is_of_another(name, &nic.name, on_device) {
                continue;
            }
            match role {
                InterruptRole::Queue { index, direction } => claims.each(direction, |direct| {
                    let claim = direct.by_queue.get(&index).copied();
                    direct.by_queue.insert(index, Claim::beside(claim, interrupt.number));
                }),
                InterruptRole::Queues(direction) => claims.each(direction, |direct| {
                    direct.shared = Some(Claim::beside(direct.shared, interrupt.number));
                }),
                InterruptRole::Unknown => claims.each(Direction::Both, |direct| direct.has_unknown = true),
                InterruptRole::Control => {}
            }
        }
        claims
    }

    fn each(&mut self, direction: Direction, change: impl Fn(&mut Direct)) {
        if direction != Direction::Transmit {
            change(&mut self.receive);
        }
        if direction != Direction::Receive {
            change(&mut self.transmit);
        }
    }
}

impl Direct {
    /// The interrupt that claims the queue, or the only interrupt that serves queues at all.
    fn interrupt_of(&self, queue: u32) -> Option<u32> {
        match (self.by_queue.get(&queue), self.shared) {
            (Some(Claim::One(number)), _) => Some(*number),
            (None, Some(Claim::One(number))) if self.by_queue.is_empty() && !self.has_unknown => Some(number),
            _ => None,
        }
    }
}

impl Claim {
    fn beside(other: Option<Self>, number: u32) -> Self {
        if other.is_none() { Self::One(number) } else { Self::Several }
    }
}

/// Whether the longest interface name within an interrupt's name is that of another interface than
/// `own`.
///
/// A vector's name with another interface's name in it states nothing: interfaces are renamed,
/// interrupts are not.
fn is_of_another(interrupt: &str, own: &str, on_device: &BTreeSet<&str>) -> bool {
    if on_device.iter().all(|name| *name == own) {
        return false;
    }
    let is_edge = |(at, character): (usize, char)| (!character.is_alphanumeric()).then_some((at, character));
    let edges: Vec<(usize, char)> = interrupt.char_indices().filter_map(is_edge).take(MAX_WORDS).collect();
    let starts = || std::iter::once(0).chain(edges.iter().map(|(at, character)| at + character.len_utf8()));
    let ends = || edges.iter().map(|(at, _)| *at).chain([interrupt.len()]);
    let parts = starts().flat_map(|start| ends().filter_map(move |end| interrupt.get(start..end)));
    let named = parts.filter(|part| *part == own || on_device.contains(part));
    named.max_by_key(|part| (part.len(), *part == own)).is_some_and(|part| part != own)
}

/// Names that drivers give have fewer words; a name from a captured machine may have any number.
const MAX_WORDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RxQueue, TxQueue};
    use proptest::prelude::*;

    /// The interrupts of the receive and the transmit queues of a NIC with vectors of these names,
    /// from 40 on.
    fn assigned(driver: &str, queues: (u32, u32), names: &[&str], beside: &[&str]) -> [Vec<Option<u32>>; 2] {
        let name = |name: &&str| (!name.is_empty()).then(|| (*name).to_owned());
        let interrupt =
            |(number, text): (u32, &&str)| Interrupt { number, name: name(text), affinity: None, effective: None };
        let mut nic = Nic {
            driver: Some(driver.to_owned()),
            rx_queues: (0..queues.0).map(|index| RxQueue { index, ..RxQueue::default() }).collect(),
            tx_queues: (0..queues.1).map(|index| TxQueue { index, ..TxQueue::default() }).collect(),
            interrupts: (40..).zip(names).map(interrupt).collect(),
            ..Nic::named("eth0")
        };
        nic.assign_interrupts(&beside.iter().copied().collect());
        let receive = nic.rx_queues.iter().map(|queue| queue.interrupt).collect();
        [receive, nic.tx_queues.iter().map(|queue| queue.interrupt).collect()]
    }

    /// Queues whose interrupts begin with this one.
    fn from(first: u32, queues: u32) -> Vec<Option<u32>> {
        (first..first + queues).map(Some).collect()
    }

    #[test]
    fn queues_of_common_drivers_by_vector_names() {
        for (driver, names) in [
            ("mlx5_core", ["mlx5_async0@pci:0", "mlx5_comp0@pci:0", "mlx5_comp1@pci:0"]),
            ("ice", ["ice-0000:18:00.0:misc", "ice-eth0-TxRx-0", "ice-eth0-TxRx-1"]),
            ("ixgbe", ["eth0", "eth0-TxRx-0", "eth0-TxRx-1"]),
            ("i40e", ["i40e-0000:18:00.0:misc", "i40e-eth0-TxRx-0", "i40e-eth0-TxRx-1"]),
            ("igb", ["eth0", "eth0-TxRx-0", "eth0-TxRx-1"]),
            ("bnxt_en", ["", "eth0-TxRx-0", "eth0-TxRx-1"]),
            ("ena", ["ena-mgmnt@pci:0", "eth0-Tx-Rx-0", "eth0-Tx-Rx-1"]),
            ("idpf", ["idpf-Mailbox-0", "idpf-eth0-TxRx-1", "idpf-eth0-TxRx-2"]),
            ("mana", ["mana_hwc@pci:0", "mana_q0@pci:0", "mana_q1@pci:0"]),
        ] {
            assert_eq!(assigned(driver, (2, 2), &names, &[]), [from(41, 2), from(41, 2)], "{driver}");
        }
        let virtio = ["virtio1-config", "virtio1-input.0", "virtio1-output.0", "virtio1-input.1", "virtio1-output.1"];
        let expected = [vec![Some(41), Some(43)], vec![Some(42), Some(44)]];
        assert_eq!(assigned("virtio_net", (2, 2), &virtio, &[]), expected);
        let gve = ["gve-ntfy-blk0@pci:0", "gve-ntfy-blk1@pci:0", "gve-ntfy-blk2@pci:0", "gve-ntfy-blk3@pci:0"];
        assert_eq!(assigned("gve", (2, 2), &gve, &[]), [from(42, 2), from(40, 2)]);
        let bnxt = ["eth0-rx-0", "eth0-rx-1", "eth0-tx-2", "eth0-tx-3"];
        assert_eq!(assigned("bnxt_en", (2, 2), &bnxt, &[]), [from(40, 2), from(42, 2)]);
    }

    #[test]
    fn one_interrupt_for_all_queues_is_every_queues() {
        let both = [vec![Some(40); 2], vec![Some(40); 3]];
        assert_eq!(assigned("virtio_net", (2, 3), &["virtio1-virtqueues", "virtio1-config"], &[]), both);
        assert_eq!(assigned("e1000", (2, 3), &["eth0"], &[]), both);
        let vmxnet3 = ["eth0-tx-0", "eth0-rx-1", "eth0-rx-2", "eth0-event-3"];
        assert_eq!(assigned("vmxnet3", (2, 2), &vmxnet3, &[]), [from(41, 2), vec![Some(40); 2]]);
    }

    #[test]
    fn where_the_names_do_not_say_nothing_is_guessed() {
        let none = [vec![None; 2], vec![None; 2]];
        assert_eq!(assigned("igb", (2, 2), &["", "", ""], &[]), none, "a captured machine without /proc/interrupts");
        assert_eq!(assigned("mlx4_core", (2, 2), &["mlx4-1@0000:3b:00.0", "mlx4-2@0000:3b:00.0"], &[]), none);
        assert_eq!(assigned("virtio_net", (2, 2), &["virtio1-virtqueues", "something"], &[]), none);
        assert_eq!(assigned("igb", (2, 2), &["eth0-TxRx-0", "eth0-TxRx-0"], &[]), none, "two say to be of one queue");
        assert_eq!(assigned("i40e", (2, 2), &["i40e-eth0-TxRx-0"], &[]), [vec![Some(40); 2], vec![Some(40); 2]]);
        let spread = assigned("ice", (4, 4), &["ice-eth0-TxRx-0", "ice-eth0-TxRx-1"], &[]);
        assert_eq!(spread, [vec![None; 4], vec![None; 4]], "vector 1 is of queues 2 and 3");
        let beyond = assigned("virtio_net", (2, 2), &["virtio1-input.0", "virtio1-output.0"], &[]);
        assert_eq!(beyond, [vec![Some(40), None], vec![Some(41), None]], "a queue without an interrupt");
        let subfunction = ["mlx5_comp0@pci:0", "mlx5_comp1@pci:0", "mlx5_sf_comp0@pci:0", "mlx5_sf_comp1@pci:0"];
        assert_eq!(assigned("mlx5_core.sf", (2, 2), &subfunction, &[]), none);
    }

    #[test]
    fn interrupts_of_sibling_interfaces() {
        let names = ["eth0-Rx0", "eth0-Rx1", "eth0-1-Rx0", "eth0-1-Rx1", "eth1 (queue 0)", "eth0-FWeventq"];
        let [receive, _] = assigned("cxgb4", (2, 0), &names, &["eth0-1", "eth1"]);
        assert_eq!(receive, from(40, 2));
        let [receive, _] = assigned("cxgb4", (2, 0), &names, &[]);
        assert_eq!(receive, [None, None], "nothing tells whose they are");
        let [receive, _] = assigned("igb", (2, 0), &["old-TxRx-0", "old-TxRx-1"], &["eth1"]);
        assert_eq!(receive, from(40, 2), "the interface was renamed");
    }

    #[test]
    fn ten_thousand_vectors_are_told_apart_in_one_pass() {
        for driver in ["mlx5_core", "igb", "i40e", "idpf", "bnxt_en", "gve", "vmxnet3"] {
            let names: Vec<String> = (0..10_000).map(|queue| format!("eth0-TxRx-{queue}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let [receive, transmit] = assigned(driver, (10_000, 10_000), &names, &["eth1"]);
            assert_eq!((receive, transmit), (from(40, 10_000), from(40, 10_000)), "{driver}");
        }
    }

    proptest! {
        #[test]
        fn any_set_of_vector_names(
            driver in "gve|vmxnet3|idpf|mlx5_core|igb|ice|bnxt_en|cxgb4",
            queues in (0..4_u32, 0..4_u32),
            names in proptest::collection::vec("(eth0|eth1|é|-input\\.|-tx-|-rx-|-TxRx-|@| |[0-3]){0,5}", 0..8),
            beside in proptest::collection::vec("eth[01]|é", 0..2),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
            let assigned = assigned(&driver, queues, &names, &beside);
            let there = 40..40 + names.len() as u32;
            prop_assert!(assigned.iter().flatten().flatten().all(|number| there.contains(number)));
        }
    }
}
