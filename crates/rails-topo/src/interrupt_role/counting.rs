//! Roles of interrupts that depend on the other interrupts of the NIC.

use super::{Direction, InterruptRole};
use crate::{Interrupt, Nic};
use std::{cell::OnceCell, collections::BTreeMap};

impl Nic {
    /// The role of `interrupt`, one of this NIC's, by its name and by the driver's way of
    /// numbering.
    ///
    /// Beyond [`Interrupt::role`] this knows that
    /// - gve's notification blocks are those of the transmit queues first, then those of the
    ///   receive queues;
    /// - vmxnet3 numbers vectors, so that its receive queues do not begin with 0 unless each shares
    ///   a vector with a transmit queue, and one vector can serve all transmit queues;
    /// - bnxt numbers vectors, so that its transmit queues come after its receive queues where they
    ///   share none;
    /// - idpf numbers vectors too, and so did mlx5 in some versions;
    /// - i40e, iavf, ice, idpf, ixgbevf and fm10k number vectors, each for several queues where
    ///   there are fewer vectors than queues;
    /// - the queues of a subfunction of mlx5 have vectors of their own, so the vectors of the
    ///   function's queues state nothing;
    /// - a vector of the interface's own name is for all but the queues where these have vectors of
    ///   their own, and the only interrupt of a NIC is for everything.
    ///
    /// [`interrupt_roles`](Nic::interrupt_roles) is faster for all interrupts at once.
    pub fn role_of(&self, interrupt: &Interrupt) -> InterruptRole {
        Counting::of(self).role(interrupt)
    }

    /// The role of each of this NIC's interrupts, in their order: as [`role_of`](Nic::role_of), in
    /// one pass.
    pub fn interrupt_roles(&self) -> impl Iterator<Item = (&Interrupt, InterruptRole)> {
        let counting = Counting::of(self);
        self.interrupts.iter().map(move |interrupt| (interrupt, counting.role(interrupt)))
    }
}

/// Facts about all of a NIC's interrupts, each computed on first use: the names of most drivers
/// need none.
struct Counting<'a> {
    nic: &'a Nic,
    census: OnceCell<Census>,
    /// The lowest number among equal names, by the words before the number.
    lowest: OnceCell<BTreeMap<&'a str, u32>>,
}

/// Counts of interrupts, by the role that their own names give.
#[derive(Default)]
struct Census {
    /// Interrupts of unnumbered queues.
    shared: u32,
    /// Interrupts of a receive queue, with or without a transmit queue.
    receiving: u32,
    /// Interrupts of a transmit queue, with or without a receive queue.
    transmitting: u32,
    /// Interrupts of a transmit queue alone.
    only_transmitting: u32,
}

impl<'a> Counting<'a> {
    fn of(nic: &'a Nic) -> Self {
        Self { nic, census: OnceCell::new(), lowest: OnceCell::new() }
    }

    fn role(&self, interrupt: &Interrupt) -> InterruptRole {
        let role = interrupt.role();
        match (self.nic.driver.as_deref(), role) {
            (Some("gve"), InterruptRole::Queues(_)) => self.notification_block(interrupt).unwrap_or(role),
            (Some("vmxnet3"), InterruptRole::Queue { index, direction }) => self.of_vmxnet3(index, direction),
            // drivers/net/ethernet/broadcom/bnxt/bnxt.c, `bnxt_setup_msix`; bnge, its successor, does the same.
            (Some("bnxt_en" | "bnge"), InterruptRole::Queue { index, direction: direction @ Direction::Transmit }) => {
                InterruptRole::Queue { index: self.counted_from_lowest(interrupt, index), direction }
            }
            // drivers/net/ethernet/mellanox/mlx5/core/pci_irq.c, `irq_pools_init`: pools of their own, where there are
            // vectors enough.
            (Some("mlx5_core.sf"), InterruptRole::Queue { .. }) => InterruptRole::Unknown,
            (Some("mlx5_core"), InterruptRole::Queue { index, direction }) => {
                InterruptRole::Queue { index: self.counted_from_lowest(interrupt, index), direction }
            }
            (Some(driver), InterruptRole::Queue { index, direction }) if SPREADING.contains(&driver) => {
                match (self.has_fewer_vectors_than_queues(direction), driver) {
                    (true, _) => InterruptRole::Queues(direction),
                    (false, "idpf") => {
                        InterruptRole::Queue { index: self.counted_from_lowest(interrupt, index), direction }
                    }
                    (false, _) => role,
                }
            }
            (_, InterruptRole::Unknown) => self.of_own_name(interrupt),
            _ => role,
        }
    }

