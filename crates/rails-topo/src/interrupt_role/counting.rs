//! What an interrupt is for, where that takes the other interrupts of the NIC to tell.

use super::{Direction, InterruptRole};
use crate::{Interrupt, Nic};

impl Nic {
    /// What `interrupt`, one of this NIC's, is for: by its name, and by how the NIC's driver counts.
    ///
    /// Beyond [`Interrupt::role`] this knows that
    /// - gve's notification blocks are those of the transmit queues first, then those of the receive queues;
    /// - vmxnet3 numbers vectors, so that its receive queues do not begin with 0 unless each shares a vector with a transmit queue, and one
    ///   vector can serve all transmit queues;
    /// - idpf numbers vectors too, and so did mlx5 in some versions;
    /// - a vector of the interface's own name is for all but the queues where these have vectors of their own, and the only interrupt of a
    ///   NIC is for everything.
    pub fn role_of(&self, interrupt: &Interrupt) -> InterruptRole {
        let role = interrupt.role();
        match (self.driver.as_deref(), role) {
            (Some("gve"), InterruptRole::Queues(_)) => self.notification_block(interrupt).unwrap_or(role),
            (Some("vmxnet3"), InterruptRole::Queue { index, direction }) => self.of_vmxnet3(index, direction),
            (Some("idpf" | "mlx5_core"), InterruptRole::Queue { index, direction }) => {
                InterruptRole::Queue { index: index.saturating_sub(self.first_like(interrupt).unwrap_or(0)), direction }
            }
            (_, InterruptRole::Unknown) => self.of_own_name(interrupt),
            _ => role,
        }
    }

    /// drivers/net/ethernet/google/gve/gve.h: `gve_tx_idx_to_ntfy`, `gve_rx_idx_to_ntfy`.
    fn notification_block(&self, interrupt: &Interrupt) -> Option<InterruptRole> {
        let (_, block) = numbered(interrupt)?;
        let is_block = |other: &&Interrupt| matches!(other.role(), InterruptRole::Queues(_));
        let half = u32::try_from(self.interrupts.iter().filter(is_block).count()).ok()? / 2;
        Some(match block.checked_sub(half) {
            None => InterruptRole::Queue { index: block, direction: Direction::Transmit },
            Some(index) => InterruptRole::Queue { index, direction: Direction::Receive },
        })
    }

    /// drivers/net/vmxnet3/vmxnet3_drv.c, `vmxnet3_request_irqs`: vectors of transmit queues come first, and with `TXSHARE` there is one.
    fn of_vmxnet3(&self, index: u32, direction: Direction) -> InterruptRole {
        let transmits = |interrupt: &Interrupt| {
            matches!(interrupt.role(), InterruptRole::Queue { direction: Direction::Transmit, .. })
        };
        let before = self.interrupts.iter().filter(|interrupt| transmits(interrupt)).count();
        match direction {
            Direction::Receive => {
                let before = u32::try_from(before).unwrap_or(u32::MAX);
                InterruptRole::Queue { index: index.saturating_sub(before), direction }
            }
            Direction::Transmit if before == 1 && self.tx_queues.len() > 1 => InterruptRole::Queues(direction),
            _ => InterruptRole::Queue { index, direction },
        }
    }

    /// The lowest number among those that are named like this one. Vector 0 of idpf is for its mailbox (idpf_txrx.c,
    /// `idpf_vport_intr_req_irq`), and that of mlx5 for asynchronous events, which some versions
    /// counted along (pci_irq.c, `irq_set_name`).
    fn first_like(&self, interrupt: &Interrupt) -> Option<u32> {
        let (words, _) = numbered(interrupt)?;
        let alike = self.interrupts.iter().filter_map(numbered).filter(|(others, _)| *others == words);
        alike.map(|(_, number)| number).min()
    }

    fn of_own_name(&self, interrupt: &Interrupt) -> InterruptRole {
        let serving = self.interrupts.iter().any(|other| other.role().serves_queues());
        match interrupt.name.as_deref() {
            Some(_) if self.interrupts.len() == 1 => InterruptRole::Queues(Direction::Both),
            Some(name) if serving && name == self.name => InterruptRole::Control,
            _ => InterruptRole::Unknown,
        }
    }
}

/// The name's end without what follows an `@`, as the words before the number and the number.
fn numbered(interrupt: &Interrupt) -> Option<(&str, u32)> {
    let name = interrupt.name.as_deref()?.split('@').next()?;
    let words = name.trim_end_matches(|character: char| character.is_ascii_digit());
    Some((words, name[words.len()..].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TxQueue;
    use Direction::{Both, Receive, Transmit};
    use InterruptRole::{Control, Queue, Queues, Unknown};
    use proptest::prelude::*;

    /// A NIC of this driver whose vectors have these names.
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
    fn the_blocks_of_gve_are_of_transmit_queues_first() {
        let blocks = ["gve-ntfy-blk0@pci:0", "gve-ntfy-blk1@pci:0", "gve-ntfy-blk2@pci:0", "gve-ntfy-blk3@pci:0"];
        let gve = nic("gve", &[&blocks[..], &["gve-mgmnt@pci:0"]].concat());
        let expected = [queue(0, Transmit), queue(1, Transmit), queue(0, Receive), queue(1, Receive), Control];
        assert_eq!(roles(&gve), expected);
    }

    #[test]
    fn the_receive_queues_of_vmxnet3_come_after_the_vectors_for_transmission() {
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
    fn vectors_that_are_counted_along_do_not_shift_the_queues() {
        let idpf = nic("idpf", &["idpf-Mailbox-0", "idpf-eth0-TxRx-1", "idpf-eth0-TxRx-2"]);
        assert_eq!(roles(&idpf), [Control, queue(0, Both), queue(1, Both)]);
        let mlx5 = nic("mlx5_core", &["mlx5_async0@pci:0", "mlx5_comp1@pci:0", "mlx5_comp2@pci:0"]);
        assert_eq!(roles(&mlx5), [Control, queue(0, Both), queue(1, Both)]);
        let mlx5 = nic("mlx5_core", &["mlx5_async0@pci:0", "mlx5_comp0@pci:0", "mlx5_comp1@pci:0"]);
        assert_eq!(roles(&mlx5), [Control, queue(0, Both), queue(1, Both)]);
    }

    #[test]
    fn a_vector_of_the_interfaces_own_name_is_for_the_rest() {
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
