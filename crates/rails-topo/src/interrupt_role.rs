//! What an interrupt of a NIC is for, as its driver's name for it says.

use crate::Interrupt;

/// What an interrupt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptRole {
    /// It serves a pair of queues, or a queue for one direction only.
    Queue {
        /// The queue's index.
        index: u32,
        /// Which queues of that index.
        direction: Direction,
    },
    /// It serves no queue: configuration, link changes, management.
    Control,
    /// The name says nothing that is known here.
    Unknown,
}

/// Which queues an interrupt serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Receive queues.
    Receive,
    /// Transmit queues.
    Transmit,
    /// Both, or the name does not say.
    Both,
}

impl InterruptRole {
    /// The queue's index, if it serves one.
    pub fn queue(self) -> Option<u32> {
        match self {
            Self::Queue { index, .. } => Some(index),
            Self::Control | Self::Unknown => None,
        }
    }
}

impl Interrupt {
    /// What it is for, from the name that its driver gave it.
    ///
    /// Known are the drivers mlx5, ice, ixgbe, i40e, igb, e1000e, bnxt, ena, gve, virtio and vmxnet3, and others that name
    /// vectors alike.
    pub fn role(&self) -> InterruptRole {
        self.name.as_deref().map_or(InterruptRole::Unknown, role)
    }
}

fn role(name: &str) -> InterruptRole {
    // mlx5 and ena add where the device is: `mlx5_comp3@pci:0000:3b:00.0`.
    let name = name.split('@').next().unwrap_or_default().to_ascii_lowercase();
    // Queues first: what stands before the queue may be the interface's own name, and that may well be `mgmt0`.
    if let Some(queue) = queue(&name) {
        return queue;
    }
    if CONTROL.iter().any(|word| name.contains(word)) { InterruptRole::Control } else { InterruptRole::Unknown }
}

fn queue(name: &str) -> Option<InterruptRole> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (words, index) = name.split_at(digits);
    let index = index.parse().ok()?;
    // The longest first: `txrx-` ends with `rx-` too.
    let (_, direction) = QUEUES.iter().find(|(ending, _)| words.ends_with(ending))?;
    Some(InterruptRole::Queue { index, direction: *direction })
}

/// What vectors are called that serve no queue.
const CONTROL: [&str; 6] = ["async", "misc", "config", "mgmnt", "mgmt", "event"];

/// What stands before a queue's index.
const QUEUES: [(&str, Direction); 11] = [
    ("txrx-", Direction::Both),
    ("tx-rx-", Direction::Both),
    ("rxtx-", Direction::Both),
    ("_comp", Direction::Both),
    ("ntfy-blk", Direction::Both),
    ("ntfy-block.", Direction::Both),
    ("-input.", Direction::Receive),
    ("-output.", Direction::Transmit),
    ("-rx-", Direction::Receive),
    ("-tx-", Direction::Transmit),
    ("-q", Direction::Both),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_names_of_common_drivers_are_understood() {
        use Direction::{Both, Receive, Transmit};
        let queue = |index, direction| InterruptRole::Queue { index, direction };
        for (name, expected) in [
            // mlx5_core, pci_irq.c
            ("mlx5_comp3@pci:0000:3b:00.0", queue(3, Both)),
            ("mlx5_async0@pci:0000:3b:00.0", InterruptRole::Control),
            // ice, ice_main.c and ice_lib.c
            ("ice-eth0-TxRx-12", queue(12, Both)),
            ("ice-0000:18:00.0:misc", InterruptRole::Control),
            // ixgbe, i40e, igb: the vector of the interface's own name is for everything else
            ("eth0-TxRx-0", queue(0, Both)),
            ("i40e-eth0-TxRx-63", queue(63, Both)),
            ("i40e-0000:18:00.0:misc", InterruptRole::Control),
            ("igb-eth0-rx-1", queue(1, Receive)),
            ("eth0", InterruptRole::Unknown),
            // bnxt
            ("bnxt_en-eth0-TxRx-5", queue(5, Both)),
            // ena, ena_netdev.c
            ("eth0-Tx-Rx-3", queue(3, Both)),
            ("ena-mgmnt@pci:0000:00:05.0", InterruptRole::Control),
            // gve, gve_main.c
            ("gve-ntfy-blk7@pci:0000:00:04.0", queue(7, Both)),
            ("gve-mgmnt@pci:0000:00:04.0", InterruptRole::Control),
            // virtio_net, virtio_pci_common.c
            ("virtio1-input.0", queue(0, Receive)),
            ("virtio1-output.2", queue(2, Transmit)),
            ("virtio1-config", InterruptRole::Control),
            // vmxnet3, vmxnet3_drv.c
            ("eth0-rxtx-1", queue(1, Both)),
            ("eth0-event-4", InterruptRole::Control),
            // e1000e
            ("eth0-rx-0", queue(0, Receive)),
            ("eth0-tx-0", queue(0, Transmit)),
            // Interfaces are called what their users like.
            ("mgmt0-TxRx-3", queue(3, Both)),
            ("i40e-eventnet-TxRx-1", queue(1, Both)),
            // Of other devices.
            ("nvme0q3", InterruptRole::Unknown),
            ("i8042", InterruptRole::Unknown),
            ("", InterruptRole::Unknown),
            ("eth0-rx-99999999999", InterruptRole::Unknown),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "\\PC{0,40}|(eth|rx|tx|-|[0-9]|@){0,20}") {
            let _ = role(&name);
        }
    }
}