    /// drivers/net/ethernet/google/gve/gve.h: `gve_tx_idx_to_ntfy`, `gve_rx_idx_to_ntfy`.
    fn notification_block(&self, interrupt: &Interrupt) -> Option<InterruptRole> {
        let (_, block) = numbered(interrupt)?;
        let half = self.census().shared / 2;
        Some(match block.checked_sub(half) {
            None => InterruptRole::Queue { index: block, direction: Direction::Transmit },
            Some(index) => InterruptRole::Queue { index, direction: Direction::Receive },
        })
    }

    /// drivers/net/vmxnet3/vmxnet3_drv.c, `vmxnet3_request_irqs`: vectors of transmit queues come
    /// first, and with `TXSHARE` there is one.
    fn of_vmxnet3(&self, index: u32, direction: Direction) -> InterruptRole {
        let before = self.census().only_transmitting;
        match direction {
            Direction::Receive => InterruptRole::Queue { index: index.saturating_sub(before), direction },
            Direction::Transmit if before == 1 && self.nic.tx_queues.len() > 1 => InterruptRole::Queues(direction),
            _ => InterruptRole::Queue { index, direction },
        }
    }

    /// The number counted from the lowest of the interrupts with the same name. Vector 0 of idpf is
    /// for its mailbox (idpf_txrx.c, `idpf_vport_intr_req_irq`), and that of mlx5 for
    /// asynchronous events, which some versions count too (pci_irq.c, `irq_set_name`).
    fn counted_from_lowest(&self, interrupt: &Interrupt, index: u32) -> u32 {
        let lowest = self.lowest.get_or_init(|| {
            let mut lowest = BTreeMap::new();
            for (words, number) in self.nic.interrupts.iter().filter_map(numbered) {
                lowest.entry(words).and_modify(|lowest: &mut u32| *lowest = number.min(*lowest)).or_insert(number);
            }
            lowest
        });
        let first = numbered(interrupt).and_then(|(words, _)| lowest.get(words)).copied();
        index.saturating_sub(first.unwrap_or(0))
    }

    fn has_fewer_vectors_than_queues(&self, direction: Direction) -> bool {
        let census = self.census();
        let receives = self.nic.rx_queues.len() > census.receiving as usize;
        let transmits = self.nic.tx_queues.len() > census.transmitting as usize;
        match direction {
            Direction::Receive => receives,
            Direction::Transmit => transmits,
            Direction::Both => receives || transmits,
        }
    }

    fn of_own_name(&self, interrupt: &Interrupt) -> InterruptRole {
        let census = || self.census();
        let serving = || census().shared + census().receiving + census().transmitting > 0;
        match interrupt.name.as_deref() {
            Some(_) if self.nic.interrupts.len() == 1 => InterruptRole::Queues(Direction::Both),
            Some(name) if name == self.nic.name && serving() => InterruptRole::Control,
            _ => InterruptRole::Unknown,
        }
    }

    fn census(&self) -> &Census {
        self.census.get_or_init(|| {
            let mut census = Census::default();
            for interrupt in &self.nic.interrupts {
                match interrupt.role() {
                    InterruptRole::Queues(_) => census.shared += 1,
                    InterruptRole::Queue { direction, .. } => {
                        census.receiving += u32::from(direction != Direction::Transmit);
                        census.transmitting += u32::from(direction != Direction::Receive);
                        census.only_transmitting += u32::from(direction == Direction::Transmit);
                    }
                    InterruptRole::Control | InterruptRole::Unknown => {}
                }
            }
            census
        })
    }
}

/// The end of the name before an `@`, as the words before the number and the number.
fn numbered(interrupt: &Interrupt) -> Option<(&str, u32)> {
    let name = interrupt.name.as_deref()?.split('@').next()?;
    let words = name.trim_end_matches(|character: char| character.is_ascii_digit());
    Some((words, name[words.len()..].parse().ok()?))
}

/// Drivers that number vectors, and give each a run of queues if there are more queues:
/// `i40e_vsi_map_rings_to_vectors` and similar functions. (ixgbe deals queues out in turn, so that
/// a vector's number is that of its first queue.)
const SPREADING: [&str; 6] = ["i40e", "iavf", "ice", "idpf", "ixgbevf", "fm10k"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TxQueue;
    use Direction::{Both, Receive, Transmit};
    use InterruptRole::{Control, Queue, Queues, Unknown};
    use proptest::prelude::*;

    /// A NIC of this driver with vectors of these names.
    fn nic(driver: &str, names: &[&str]) -> Nic {
        let interrupt = |(number, name): (usize, &&str)| Interrupt {
            number: number as u32 + 40,
            name: Some((*name).to_owned()),
            affinity: None,
            effective: None,
        };
        Nic {
            driver: Some(driver.to_owned()),
            interrupts: names.iter().enumerate().map(interrupt).collect(),
            ..Nic::named("eth0")
        }
    }

    fn roles(nic: &Nic) -> Vec<InterruptRole> {
        nic.interrupts.iter().map(|interrupt| nic.role_of(interrupt)).collect()
    }

    fn queue(index: u32, direction: Direction) -> InterruptRole {
        Queue { index, direction }
    }

    #[test]
    fn blocks_of_gve_are_of_transmit_queues_first() {
        let blocks = ["gve-ntfy-blk0@pci:0", "gve-ntfy-blk1@pci:0", "gve-ntfy-blk2@pci:0", "gve-ntfy-blk3@pci:0"];
        let gve = nic("gve", &[&blocks[..], &["gve-mgmnt@pci:0"]].concat());
        let expected = [queue(0, Transmit), queue(1, Transmit), queue(0, Receive), queue(1, Receive), Control];
        assert_eq!(roles(&gve), expected);
    }

    #[test]
    fn receive_queues_of_vmxnet3_after_transmit() {
        let apart = nic("vmxnet3", &["eth0-tx-0", "eth0-tx-1", "eth0-rx-2", "eth0-rx-3", "eth0-event-4"]);
        assert_eq!(
            roles(&apart),
            [queue(0, Transmit), queue(1, Transmit), queue(0, Receive), queue(1, Receive), Control]
        );
        let paired = nic("vmxnet3", &["eth0-rxtx-0", "eth0-rxtx-1", "eth0-event-2"]);
        assert_eq!(roles(&paired), [queue(0, Both), queue(1, Both), Control]);
        let mut shared = nic("vmxnet3", &["eth0-tx-0", "eth0-rx-1", "eth0-rx-2", "eth0-event-3"]);
        shared.tx_queues = (0..2).map(|index| TxQueue { index, ..TxQueue::default() }).collect();
        assert_eq!(roles(&shared), [Queues(Transmit), queue(0, Receive), queue(1, Receive), Control]);
    }

    #[test]
    fn other_vectors_do_not_shift_the_queues() {
        let idpf = nic("idpf", &["idpf-Mailbox-0", "idpf-eth0-TxRx-1", "idpf-eth0-TxRx-2"]);
        assert_eq!(roles(&idpf), [Control, queue(0, Both), queue(1, Both)]);
        let mlx5 = nic("mlx5_core", &["mlx5_async0@pci:0", "mlx5_comp1@pci:0", "mlx5_comp2@pci:0"]);
        assert_eq!(roles(&mlx5), [Control, queue(0, Both), queue(1, Both)]);
        let mlx5 = nic("mlx5_core", &["mlx5_async0@pci:0", "mlx5_comp0@pci:0", "mlx5_comp1@pci:0"]);
        assert_eq!(roles(&mlx5), [Control, queue(0, Both), queue(1, Both)]);
    }

    #[test]
    fn vector_with_the_interfaces_own_name() {
        assert_eq!(roles(&nic("igb", &["eth0", "eth0-TxRx-0"])), [Control, queue(0, Both)]);
        assert_eq!(roles(&nic("e1000", &["eth0"])), [Queues(Both)], "it is the only one");
        assert_eq!(roles(&nic("other", &["eth0", "eth0-what"])), [Unknown, Unknown]);
    }

    proptest! {
        #[test]
        fn no_set_of_names_makes_it_panic(
            driver in "gve|vmxnet3|idpf|mlx5_core|igb",
            names in proptest::collection::vec("(eth0|gve-ntfy-blk|-tx-|-rx-|-TxRx-|@|é|[0-9]{1,12}){0,4}", 0..8),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            roles(&nic(&driver, &names));
        }
    }
}
